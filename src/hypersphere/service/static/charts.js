// Histograms of scores, and the detection error trade-off: drawn as SVG from the report's numbers.

import { power, rate, svg } from "./api.js";

const WIDTH = 460, HEIGHT = 270, LEFT = 46, RIGHT = 12, TOP = 26, BOTTOM = 40;
const inner = { width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM };

export function binAt(spread, score) {
  let bin = 0;
  while (bin + 1 < spread.fmr.length && spread.edges[bin + 1] <= score + 1e-9) bin += 1;
  return bin;
}

// The first edge that is not below a threshold: its FMR is not above the threshold's.
export function edgeAbove(spread, threshold) {
  return spread.edges.find((edge) => edge >= threshold - 1e-9) ?? spread.edges.at(-2);
}

export function ratesAt(spread, threshold) {
  const bin = binAt(spread, threshold);
  return Object.fromEntries(["fmr", "fmr_low", "fmr_high", "fnmr", "fnmr_low", "fnmr_high"].map((key) => [key, spread[key][bin]]));
}

function start(place) {
  place.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  place.replaceChildren();
}

export function histogram(place, report, { threshold, score = null, drag = null }) {
  const { edges, genuine, impostors } = report.spread;
  const low = edges[0], high = edges[edges.length - 1];
  const x = (value) => LEFT + ((value - low) / (high - low)) * inner.width;
  start(place);
  const shares = [impostors, genuine].map((counts) => {
    const total = counts.reduce((sum, count) => sum + count, 0);
    return counts.map((count) => count / total);
  });
  const top = Math.max(...shares[0], ...shares[1]);
  ["impostor", "genuine"].forEach((kind, place_) => {
    const points = shares[place_].flatMap((share, bin) => {
      const y = TOP + inner.height * (1 - share / top);
      return [`${x(edges[bin]).toFixed(1)},${y.toFixed(1)}`, `${x(edges[bin + 1]).toFixed(1)},${y.toFixed(1)}`];
    });
    const base = TOP + inner.height;
    place.append(svg("polygon", { class: kind, points: `${x(low)},${base} ${points.join(" ")} ${x(high)},${base}` }));
  });
  place.append(svg("text", { x: LEFT, y: 16, class: "impostor" }, "two people"));
  place.append(svg("text", { x: WIDTH - RIGHT, y: 16, "text-anchor": "end", class: "genuine" }, "one person"));
  place.append(svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: TOP + inner.height, y2: TOP + inner.height }));
  for (let tick = Math.ceil(low * 4) / 4; tick <= high + 1e-9; tick += 0.25) {
    place.append(svg("text", { x: x(tick), y: HEIGHT - 22, "text-anchor": tick < 0.99 ? "middle" : "end" }, tick.toFixed(2)));
  }
  place.append(svg("text", { x: LEFT + inner.width / 2, y: HEIGHT - 5, "text-anchor": "middle" }, "score (cosine)"));
  const line = (value, kind) => svg("line", { class: kind, x1: x(value), x2: x(value), y1: TOP, y2: TOP + inner.height });
  place.append(line(threshold, "threshold"));
  place.append(svg("circle", { class: "grip", cx: x(threshold), cy: TOP + inner.height, r: 8 }));
  if (score !== null) {
    const shown = Math.min(high, Math.max(low, score));
    place.append(line(shown, "score"));
    const side = shown > (low + high) / 2 ? "end" : "start";
    place.append(svg("text", { class: "score-text", x: x(shown) + (side === "end" ? -6 : 6), y: TOP + 12, "text-anchor": side },
      `score ${score.toFixed(2)}`));
  }
  if (drag) {
    const value = (event) => {
      const box = place.getBoundingClientRect();
      return low + (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / inner.width * (high - low);
    };
    place.onpointerdown = (event) => { place.setPointerCapture(event.pointerId); drag(value(event)); };
    place.onpointermove = (event) => { if (event.buttons) drag(value(event)); };
  }
}

export function det(place, report, { threshold, score = null }) {
  const { spread, table } = report;
  const least = { x: Math.floor(Math.log10(3 / table.impostors)), y: Math.floor(Math.log10(3 / table.genuine)) };
  const scale = (value, floor) => Math.min(1, Math.max(0, 1 - Math.log10(Math.max(value, 10 ** floor)) / floor));
  const x = (value) => LEFT + scale(value, least.x) * inner.width;
  const y = (value) => TOP + (1 - scale(value, least.y)) * inner.height;
  start(place);
  for (const [axis, floor] of Object.entries(least)) {
    for (let exponent = floor; exponent <= 0; exponent += 1) {
      const at = axis === "x" ? x(10 ** exponent) : y(10 ** exponent);
      place.append(axis === "x"
        ? svg("line", { class: "axis", x1: at, x2: at, y1: TOP, y2: TOP + inner.height })
        : svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at }));
      place.append(axis === "x"
        ? svg("text", { x: at, y: HEIGHT - 22, "text-anchor": exponent ? "middle" : "end" }, power(10 ** exponent))
        : svg("text", { x: LEFT - 5, y: at + 4, "text-anchor": "end" }, power(10 ** exponent)));
    }
  }
  place.append(svg("text", { x: LEFT + inner.width / 2, y: HEIGHT - 5, "text-anchor": "middle" }, "FMR"));
  place.append(svg("text", { x: 4, y: 14 }, "FNMR"));
  const used = spread.fmr.map((value, bin) => bin).filter((bin) => spread.fmr[bin] > 0 && spread.fnmr[bin] > 0);
  const path = (keys, bins) => bins.map((bin) => `${x(spread[keys[0]][bin]).toFixed(1)},${y(spread[keys[1]][bin]).toFixed(1)}`).join(" ");
  place.append(svg("polygon", { class: "band", points: `${path(["fmr", "fnmr_low"], used)} ${path(["fmr", "fnmr_high"], [...used].reverse())}` }));
  place.append(svg("polyline", { class: "curve", points: path(["fmr", "fnmr"], used) }));
  for (const [value, kind, radius] of [[threshold, "at", 6], ...(score === null ? [] : [[score, "score", 5]])]) {
    const rates = ratesAt(spread, value);
    place.append(svg("circle", { class: kind, cx: x(rates.fmr), cy: y(rates.fnmr), r: radius }));
  }
}

export function inWords(report, threshold) {
  const rates = ratesAt(report.spread, threshold);
  const { impostors, genuine, identities } = report.table;
  return `FMR ${rate(rates.fmr)} [${rate(rates.fmr_low)}, ${rate(rates.fmr_high)}], ` +
    `FNMR ${rate(rates.fnmr)} [${rate(rates.fnmr_low)}, ${rate(rates.fnmr_high)}]: 95 % intervals over ${identities} people, ` +
    `${impostors.toLocaleString("en")} impostor and ${genuine.toLocaleString("en")} genuine pairs.`;
}
