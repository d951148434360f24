// Enrol, search, list and delete.

import { ask, busy, complain, counted, element, facts, oneIn, rate, say } from "./api.js";

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
        `${counted(info.subjects, "person", "people")}, ${counted(info.size, "template")}.`;
      byId("gallery-info").title = `${info.engine}, ${info.index} search; contract ${info.contract}`;
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
      ask("/v1/enroll", { method: "POST", form, headers: { "Idempotency-Key": key } }),
      form.getAll("photos").map((photo) => photo.name));
    if (!made) return;
    say(answer, "good", "Added.", `${made.subject}, from ${counted(made.photos, "photo")}.`);
    enroll.reset();
    await refresh();
  });

  const search = byId("search-form");
  search.addEventListener("submit", async (event) => {
    event.preventDefault();
    const answer = search.querySelector(".answer"), form = new FormData(search);
    byId("search-evidence").hidden = true;
    const said = await busy(search.querySelector("button"), answer, () => ask("/v1/identify", { method: "POST", form }),
      [form.get("photo").name]);
    if (!said) return;
    const { decision } = said;
    say(answer, said.match ? "good" : "plain", `${said.verdict}.`, said.setting);
    facts(byId("search-numbers"), {
      ...Object.fromEntries(decision.candidates.map((each) => [each.subject, each.score === null ? "reaches the threshold" : `score ${each.score.toFixed(2)}`])),
      "Best score": said.match || decision.best_score === null ? "" : decision.best_score.toFixed(2),
      Threshold: decision.threshold.toFixed(3),
      "Strangers given a name": `${oneIn(decision.fpir)} (FPIR), 95 % interval ${oneIn(decision.fpir_high)} to ${oneIn(decision.fpir_low)}` +
        `${decision.indicative ? "; few were counted" : ""}${decision.extrapolated ? "; extrapolated" : ""}`,
      "Enrolled people missed": decision.fnir === null ? "not measured for so many people" : `${rate(decision.fnir)} (FNIR)`,
      "Templates searched": decision.gallery_size.toLocaleString("en"),
      "Measured on": decision.calibration,
    });
    byId("search-evidence").hidden = false;
  });

  return async () => {
    const report = await loadReport();
    const rates = [...new Set(report.searches.map((row) => row.fpir))].sort((a, b) => b - a);
    const choice = byId("fpir");
    if (!choice.options.length) {
      choice.append(...rates.map((value) => element("option", { value, textContent: oneIn(value) })));
      choice.value = rates.find((value) => value <= 0.0101) ?? rates[0];
    }
    await refresh();
  };
}
