// Two photos; the decision in a sentence, and what it rests on.

import { ask, busy, element, facts, oneIn, rate, say } from "./api.js";
import { det, edgeAbove, histogram, inWords } from "./charts.js";
import { Slot } from "./slot.js";

const byId = (id) => document.getElementById(id);

export function startVerify(loadReport) {
  const answer = byId("verify-answer"), slider = byId("threshold"), fmr = byId("fmr"), evidence = byId("evidence");
  let report = null, score = null;

  // What was said of other photos is gone before anything is said of these.
  const forget = () => {
    score = null;
    evidence.hidden = true;
    say(answer, "", "");
  };
  const slots = [...document.querySelectorAll(".slot")].map((place) =>
    new Slot(place, { changed: forget, chosen: () => byId("verify-form").requestSubmit() }));

  const draw = () => {
    const threshold = Number(slider.value);
    byId("threshold-value").textContent = threshold.toFixed(2);
    byId("rates").textContent = inWords(report, threshold);
    histogram(byId("histogram"), report, { threshold, score, drag: (value) => { slider.value = value; draw(); } });
    det(byId("det"), report, { threshold, score });
  };

  const moveToRate = () => {
    const row = report.table.thresholds.find((each) => each.fmr <= Number(fmr.value) * (1 + 1e-9));
    slider.value = edgeAbove(report.spread, row.threshold);
    draw();
  };

  const start = async () => {
    report = await loadReport();
    fmr.replaceChildren(...report.table.thresholds.map((row) =>
      element("option", { value: row.fmr, textContent: `${oneIn(row.fmr)}${row.indicative ? ", few were counted" : ""}` })));
    fmr.value = report.table.thresholds.find((row) => row.fmr <= 1.0001e-3)?.fmr ?? report.table.thresholds.at(-1).fmr;
    const { edges } = report.spread;
    Object.assign(slider, { min: edges[0], max: edges[edges.length - 2], step: 0.01 });
    byId("histogram-caption").textContent = `How scores were spread: ${report.table.people}.`;
    byId("det-caption").textContent = "Pairs of one person that are missed (FNMR) against strangers who pass (FMR), both logarithmic; the band is the 95 % interval. The dark point is the threshold.";
    moveToRate();
  };

  slider.addEventListener("input", draw);
  fmr.addEventListener("change", moveToRate);
  byId("verify-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    forget();
    if (slots.some((slot) => !slot.photo)) {
      say(answer, "wrong", "", "Two photos are needed.");
      return;
    }
    slots.forEach((slot) => slot.unmark());
    const form = new FormData();
    slots.forEach((slot) => form.append(slot.place.dataset.slot, slot.photo, "photo"));
    form.append("fmr", fmr.value);
    form.append("crops", "true");
    const said = await busy(byId("compare"), answer, async () => {
      try {
        return await ask("/v1/verify", { method: "POST", form });
      } catch (error) {
        const { boxes, photo } = error.body ?? {};
        if (boxes?.length > 1) slots[photo - 1].choose(boxes);
        throw error;
      }
    }, slots.map((slot) => slot.title));
    if (!said) return;
    const { decision } = said;
    said.photos.forEach((found, place) => slots[place].show(found));
    score = decision.score;
    say(answer, decision.match ? "good" : decision.llr > 0 ? "unsure" : "plain", `${said.verdict}.`, said.setting);
    facts(byId("numbers"), {
      Score: `${score === null ? "below the threshold, and not shown" : `at least ${score.toFixed(2)}`}; the threshold is ${decision.threshold.toFixed(3)}`,
      "Strangers who pass": `${oneIn(decision.fmr)} pairs (FMR), 95 % interval ${oneIn(decision.fmr_high)} to ${oneIn(decision.fmr_low)}` +
        `${decision.indicative ? "; few were counted" : ""}`,
      "True pairs missed": `${rate(decision.fnmr)} (FNMR), 95 % interval ${rate(decision.fnmr_low)} to ${rate(decision.fnmr_high)}`,
      "With this score": score === null ? "" : `at most ${oneIn(decision.fmr_at_score)} pairs of strangers score as high`,
      Evidence: score === null ? "" : `${decision.llr > 0 ? "for one person" : "for two people"}: log-likelihood ratio ${decision.llr > 0 ? "+" : ""}${decision.llr.toFixed(1)}`,
      "Measured on": decision.calibration,
      Contract: decision.contract,
    });
    evidence.hidden = false;
    answer.scrollIntoView({ block: "nearest" });
    moveToRate();
  });
  return start;
}
