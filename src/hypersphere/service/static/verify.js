// Two photos, from files or the camera; the decision, and what it rests on.

import { ask, busy, element, power, powers, rate, say, svg } from "./api.js";
import { det, edgeAbove, histogram, inWords } from "./charts.js";

const byId = (id) => document.getElementById(id);

class Slot {
  constructor(place) {
    this.place = place;
    this.photo = null;
    this.stream = null;
    this.view = element("div", { className: "view" });
    this.crop = element("div", { className: "crop" });
    this.empty = element("p", { className: "empty", textContent: "Drop a photo here, or choose one." });
    const id = `file-${place.dataset.slot}`;
    this.input = element("input", { type: "file", accept: "image/*", id });
    this.camera = element("button", { type: "button", textContent: "Camera" });
    const pick = element("label", { className: "pick", htmlFor: id, textContent: "Choose" });
    place.append(element("h3", { textContent: place.dataset.title }), this.view, this.crop, this.empty,
      element("div", { className: "tools" }, this.input, pick, this.camera));
    this.input.setAttribute("aria-label", place.dataset.title);
    this.input.addEventListener("change", () => { if (this.input.files[0]) this.use(this.input.files[0]); });
    this.camera.addEventListener("click", () => this.useCamera());
    place.addEventListener("dragover", (event) => { event.preventDefault(); place.classList.add("over"); });
    place.addEventListener("dragleave", () => place.classList.remove("over"));
    place.addEventListener("drop", (event) => {
      event.preventDefault();
      place.classList.remove("over");
      const [file] = event.dataTransfer.files;
      if (file) this.use(file);
    });
  }

  use(photo) {
    this.stopCamera();
    this.photo = photo;
    const image = element("img", { alt: this.place.dataset.title });
    image.src = URL.createObjectURL(photo);
    image.onload = () => URL.revokeObjectURL(image.src);
    this.view.replaceChildren(image);
    this.crop.replaceChildren();
    this.empty.hidden = true;
  }

  async useCamera() {
    if (this.stream) {
      const video = this.view.querySelector("video");
      const canvas = element("canvas", { width: video.videoWidth, height: video.videoHeight });
      canvas.getContext("2d").drawImage(video, 0, 0);
      canvas.toBlob((photo) => this.use(photo), "image/jpeg", 0.95);
      return;
    }
    try {
      this.stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "user" } });
    } catch {
      this.empty.textContent = "There is no camera, or it may not be used.";
      this.empty.hidden = false;
      return;
    }
    const video = element("video", { autoplay: true, muted: true, playsInline: true });
    video.srcObject = this.stream;
    this.view.replaceChildren(video);
    this.crop.replaceChildren();
    this.camera.textContent = "Take the photo";
    this.empty.hidden = true;
  }

  stopCamera() {
    for (const track of this.stream?.getTracks() ?? []) track.stop();
    this.stream = null;
    this.camera.textContent = "Camera";
  }

  show(found) {
    const drawing = svg("svg", { viewBox: `0 0 ${found.width} ${found.height}` });
    const size = found.width / 60;
    if (found.box) {
      const [x0, y0, x1, y1] = found.box;
      drawing.append(svg("rect", { class: "box", x: x0, y: y0, width: x1 - x0, height: y1 - y0 }));
    }
    for (const [x, y] of found.landmarks) drawing.append(svg("circle", { class: "point", cx: x, cy: y, r: size }));
    this.view.querySelector("svg")?.remove();
    this.view.append(drawing);
    if (found.crop) this.crop.replaceChildren(element("img", { alt: "Aligned face", src: found.crop }), "as the model sees it");
  }
}

export function startVerify(loadReport) {
  const slots = [...document.querySelectorAll(".slot")].map((place) => new Slot(place));
  const answer = byId("verify-answer"), slider = byId("threshold"), fmr = byId("fmr");
  let report = null, score = null;

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
      element("option", { value: row.fmr, textContent: `${power(row.fmr)}${row.indicative ? " (indicative)" : ""}` })));
    fmr.value = report.table.thresholds.find((row) => row.fmr <= 1.0001e-3)?.fmr ?? report.table.thresholds.at(-1).fmr;
    const { edges } = report.spread;
    Object.assign(slider, { min: edges[0], max: edges[edges.length - 2], step: 0.01 });
    byId("histogram-caption").textContent = `How scores were spread on the calibration set: ${report.table.people}.`;
    byId("det-caption").textContent = "FNMR against FMR, both logarithmic; the band is the 95 % interval of the FNMR. The dark point is the threshold.";
    moveToRate();
  };

  slider.addEventListener("input", draw);
  fmr.addEventListener("change", moveToRate);
  byId("verify-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (slots.some((slot) => !slot.photo)) {
      say(answer, "wrong", "", "Two photos are needed.");
      return;
    }
    const form = new FormData();
    slots.forEach((slot) => form.append(slot.place.dataset.slot, slot.photo, "photo"));
    form.append("fmr", fmr.value);
    form.append("crops", "true");
    const said = await busy(byId("compare"), answer, () => ask("/v1/verify", { method: "POST", form }));
    if (!said) return;
    const { decision } = said;
    said.photos.forEach((found, place) => slots[place].show(found));
    score = decision.score;
    say(answer, decision.match ? "good" : "bad", decision.match ? "Match" : "No match",
      `Score at least ${decision.score.toFixed(2)}, threshold ${decision.threshold.toFixed(3)}; LLR ${decision.llr > 0 ? "+" : ""}${decision.llr.toFixed(1)} ` +
        `(above 0: likelier one person than two).`,
      `At this threshold FMR ${power(decision.fmr)} ${powers(decision.fmr_low, decision.fmr_high)}` +
        `${decision.indicative ? ", indicative" : ""}; FNMR ${rate(decision.fnmr)} [${rate(decision.fnmr_low)}, ${rate(decision.fnmr_high)}]. ` +
        `A threshold at the score would have an FMR of at most ${rate(decision.fmr_at_score)}.`,
      `Calibrated on ${decision.calibration}; contract ${decision.contract}. Liveness is not checked.`);
    moveToRate();
  });
  return start;
}
