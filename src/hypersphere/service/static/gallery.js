// Enrol, search, list and delete.

import { ask, busy, complain, counted, element, power, powers, rate, say } from "./api.js";

const byId = (id) => document.getElementById(id);

export function startGallery(loadReport) {
  const people = byId("people"), told = byId("people-answer"), more = byId("more-people");
  let last = "";

  async function remove(name, button) {
    if (!button.classList.contains("sure")) {
      button.classList.add("sure");
      button.textContent = "Really delete?";
      button.addEventListener("blur", () => { button.classList.remove("sure"); button.textContent = "Delete"; }, { once: true });
      return;
    }
    const done = await busy(button, told, () => ask(`/v1/subjects/${encodeURIComponent(name)}`, { method: "DELETE" }));
    if (!done) return;
    await refresh();
    say(told, "", "", `Deleted: ${name}, ${counted(done.removed, "template")}.`);
    byId("gallery-title").focus();
  }

  function row(name) {
    const button = element("button", { type: "button", textContent: "Delete" });
    button.setAttribute("aria-label", `Delete ${name}`);
    button.addEventListener("click", () => remove(name, button));
    return element("li", {}, element("span", { textContent: name }), button);
  }

  async function list(after) {
    const page = await ask(`/v1/subjects?limit=50&after=${encodeURIComponent(after)}`);
    if (!after) people.replaceChildren();
    people.append(...page.subjects.map(row));
    if (!people.children.length) people.append(element("li", { textContent: "Nobody yet." }));
    last = page.subjects.at(-1) ?? last;
    more.hidden = !page.more;
  }

  async function refresh() {
    try {
      const info = await ask("/v1/gallery");
      byId("gallery-info").textContent =
        `${counted(info.subjects, "person", "people")}, ${counted(info.size, "template")} (${info.engine}, ${info.index} search); contract ${info.contract}.`;
      await list("");
    } catch (error) {
      complain(told, error);
    }
  }

  more.addEventListener("click", () => list(last).catch((error) => complain(told, error)));

  const enroll = byId("enroll-form");
  enroll.addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = new FormData(enroll), answer = enroll.querySelector(".answer");
    if (!form.get("keep_until")) form.delete("keep_until");
    const key = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    const made = await busy(enroll.querySelector("button"), answer, () =>
      ask("/v1/enroll", { method: "POST", form, headers: { "Idempotency-Key": key } }));
    if (!made) return;
    say(answer, "good", "Enrolled", `${made.subject}, from ${counted(made.photos, "photo")}.`);
    enroll.reset();
    await refresh();
  });

  const search = byId("search-form");
  search.addEventListener("submit", async (event) => {
    event.preventDefault();
    const answer = search.querySelector(".answer"), form = new FormData(search);
    byId("candidates").replaceChildren();
    const said = await busy(search.querySelector("button"), answer, () => ask("/v1/identify", { method: "POST", form }));
    if (!said) return;
    const { decision } = said;
    const where = `at FPIR ${power(decision.fpir)} ${powers(decision.fpir_low, decision.fpir_high)}, N = ${decision.gallery_size}` +
      `${decision.indicative ? ", indicative" : ""}${decision.extrapolated ? ", extrapolated" : ""}`;
    const best = decision.best_score === null ? "The gallery is empty." : `The best score is ${decision.best_score.toFixed(2)}.`;
    say(answer, said.match ? "good" : "bad", `${said.match ? "Match" : "No match"} ${where}`,
      `Threshold ${decision.threshold.toFixed(3)}. ${said.match ? "" : best}`, `FNIR ${rate(decision.fnir)}. Liveness is not checked.`);
    byId("candidates").replaceChildren(...decision.candidates.map((each) =>
      element("li", { textContent: `${each.subject}: score ${each.score.toFixed(2)}, LLR ${each.llr > 0 ? "+" : ""}${each.llr.toFixed(1)}` })));
  });

  return async () => {
    const report = await loadReport();
    const rates = [...new Set(report.searches.map((row) => row.fpir))].sort((a, b) => b - a);
    const choice = byId("fpir");
    if (!choice.options.length) {
      choice.append(...rates.map((value) => element("option", { value, textContent: power(value) })));
      choice.value = rates.find((value) => value <= 0.0101) ?? rates[0];
    }
    await refresh();
  };
}
