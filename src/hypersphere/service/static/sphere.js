// Templates inside the unit ball, turned by dragging or with the arrow keys.

import { ask, counted, element, rate } from "./api.js";

const byId = (id) => document.getElementById(id);

function hue(name) {
  let sum = 0;
  for (const letter of name) sum = (sum * 31 + letter.codePointAt(0)) >>> 0;
  return Math.round(sum * 137.508) % 360;
}

export function startSphere() {
  const canvas = byId("globe"), pen = canvas.getContext("2d");
  let points = [], turn = 0.6, tilt = 0.35;

  const seen = ({ x, y, z }) => {
    const across = x * Math.cos(turn) + z * Math.sin(turn), deep = z * Math.cos(turn) - x * Math.sin(turn);
    return [across, y * Math.cos(tilt) - deep * Math.sin(tilt), deep * Math.cos(tilt) + y * Math.sin(tilt)];
  };

  function draw() {
    const size = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
    if (!size) return;
    canvas.width = canvas.height = Math.round(size * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink"), line = style.getPropertyValue("--line"), soft = style.getPropertyValue("--soft");
    const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
    const middle = size / 2, radius = size * 0.44;
    const place = ([x, y]) => [middle + radius * x, middle - radius * y];
    pen.clearRect(0, 0, size, size);
    pen.lineWidth = 1;
    pen.strokeStyle = line;
    for (let circle = 0; circle < 9; circle += 1) {
      pen.beginPath();
      for (let step = 0; step <= 72; step += 1) {
        const angle = (step / 72) * 2 * Math.PI, other = (circle / 6) * Math.PI;
        const height = ((circle - 7) / 2) * 1;
        const ring = Math.sqrt(1 - height * height);
        const at = circle < 6
          ? { x: Math.cos(angle) * Math.cos(other), y: Math.sin(angle), z: Math.cos(angle) * Math.sin(other) }
          : { x: ring * Math.cos(angle), y: height, z: ring * Math.sin(angle) };
        pen.lineTo(...place(seen(at)));
      }
      pen.stroke();
    }
    pen.strokeStyle = soft;
    pen.beginPath();
    pen.arc(middle, middle, radius, 0, 2 * Math.PI);
    pen.stroke();
    pen.font = "12px system-ui, sans-serif";
    ["x", "y", "z"].forEach((axis) => {
      const end = place(seen({ x: 0, y: 0, z: 0, [axis]: 1 }));
      pen.beginPath();
      pen.moveTo(middle, middle);
      pen.lineTo(...end);
      pen.stroke();
      pen.fillStyle = soft;
      pen.fillText(`axis ${"xyz".indexOf(axis) + 1}`, end[0] + 4, end[1] - 4);
    });
    const ordered = points.map((point) => ({ point, at: seen(point) })).sort((a, b) => a.at[2] - b.at[2]);
    const named = new Set(), taken = [];
    for (const { point, at } of ordered) {
      const [x, y] = place(at);
      pen.globalAlpha = 0.45 + 0.55 * ((at[2] + 1) / 2);
      pen.fillStyle = `hsl(${hue(point.subject)} 70% ${dark ? 65 : 40}%)`;
      pen.beginPath();
      pen.arc(x, y, 4 + 2 * at[2], 0, 2 * Math.PI);
      pen.fill();
    }
    pen.globalAlpha = 1;
    for (const { point, at } of ordered.reverse()) {
      const [x, y] = place(at);
      if (named.has(point.subject) || taken.some(([a, b]) => Math.abs(a - x) < 70 && Math.abs(b - y) < 13)) continue;
      named.add(point.subject);
      taken.push([x, y]);
      const name = point.subject.length > 24 ? `${point.subject.slice(0, 23)}…` : point.subject;
      const left = x + 8 + pen.measureText(name).width > size;
      pen.textAlign = left ? "right" : "left";
      pen.fillStyle = ink;
      pen.fillText(name, x + (left ? -8 : 8), y + 4);
    }
    pen.textAlign = "left";
  }

  const move = (across, down) => {
    turn += across;
    tilt = Math.max(-1.5, Math.min(1.5, tilt + down));
    draw();
  };
  canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons) move(-event.movementX / 120, event.movementY / 120);
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-0.12, 0], ArrowRight: [0.12, 0], ArrowUp: [0, -0.12], ArrowDown: [0, 0.12] }[event.key];
    if (!step) return;
    event.preventDefault();
    move(...step);
  });
  window.addEventListener("resize", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

  return async () => {
    const said = await ask("/v1/projection");
    points = said.points;
    const held = said.shares.reduce((sum, share) => sum + share, 0);
    byId("sphere-words").textContent = points.length
      ? `${counted(said.shown, "template")} on the three principal axes through the centre of the sphere (${said.method.split(":")[0]}): the axes hold ` +
        `${said.shares.map(rate).join(", ")} of the squared length, ${rate(held)} in all. What is near here may be far apart on the sphere.`
      : "The gallery is empty: enrol somebody first.";
    byId("sphere-table").replaceChildren(
      element("tr", {}, ...["person", "axis 1", "axis 2", "axis 3"].map((text) => element("th", { textContent: text, scope: "col" }))),
      ...points.slice(0, 200).map((point) => element("tr", {}, element("td", { textContent: point.subject }),
        ...["x", "y", "z"].map((axis) => element("td", { textContent: point[axis].toFixed(3) })))));
    canvas.dataset.turn = turn;
    draw();
  };
}
