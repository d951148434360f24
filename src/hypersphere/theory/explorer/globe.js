// The sphere's part of the page: its fields, the motion, and margins beside the best known.
const globe = (() => {
  const { element, field } = controls;
  const { TABLE } = losses;
  const $ = (id) => document.getElementById(id);
  const STARTS = ["sphere.k", "sphere.n", "sphere.seed"];
  const EXPORTED = 640;
  const SETTLED = 400;
  const [FIRST_SLICE, SLICE] = [300, 30];
  const best = JSON.parse($("data").textContent).tammes;

  let page = null;
  let world = null;
  let playing = false;
  let resting = false;
  let changed = () => {};

  const value = (name) => page.values[`sphere.${name}`];

  // The chosen loss's parameters: k classes in 3-D, with the scale of this sphere.
  const parameters = (values) =>
    losses.resolve(value("loss"), values, { C: value("k"), d: 3, s: value("s") });

  function showFields() {
    const name = value("loss");
    const { groups, formula, equation } = TABLE[name];
    $("sphere-loss").value = name;
    const general = settings.SPHERE.filter((item) => item.key !== "sphere.s" || groups.includes("scale"));
    const own = losses.settingsOf(name).filter((item) => item.key.includes("."));
    const text = element("p", { className: "formula" }, `${formula} (${equation})`);
    const automatic = (key) => parameters({ ...page.values, [key]: null }).b;
    const state = { get values() { return page.values; }, change: page.change, automatic };
    $("sphere-fields").replaceChildren(text, ...[...general, ...own].map((item) => field(item, state)));
  }

  function restart() {
    resting = false;
    world = motion.start(value("k"), value("n"), value("seed"));
  }

  // Lets the sphere come to rest: at once if that is quick, a slice in each frame where it is large.
  function settle() {
    restart();
    resting = true;
    slice(world, FIRST_SLICE);
  }

  function slice(reached, milliseconds) {
    if (world !== reached || !resting) return;
    const end = performance.now() + milliseconds;
    while (!settled() && performance.now() < end) advance(1);
    const now = world;
    if (settled()) return;
    requestAnimationFrame(() => {
      slice(now, SLICE);
      show();
    });
  }

  const settled = () => world.step >= SETTLED || Boolean(world.still);

  function advance(count) {
    const p = parameters(page.values);
    for (let i = 0; i < count; i++) world = motion.advance(world, value("loss"), p, value("rate"));
    if (world.still) play(false);
  }

  function play(on) {
    if (on && resting) restart();
    if (on && !playing) requestAnimationFrame(frame);
    playing = on;
    showButton();
  }

  // What is at rest can only be played from its start.
  function showButton() {
    $("play").textContent = playing ? "Pause" : resting ? "Play from the start" : "Play";
  }

  function frame() {
    if (!playing) return;
    advance(value("speed"));
    show();
    requestAnimationFrame(frame);
  }

  const scene = (size, palette) =>
    drawing.scene(world, { turn: value("turn"), tilt: value("tilt"), size, palette });

  function show() {
    const canvas = $("canvas");
    const size = Math.max(1, Math.round(canvas.clientWidth * window.devicePixelRatio));
    if (canvas.width !== size) canvas.width = canvas.height = size;
    const style = getComputedStyle(document.documentElement);
    const named = ["ink", "soft", "paper", "line"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]);
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, size, size);
    drawing.paint(context, scene(size, Object.fromEntries(named)));
    showButton();
    showMargins();
  }

  function showMargins() {
    const most = best[world.classes];
    const margins = motion.margins(world);
    const loss = world.loss === undefined ? "–" : world.loss.toPrecision(4);
    $("margins").replaceChildren(
      ...written("step", String(world.step)),
      ...written("loss", world.still ? `${loss}: nothing pulls any more` : loss),
      ...(world.bias.value === null ? [] : written("bias b, learned", world.bias.value.toPrecision(4))),
      ...measured("class margin", margins.classes, most, "eq. 2.2"),
      ...measured("sample margin", margins.samples, most, `in cosines ${margins.cosine.toFixed(3)}, eq. 2.6`),
      ...written("best known", `${most.toFixed(4)}° for ${world.classes} points (Tammes)`),
    );
  }

  const written = (name, text) => [element("dt", {}, name), element("dd", {}, text)];

  function measured(name, degrees, most, note) {
    const label = `${name} beside the best known`;
    const meter = element("meter", { min: 0, max: most, value: Math.max(0, degrees), "aria-label": label });
    const text = `${degrees.toFixed(2)}° of ${most.toFixed(2)}° `;
    return [element("dt", {}, name), element("dd", {}, text, element("small", {}, `(${note})`), meter)];
  }

  function turn(dx, dy) {
    const around = ((((value("turn") + dx + 180) % 360) + 360) % 360) - 180;
    page.values["sphere.turn"] = Number(around.toFixed(1));
    page.values["sphere.tilt"] = Number(Math.min(90, Math.max(-90, value("tilt") + dy)).toFixed(1));
    show();
  }

  const exports = {
    "sphere.svg": () => drawing.sceneFile(scene(EXPORTED, drawing.LIGHT), EXPORTED, settings.encode(page.values)),
    "sphere.csv": () => {
      const rows = world.all.map((point, i) => {
        const own = i < world.classes;
        return [own ? "prototype" : "sample", own ? i : world.labels[i - world.classes], ...point].join(",");
      });
      return ["kind,class,x,y,z", ...rows, ""].join("\n");
    },
  };

  // `state` is the page's; `turned` is called when the view has changed.
  function build(state, turned) {
    [page, changed] = [state, turned];
    for (const name of settings.NAMES) $("sphere-loss").append(element("option", { value: name }, TABLE[name].title));
    $("sphere-loss").addEventListener("change", () => page.change("sphere.loss", $("sphere-loss").value));
    $("play").addEventListener("click", () => play(!playing));
    $("step").addEventListener("click", () => {
      play(false);
      resting = false;
      advance(1);
      show();
    });
    $("restart").addEventListener("click", () => {
      restart();
      show();
    });
    listen($("canvas"));
  }

  function listen(canvas) {
    const moves = { ArrowLeft: [-5, 0], ArrowRight: [5, 0], ArrowUp: [0, -5], ArrowDown: [0, 5] };
    canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
    canvas.addEventListener("pointermove", (event) => {
      const degrees = 180 / canvas.clientWidth;
      if (event.buttons) turn(event.movementX * degrees, event.movementY * degrees);
    });
    canvas.addEventListener("pointerup", () => changed());
    canvas.addEventListener("keydown", (event) => {
      if (!moves[event.key]) return;
      event.preventDefault();
      turn(...moves[event.key]);
      changed();
    });
  }

  return { STARTS, build, showFields, restart, settle, settled, advance, show, exports, world: () => world };
})();
