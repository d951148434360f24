// A place for one photo: from a file, dropped, or of the camera; with its face marked, or a choice among several.

import { element, svg } from "./api.js";

const NAMES = /\.(jpe?g|png|webp|gif|bmp|tiff?|ppm|heic|heif|avif)$/i;
const isPhoto = (file) => file.type.startsWith("image/") || NAMES.test(file.name ?? "");

async function onlyFace(photo, boxes, chosen) {
  const bitmap = await createImageBitmap(photo);
  const canvas = element("canvas", { width: bitmap.width, height: bitmap.height });
  const context = canvas.getContext("2d");
  const part = ([x0, y0, x1, y1]) => [x0 * canvas.width, y0 * canvas.height, (x1 - x0) * canvas.width, (y1 - y0) * canvas.height];
  context.drawImage(bitmap, 0, 0);
  context.fillStyle = "#808080";
  boxes.forEach((box, place) => { if (place !== chosen) context.fillRect(...part(box)); });
  const kept = part(boxes[chosen]);
  context.drawImage(bitmap, ...kept, ...kept); // where the boxes overlap, the chosen face stays whole
  return new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.95));
}

export class Slot {
  constructor(place, { changed = () => {}, chosen = () => {} } = {}) {
    this.place = place;
    this.changed = changed;
    this.chosen = chosen;
    this.photo = null;
    this.stream = null;
    this.view = element("div", { className: "view" });
    this.crop = element("div", { className: "crop" });
    this.empty = element("p", { className: "empty", textContent: "Drop a photo here, or choose one." });
    const id = `file-${place.dataset.slot}`;
    this.input = element("input", { type: "file", accept: "image/*", id });
    this.camera = element("button", { type: "button", textContent: "Camera" });
    const pick = element("label", { className: "pick", htmlFor: id, textContent: "Choose" });
    place.append(element("h3", { textContent: place.dataset.title }),
      element("div", { className: "pictures" }, this.view, this.crop), this.empty,
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

  get title() {
    return this.place.dataset.title;
  }

  tell(text) {
    this.empty.textContent = text;
    this.empty.hidden = !text;
  }

  use(photo) {
    if (!isPhoto(photo)) {
      this.tell(`${photo.name} is no photo.`);
      return;
    }
    this.stopCamera();
    this.photo = photo;
    const image = element("img", { alt: this.title });
    image.src = URL.createObjectURL(photo);
    image.onload = () => URL.revokeObjectURL(image.src);
    image.onerror = () => this.tell(`This browser cannot show ${photo.name}; it can be compared all the same.`);
    this.view.replaceChildren(image);
    this.crop.replaceChildren();
    this.tell("");
    this.changed();
  }

  // Several faces: a button over each. The one that is chosen is compared, the others are painted over.
  choose(boxes) {
    this.crop.replaceChildren();
    this.view.querySelectorAll("svg, button").forEach((each) => each.remove());
    boxes.forEach(([x0, y0, x1, y1], place) => {
      const button = element("button", { type: "button", className: "face", textContent: place + 1 });
      button.setAttribute("aria-label", `Face ${place + 1} of ${boxes.length}`);
      const share = (value) => `${100 * Math.min(1, Math.max(0, value))}%`;
      Object.assign(button.style, { left: share(x0), top: share(y0), width: share(x1 - x0), height: share(y1 - y0) });
      button.addEventListener("click", async () => {
        this.use(await onlyFace(this.photo, boxes, place));
        this.chosen();
      });
      this.view.append(button);
    });
    this.view.querySelector("button")?.focus();
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
      this.tell("There is no camera, or it may not be used.");
      return;
    }
    const video = element("video", { autoplay: true, muted: true, playsInline: true });
    video.srcObject = this.stream;
    this.view.replaceChildren(video);
    this.crop.replaceChildren();
    this.camera.textContent = "Take the photo";
    this.tell("");
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
    this.unmark();
    this.view.append(drawing);
    if (found.crop) this.crop.replaceChildren(element("img", { alt: "Aligned face", src: found.crop }), "as the model sees it");
  }

  unmark() {
    this.view.querySelectorAll("svg, button").forEach((each) => each.remove());
    this.crop.replaceChildren();
  }
}
