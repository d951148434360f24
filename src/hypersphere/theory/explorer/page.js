// The page: settings, curves and their table, the link and the exports.
const page = (() => {
  const { element, field } = controls;
  const { TABLE } = losses;
  const DEGREES = 180 / Math.PI;
  const POINTS = 360;
  const HEIGHT = 290;
  const SVG = "http://www.w3.org/2000/svg";
  const $ = (id) => document.getElementById(id);

  const state = { values: settings.decode(location.hash.slice(1)), change, automatic };
  let waiting = false;
  let drawn = [];

  // The start of SphereFace2's bias, shown while it is automatic.
  function automatic(key) {
    const name = [...state.values.losses, "sphereface2_c"].find((x) => x.startsWith("sphereface2"));
    return losses.resolve(name, { ...state.values, [key]: null }).b;
  }

  function change(key, value) {
    state.values[key] = value;
    if (globe.STARTS.includes(key)) globe.restart();
    if (key === "losses") showCards();
    if (key === "sphere.loss") globe.showFields();
    later();
  }

  // Draw once per frame, however many settings changed.
  function later() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      show();
    });
  }

  function show() {
    controls.refresh();
    showCurves();
    globe.show();
    keepLink();
  }

  function keepLink() {
    const hash = `#${settings.encode(state.values)}`;
    if (location.hash !== hash) history.replaceState(null, "", hash);
  }

  // A function of settings that remembers its last value for each name.
  function remembered(f) {
    const last = new Map();
    return (name, ...inputs) => {
      const key = JSON.stringify(inputs);
      if (last.get(name)?.key !== key) last.set(name, { key, value: f(name, ...inputs) });
      return last.get(name).value;
    };
  }

  // The curves of a loss: rows of [degrees, logit, loss, target gradient, wrong-class gradient].
  const sampled = remembered((name, p, own) => {
    const curve = curves.expected(name, p);
    const wrong = curve.wrongGradient(own / DEGREES);
    const at = (degrees) => {
      const angle = degrees / DEGREES;
      return [degrees, curve.logit(angle), curve.value(angle), curve.targetGradient(angle), wrong(angle)];
    };
    const rows = Array.from({ length: POINTS + 1 }, (_, i) => at((180 * i) / POINTS));
    const end = curve.termination();
    return { name, index: settings.NAMES.indexOf(name), rows, at, end: end === null ? null : end * DEGREES };
  });

  const nearestOf = remembered((_, classes, dim) => geometry.nearestAngle(classes, dim) * DEGREES);
  const nearest = () => nearestOf("nearest", state.values.C, state.values.d);

  function chartsOf(found) {
    const angle = nearest();
    const verticals = [
      { x: angle / 2, label: `half ${(angle / 2).toFixed(1)}°` },
      { x: angle, label: `nearest ${angle.toFixed(1)}°` },
    ];
    const own = Number(state.values.own.toFixed(1));
    const last = `dL/dθⱼ per radian, target at ${own}°`;
    const titles = ["Target logit t(θ)", "Loss L", "dL/dθ, per radian", last];
    return titles.map((title, i) => ({
      title: state.values.relative ? `${title}, relative` : title,
      label: i === 3 ? "angle θⱼ to the wrong class (degrees)" : "angle θ to the target (degrees)",
      lines: found.map((one) => lineOf(one, i + 1)),
      verticals,
      cursor: state.values.cursor,
    }));
  }

  function lineOf({ index, rows, end, at }, column) {
    const largest = rows.reduce((high, row) => Math.max(high, Math.abs(row[column])), 0) || 1;
    const unit = state.values.relative ? largest : 1;
    const mark = end === null || column === 4 ? null : [end, at(end)[column] / unit];
    return { index, points: rows.map((row) => [row[0], row[column] / unit]), mark };
  }

  function showCurves() {
    const { own } = state.values;
    drawn = state.values.losses.map((name) => sampled(name, losses.resolve(name, state.values), own));
    chartsOf(drawn).forEach((content, i) => {
      const svg = $("charts").children[i];
      svg.setAttribute("aria-label", `${content.title} of ${names()}; the values are in the table below`);
      svg.setAttribute("viewBox", `0 0 ${svg.clientWidth} ${HEIGHT}`);
      svg.innerHTML = drawing.chart(content, drawing.SCREEN, svg.clientWidth, HEIGHT);
    });
    const angle = nearest();
    const weight = Math.exp(curves.expected("normface", losses.resolve("normface", state.values)).logWeight(0));
    $("facts").textContent =
      `Expected angle to the nearest prototype ${angle.toFixed(2)}° (AmpFace Prop. 1), half of it ` +
      `${(angle / 2).toFixed(2)}°; expected wrong-class weight Σ e^(s cos θⱼ) = ${weight.toPrecision(4)} (Prop. 3). ` +
      "Dots mark where a loss ends: 1 − p = 0.1, with p of the target among all classes (SphereFace2: of its own " +
      "classifier).";
    showTable(angle / 2);
  }

  const names = () => state.values.losses.map((name) => TABLE[name].title).join(", ") || "no loss";

  function showTable(half) {
    const { cursor, own } = state.values;
    const columns = ["loss", "ends at", "− half nearest", "t", "L", "dL/dθ", "dL/dθⱼ"];
    const head = element("tr", {}, ...columns.map((name) => element("th", { scope: "col" }, name)));
    const rows = drawn.map(({ name, index, end, at }) => {
      const ends = end === null ? ["none", ""] : [`${end.toFixed(2)}°`, `${(end - half).toFixed(2)}°`];
      const cells = [...ends, ...at(cursor).slice(1).map((x) => x.toPrecision(4))];
      const first = element("th", { scope: "row" }, swatch(index), TABLE[name].title);
      return element("tr", {}, first, ...cells.map((cell) => element("td", {}, cell)));
    });
    const text = `Where each loss ends, and its values at ${cursor}° (dL/dθⱼ: θⱼ = ${cursor}°, target at ${own}°)`;
    const caption = element("caption", { className: "formula" }, text);
    $("table").replaceChildren(caption, element("thead", {}, head), element("tbody", {}, ...rows));
  }

  function swatch(index) {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("class", "swatch");
    svg.setAttribute("viewBox", "0 0 26 8");
    svg.setAttribute("aria-hidden", "true");
    svg.innerHTML = drawing.sample(index, drawing.SCREEN);
    return svg;
  }

  // One box per chosen loss: formula, equation, margins; SphereFace2's common settings once.
  function showCards() {
    const cards = state.values.losses.map((name) => {
      const { title, formula, equation } = TABLE[name];
      return card(title, `${formula} (${equation})`, ownSettings(name));
    });
    if (state.values.losses.some((name) => name.startsWith("sphereface2"))) {
      const common = losses.settingsOf("sphereface2_c").filter((item) => item.key.startsWith("sphereface2."));
      const text = "g(z) = 2 ((z + 1)/2)^t − 1; b starts where dL/db = 0 for all cosines 0, by margin type";
      cards.push(card("SphereFace2", text, common));
    }
    $("cards").replaceChildren(...cards);
    $("chosen").textContent = `Losses: ${state.values.losses.length} of ${settings.NAMES.length} chosen`;
    for (const box of $("names").querySelectorAll("input")) box.checked = state.values.losses.includes(box.value);
  }

  const ownSettings = (name) => losses.settingsOf(name).filter((item) => item.key.startsWith(`${name}.`));

  function card(title, text, items) {
    const formula = element("p", { className: "formula" }, text);
    return element("fieldset", {}, element("legend", {}, title), formula, ...items.map((item) => field(item, state)));
  }

  // What each export button gives.
  const exports = {
    ...globe.exports,
    "curves.svg": () => {
      const { C, d, s } = state.values;
      const below = `C = ${C}, d = ${d}, s = ${s}`;
      return drawing.sheet(chartsOf(drawn), drawn.map(legend), below, settings.encode(state.values));
    },
    "curves.csv": () => {
      const rows = drawn.flatMap(({ name, rows: found }) => found.map((row) => [name, ...row].join(",")));
      const head = "loss,angle_degrees,target_logit,loss_value,target_gradient,wrong_class_gradient";
      return [head, ...rows, ""].join("\n");
    },
  };

  function legend({ name, index, end }) {
    const p = losses.resolve(name, state.values);
    const own = losses.settingsOf(name).filter((item) => item.key.includes("."));
    const values = own.map((item) => `, ${item.symbol} = ${Number(p[item.key.split(".")[1]].toPrecision(6))}`);
    const last = end === null ? "" : `, ends at ${end.toFixed(2)}°`;
    return { index, label: `${TABLE[name].title}${values.join("")}${last}` };
  }

  // The content of an exported file as a blob; PNG is drawn from SVG at twice its size.
  async function exported(name) {
    const [what, ending] = name.split(".");
    if (ending === "csv") return new Blob([exports[name]()], { type: "text/csv" });
    const svg = exports[`${what}.svg`]();
    if (ending === "svg") return new Blob([svg], { type: "image/svg+xml" });
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
    await image.decode();
    const canvas = element("canvas", { width: 2 * image.width, height: 2 * image.height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  }

  async function save(name) {
    const href = URL.createObjectURL(await exported(name));
    element("a", { download: `hypersphere-${name}`, href }).click();
    setTimeout(() => URL.revokeObjectURL(href), 10000);
  }

  async function copy() {
    keepLink();
    try {
      await navigator.clipboard.writeText(location.href);
      $("said").textContent = "Copied.";
    } catch {
      $("said").textContent = "The address bar holds the link.";
    }
  }

  function restore(values) {
    state.values = values;
    showCards();
    globe.showFields();
    globe.settle();
    show();
  }

  function addChart() {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("role", "img");
    svg.setAttribute("height", HEIGHT);
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const degrees = drawing.degreesAt(event.clientX - box.left, box.width);
      if (degrees !== null) change("cursor", degrees);
    });
    $("charts").append(svg);
  }

  function addName(name, index) {
    const box = element("input", { type: "checkbox", value: name });
    box.addEventListener("change", () => {
      const chosen = new Set(state.values.losses);
      if (box.checked) chosen.add(name);
      else chosen.delete(name);
      change("losses", settings.NAMES.filter((x) => chosen.has(x)));
    });
    const { title, formula, equation } = TABLE[name];
    $("names").append(element("label", { title: `${formula} (${equation})` }, box, swatch(index), title));
  }

  function build() {
    for (let i = 0; i < 4; i++) addChart();
    $("space").append(...losses.SHARED.map((item) => field(item, state)));
    settings.NAMES.forEach(addName);
    $("reading").append(...settings.PAGE.map((item) => field(item, state)));
    $("losses").open = window.matchMedia("(min-width: 45rem)").matches;
    globe.build(state, keepLink);
    $("copy").addEventListener("click", copy);
    $("reset-all").addEventListener("click", () => restore(settings.defaults()));
    for (const button of document.querySelectorAll("[data-export]")) {
      button.addEventListener("click", () => save(button.dataset.export));
    }
    window.addEventListener("resize", later);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
    window.addEventListener("hashchange", () => restore(settings.decode(location.hash.slice(1))));
    restore(state.values);
  }

  build();
  return { state, exported, drawn: () => drawn };
})();
