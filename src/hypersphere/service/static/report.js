// The model in use: facts, thresholds, the DET; and the page on the law.

import { element, power, powers, rate } from "./api.js";
import { det, edgeAbove } from "./charts.js";

const byId = (id) => document.getElementById(id);

function fill(table, head, rows) {
  table.replaceChildren(element("thead", {}, element("tr", {}, ...head.map((text) => element("th", { scope: "col", textContent: text })))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((text) => element("td", { textContent: text }))))));
}

const between = (low, high) => `[${rate(low)}, ${rate(high)}]`;

export function startReport(loadReport) {
  return async () => {
    const report = await loadReport();
    const { table, llr } = report;
    byId("facts").replaceChildren(...Object.entries({
      Model: `${report.model}, ${report.input_size.join(" x ")} pixels to ${report.dim} numbers`,
      Contract: report.contract,
      Detector: `${report.detector}; aligned to ${report.alignment || "nothing"}`,
      "Calibration set": `${table.people}: ${table.identities} people, ${table.images.toLocaleString("en")} images`,
      "Its digest": table.digest,
      Pairs: `${table.genuine.toLocaleString("en")} of one person, ${table.impostors.toLocaleString("en")} of two`,
      Intervals: table.method,
      "Log-likelihood ratio": `${llr.slope.toFixed(2)} score ${llr.offset < 0 ? "−" : "+"} ${Math.abs(llr.offset).toFixed(2)}, from ${llr.low.toFixed(1)} to ${llr.high.toFixed(1)}; ` +
        `C_llr ${llr.cllr.toFixed(3)} bits, at least ${llr.cllr_min.toFixed(3)}`,
      Liveness: report.liveness,
    }).map(([name, value]) => element("tr", {}, element("th", { scope: "row", textContent: name }), element("td", { textContent: value }))));
    fill(byId("thresholds"), ["FMR", "threshold", "FMR, 95 %", "FNMR", "FNMR, 95 %", ""], table.thresholds.map((row) => [
      power(row.fmr), row.threshold.toFixed(3), powers(row.fmr_low, row.fmr_high), rate(row.fnmr), between(row.fnmr_low, row.fnmr_high),
      row.indicative ? "indicative" : ""]));
    fill(byId("searches"), ["N", "FPIR", "threshold", "FPIR, 95 %", "FNIR", "FNIR, 95 %", ""], report.searches.map((row) => [
      row.gallery_size.toLocaleString("en"), power(row.fpir), row.threshold.toFixed(3), powers(row.fpir_low, row.fpir_high), rate(row.fnir),
      row.fnir === null ? "–" : between(row.fnir_low, row.fnir_high), row.indicative ? "indicative" : ""]));
    const row = table.thresholds.find((each) => each.fmr <= 1.0001e-3) ?? table.thresholds.at(-1);
    det(byId("report-det"), report, { threshold: edgeAbove(report.spread, row.threshold) });
    byId("report-det-caption").textContent = `The point is the threshold of FMR ${power(row.fmr)}; the band is the 95 % interval of the FNMR.`;
  };
}

function inline(text) {
  return text.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").split(/(\*\*[^*]+\*\*|`[^`]+`)/).filter(Boolean).map((part) =>
    part.startsWith("**") ? element("strong", { textContent: part.slice(2, -2) })
      : part.startsWith("`") ? element("code", { textContent: part.slice(1, -1) }) : part);
}

// Headings, paragraphs, lists and tables: all that docs/law.md has.
export function rendered(markdown) {
  return markdown.trim().split(/\n\s*\n/).map((block) => {
    const lines = block.split("\n");
    const heading = /^(#+) (.*)/.exec(lines[0]);
    if (heading) return element(heading[1].length === 1 ? "h2" : "h3", { textContent: heading[2] });
    if (lines[0].startsWith("|")) {
      const rows = lines.filter((line) => !/^\|-/.test(line)).map((line) => line.split("|").slice(1, -1));
      return element("div", { className: "wide", tabIndex: 0 }, element("table", {}, ...rows.map((row, place) =>
        element("tr", {}, ...row.map((cell) => element(place ? "td" : "th", {}, ...inline(cell.trim())))))));
    }
    if (lines[0].startsWith("- ")) {
      return element("ul", {}, ...block.slice(2).split(/\n- /).map((item) => element("li", {}, ...inline(item.replace(/\s*\n\s*/g, " ")))));
    }
    return element("p", {}, ...inline(lines.join(" ")));
  });
}

export function startLaw() {
  return async () => {
    const place = byId("law");
    if (!place.children.length) place.append(...rendered(await (await fetch("/static/law.md")).text()));
  };
}
