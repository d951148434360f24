// Every setting of the page by its key, and the part of the address that holds them.
const settings = (() => {
  const PAGE = [
    { key: "cursor", symbol: "θ", label: "read off at, degrees", value: 40, min: 0, max: 180, step: 0.5 },
    { key: "own", symbol: "θ", label: "target in the last chart, degrees", value: 40, min: 0, max: 180, step: 0.5 },
    { key: "relative", label: "relative to each curve's largest", value: 0, min: 0, max: 1, toggle: true },
  ];
  const SPHERE = [
    { key: "sphere.k", symbol: "k", label: "prototypes", value: 8, min: 2, max: 20, step: 1, integer: true },
    { key: "sphere.n", symbol: "n", label: "samples of each", value: 5, min: 1, max: 20, step: 1, integer: true },
    { key: "sphere.s", symbol: "s", label: "scale here", value: 30, min: 1, max: 512, step: 0.1, logarithmic: true },
    { key: "sphere.rate", symbol: "η", label: "first step, radians", value: 0.3, min: 0.01, max: 1, step: 0.01 },
    { key: "sphere.speed", symbol: "", label: "steps per frame", value: 1, min: 1, max: 50, step: 1, integer: true },
    { key: "sphere.seed", symbol: "", label: "seed", value: 0, min: 0, max: 9999, step: 1, integer: true },
  ];
  const VIEW = [
    { key: "sphere.turn", label: "turn, degrees", value: 30, min: -180, max: 180, step: 1 },
    { key: "sphere.tilt", label: "tilt, degrees", value: 20, min: -90, max: 90, step: 1 },
  ];
  const NAMES = Object.keys(losses.TABLE);
  const CHOSEN = ["ampface", "sphereface_r", "arcface", "cosface"];
  const ALL = new Map();
  const named = NAMES.flatMap((name) => losses.settingsOf(name));
  for (const item of [...PAGE, ...SPHERE, ...VIEW, ...named]) ALL.set(item.key, item);

  function defaults() {
    const found = { losses: [...CHOSEN], "sphere.loss": "lm_softmax" };
    for (const [key, item] of ALL) found[key] = item.value;
    return found;
  }

  // The nearest allowed value; null stands for automatic, NaN for no number at all.
  function allowed(item, value) {
    if (item.automatic && value === null) return null;
    if (!Number.isFinite(value)) return NaN;
    const inside = Math.min(item.max, Math.max(item.min, value));
    return item.integer || item.toggle ? Math.round(inside) : inside;
  }

  // All settings of the page, of the sphere and of the losses in use, and any other that was changed.
  function encode(values) {
    const words = new URLSearchParams();
    words.set("losses", values.losses.join(","));
    words.set("sphere.loss", values["sphere.loss"]);
    const used = [...values.losses, values["sphere.loss"]].flatMap((name) => losses.settingsOf(name));
    const wanted = new Set([...losses.SHARED, ...PAGE, ...SPHERE, ...VIEW, ...used].map((item) => item.key));
    for (const [key, item] of ALL) {
      if (!wanted.has(key) && values[key] === item.value) continue;
      words.set(key, values[key] === null ? "auto" : String(values[key]));
    }
    return words.toString();
  }

  // Unknown keys are left out, numbers outside their range moved to its end.
  function decode(text) {
    const found = defaults();
    const words = new URLSearchParams(text);
    if (words.has("losses")) found.losses = NAMES.filter((name) => words.get("losses").split(",").includes(name));
    if (NAMES.includes(words.get("sphere.loss"))) found["sphere.loss"] = words.get("sphere.loss");
    for (const [key, item] of ALL) {
      const word = words.get(key);
      if (word === null || word.trim() === "") continue;
      const value = allowed(item, word === "auto" ? null : Number(word));
      if (!Number.isNaN(value)) found[key] = value;
    }
    return found;
  }

  return { ALL, PAGE, SPHERE, NAMES, defaults, allowed, encode, decode };
})();
