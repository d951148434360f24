// A slider and a number field for a setting; several of the same setting stay together.
const controls = (() => {
  const TICKS = 1000;
  const made = [];

  function element(name, properties = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
      if (key.includes("-")) node.setAttribute(key, value);
      else node[key] = value;
    }
    node.append(...children);
    return node;
  }

  // A place 0..TICKS on a logarithmic slider, and back, rounded to the setting's step.
  const place = (item, value) => (TICKS * Math.log(value / item.min)) / Math.log(item.max / item.min);
  function value(item, tick) {
    const raw = item.min * (item.max / item.min) ** (tick / TICKS);
    const step = Math.max(item.step, 10 ** (Math.floor(Math.log10(raw)) - 2));
    return Number((Math.round(raw / step) * step).toPrecision(12));
  }

  // `state.values` holds the settings, `state.change(key, value)` is called for a new value.
  function field(item, state) {
    if (item.toggle) return toggle(item, state);
    const name = [item.symbol, item.label].filter(Boolean).join(", ");
    const { min, max, step } = item;
    const range = item.logarithmic ? { min: 0, max: TICKS, step: 1 } : { min, max, step };
    const slider = element("input", { type: "range", "aria-label": name, "data-key": item.key, ...range });
    const box = element("input", { type: "number", "aria-label": `${name}, value`, "data-key": item.key, min, max });
    box.step = "any";
    const title = element("span", { className: "name", "aria-hidden": "true" }, name);
    const node = element("div", { className: "field" }, title, slider, box);
    slider.addEventListener("input", () => {
      state.change(item.key, item.logarithmic ? value(item, slider.valueAsNumber) : slider.valueAsNumber);
    });
    const take = () => {
      const wanted = settings.allowed(item, box.valueAsNumber);
      if (Number.isNaN(wanted)) refreshOne();
      else state.change(item.key, wanted);
    };
    box.addEventListener("change", take);
    const check = element("input", { type: "checkbox" });
    if (item.automatic) {
      check.addEventListener("change", () => state.change(item.key, check.checked ? null : state.automatic(item.key)));
      node.append(element("label", { className: "check auto" }, check, item.automatic));
    }
    function refreshOne() {
      const now = state.values[item.key];
      const shown = now === null ? state.automatic(item.key) : now;
      // A place that stands for this value is kept: between small integers an arrow key needs several steps.
      const stands = item.logarithmic && value(item, slider.valueAsNumber) === shown;
      if (!stands) slider.value = item.logarithmic ? place(item, shown) : shown;
      slider.setAttribute("aria-valuetext", Number(shown.toPrecision(6)));
      if (document.activeElement !== box || box.valueAsNumber !== shown) box.value = Number(shown.toPrecision(12));
      check.checked = now === null;
      slider.disabled = box.disabled = now === null;
    }
    made.push({ node, refreshOne });
    refreshOne();
    return node;
  }

  function toggle(item, state) {
    const box = element("input", { type: "checkbox", "data-key": item.key });
    box.addEventListener("change", () => state.change(item.key, box.checked ? 1 : 0));
    const refreshOne = () => (box.checked = Boolean(state.values[item.key]));
    const node = element("label", { className: "check" }, box, item.label);
    made.push({ node, refreshOne });
    refreshOne();
    return node;
  }

  // Show the present values everywhere; controls no longer on the page are forgotten.
  function refresh() {
    for (let i = made.length - 1; i >= 0; i--) {
      if (made[i].node.isConnected) made[i].refreshOne();
      else made.splice(i, 1);
    }
  }

  return { element, field, refresh };
})();
