// One panel at a time, by the address's hash.

import { ask, onTokenNeeded, Problem, say, useToken } from "./api.js";
import { startGallery } from "./gallery.js";
import { startLaw, startReport } from "./report.js";
import { startSphere } from "./sphere.js";
import { startVerify } from "./verify.js";

let report = null;
const loadReport = async () => (report ??= await ask("/v1/report"));
const panels = {
  verify: startVerify(loadReport),
  gallery: startGallery(loadReport),
  sphere: startSphere(),
  report: startReport(loadReport),
  law: startLaw(),
};
const tokenForm = document.getElementById("token-form");

async function show() {
  const wanted = location.hash.slice(1) in panels ? location.hash.slice(1) : "verify";
  for (const name of Object.keys(panels)) {
    document.getElementById(name).hidden = name !== wanted;
    const link = document.querySelector(`nav a[href="#${name}"]`);
    if (name === wanted) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  window.scrollTo(0, 0);
  try {
    await panels[wanted]();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    say(document.getElementById("verify-answer"), "wrong", "", error.message);
  }
  document.body.dataset.shown = wanted;
}

onTokenNeeded(() => { tokenForm.hidden = false; });
tokenForm.addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(document.getElementById("token").value);
  tokenForm.hidden = true;
  say(document.getElementById("verify-answer"), "", "");
  show();
});
window.addEventListener("hashchange", show);
show();
