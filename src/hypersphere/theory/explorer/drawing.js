// Pictures: charts as SVG markup, the sphere as a list of shapes that a canvas or an SVG file shows.
const drawing = (() => {
  const LIGHT = { ink: "#1c2127", soft: "#57606a", paper: "#ffffff", line: "#d5dae0" };
  const SCREEN = { ink: "var(--ink)", soft: "var(--soft)", paper: "var(--paper)", line: "var(--line)" };
  const COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "ink", "#7F7F7F"];
  const DASHES = ["", "7 3", "2 3"];
  const FONT = "font-family:system-ui,sans-serif";
  const EDGE = { left: 52, right: 16, top: 26, bottom: 36 };

  const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

  const escape = (text) => String(text).replace(/[&<>"]/g, (character) => ENTITIES[character]);
  const color = (index, palette) => palette[COLORS[index % COLORS.length]] || COLORS[index % COLORS.length];
  const dash = (index) => DASHES[Math.floor(index / COLORS.length) % DASHES.length];
  const short = (x) => Number(x.toFixed(2));
  const stroke = (index, palette) =>
    `stroke:${color(index, palette)};stroke-width:2;stroke-dasharray:${dash(index) || "none"}`;

  function line(points, style) {
    const path = points.map(([x, y], i) => `${i ? "L" : "M"}${short(x)} ${short(y)}`).join("");
    return `<path d="${path}" style="fill:none;${style}"/>`;
  }

  function text(x, y, content, style) {
    return `<text x="${short(x)}" y="${short(y)}" style="${FONT};font-size:11px;${style}">${escape(content)}</text>`;
  }

  // Round numbers between low and high, about `count` of them.
  function ticks(low, high, count) {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((x) => x * power).find((x) => x >= rough);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) {
      found.push(Number((i * step).toPrecision(12)));
    }
    return found;
  }

  function span(lines) {
    let [low, high] = [0, 0];
    for (const { points } of lines) {
      for (const [, y] of points) {
        if (y < low) low = y;
        if (y > high) high = y;
      }
    }
    return low === high ? [low - 1, high + 1] : [low - 0.03 * (high - low), high + 0.06 * (high - low)];
  }

  const across = (degrees, width) => EDGE.left + ((width - EDGE.left - EDGE.right) * degrees) / 180;

  // The angle, to half a degree, at a place across a chart; null beside it.
  function degreesAt(x, width) {
    const degrees = Math.round((360 * (x - EDGE.left)) / (width - EDGE.left - EDGE.right)) / 2;
    return degrees >= 0 && degrees <= 180 ? degrees : null;
  }

  // A chart over 0..180 degrees: {title, label, lines: [{index, points, mark}], verticals: [{x, label}], cursor}.
  function chart(content, palette, width, height) {
    const [low, high] = span(content.lines);
    const foot = height - EDGE.bottom;
    const x = (degrees) => across(degrees, width);
    const y = (value) => foot - ((foot - EDGE.top) * (value - low)) / (high - low);
    const level = (value, style) => line([[EDGE.left, y(value)], [width - EDGE.right, y(value)]], style);
    const upright = (degrees, style) => line([[x(degrees), EDGE.top], [x(degrees), foot]], style);
    const soft = `fill:${palette.soft}`;
    const parts = [text(EDGE.left, 16, content.title, `fill:${palette.ink};font-weight:600`)];
    for (const value of ticks(low, high, 5)) {
      parts.push(level(value, `stroke:${palette.line}`));
      parts.push(text(EDGE.left - 5, y(value) + 4, String(value), `${soft};text-anchor:end`));
    }
    for (let degrees = 0; degrees <= 180; degrees += 30) {
      parts.push(upright(degrees, `stroke:${palette.line}`));
      parts.push(text(x(degrees), foot + 14, degrees, `${soft};text-anchor:middle`));
    }
    parts.push(text(x(90), height - 6, content.label, `${soft};text-anchor:middle`));
    content.verticals.forEach((vertical, i) => {
      parts.push(upright(vertical.x, `stroke:${palette.soft};stroke-dasharray:4 3`));
      parts.push(text(x(vertical.x) + 3, EDGE.top + 10 + 12 * i, vertical.label, `${soft};font-size:10px`));
    });
    if (content.cursor !== null) parts.push(upright(content.cursor, `stroke:${palette.ink};stroke-opacity:.6`));
    for (const { index, points } of content.lines) {
      const known = points.filter(([, value]) => Number.isFinite(value));
      parts.push(line(known.map(([a, b]) => [x(a), y(b)]), stroke(index, palette)));
    }
    for (const { index, mark } of content.lines.filter((one) => one.mark)) {
      const place = `cx="${short(x(mark[0]))}" cy="${short(y(mark[1]))}" r="4"`;
      const style = `fill:${color(index, palette)};stroke:${palette.paper}`;
      parts.push(`<circle ${place} style="${style}"><title>ends at ${mark[0].toFixed(2)}°</title></circle>`);
    }
    return parts.join("");
  }

  // A piece of a loss's line, 26 x 8.
  const sample = (index, palette) => line([[0, 4], [26, 4]], stroke(index, palette));

  // Several charts, a legend and a line below as one file. `note` is kept in it as its description.
  function sheet(charts, legend, below, note) {
    const [width, height, row] = [460, 300, 18];
    const rows = Math.ceil(charts.length / 2);
    const total = rows * height + (legend.length + 1) * row + 14;
    const body = charts.map((content, i) => {
      const place = `translate(${(i % 2) * width} ${Math.floor(i / 2) * height})`;
      return `<g transform="${place}">${chart({ ...content, cursor: null }, LIGHT, width, height)}</g>`;
    });
    legend.forEach(({ index, label }, i) => {
      const [x, y] = [20, rows * height + 14 + i * row];
      body.push(line([[x, y], [x + 30, y]], stroke(index, LIGHT)));
      body.push(text(x + 38, y + 4, label, `fill:${LIGHT.ink}`));
    });
    body.push(text(20, total - 10, below, `fill:${LIGHT.soft}`));
    return file(2 * width, total, body.join(""), note);
  }

  function file(width, height, body, note) {
    const space = "http://www.w3.org/2000/svg";
    return (
      `<svg xmlns="${space}" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
      `<desc>${escape(note)}</desc><rect width="100%" height="100%" style="fill:${LIGHT.paper}"/>${body}</svg>`
    );
  }

  // A direction as seen: x to the right, y down, z towards the eye; turn and tilt in degrees.
  function view(turn, tilt) {
    const [a, b] = [(turn * Math.PI) / 180, (tilt * Math.PI) / 180];
    return ([x, y, z]) => {
      const side = Math.cos(a) * x - Math.sin(a) * y;
      const away = Math.sin(a) * x + Math.cos(a) * y;
      return [side, -(Math.cos(b) * z + Math.sin(b) * away), Math.sin(b) * z - Math.cos(b) * away];
    };
  }

  // The sphere with prototypes (numbered) and samples, back to front, in a square of `size`.
  function scene(state, { turn, tilt, size, palette }) {
    const see = view(turn, tilt);
    const [middle, radius] = [size / 2, 0.44 * size];
    const at = ([x, y]) => [middle + radius * x, middle + radius * y];
    const rim = { kind: "circle", at: [middle, middle], radius, fill: "none", stroke: palette.line, width: 1.5 };
    const shapes = [{ ...rim, opacity: 1 }];
    for (const ring of graticule()) {
      let run = [];
      ring.map(see).forEach((point, i, all) => {
        run.push(at(point));
        const next = all[i + 1];
        if (next && next[2] > 0 === point[2] > 0) return;
        const opacity = point[2] > 0 ? 0.9 : 0.35;
        shapes.push({ kind: "path", points: run, stroke: palette.line, width: 1, opacity });
        run = [at(point)];
      });
    }
    const dots = state.all.map((point, i) => ({ seen: see(point), i }));
    dots.sort((a, b) => a.seen[2] - b.seen[2]);
    for (const { seen, i } of dots) {
      const opacity = seen[2] > 0 ? 1 : 0.35;
      const [x, y] = at(seen);
      if (i >= state.classes) {
        const fill = color(state.labels[i - state.classes], palette);
        shapes.push({ kind: "circle", at: [x, y], radius: 0.009 * size, fill, stroke: "none", opacity });
        continue;
      }
      const fill = color(i, palette);
      const place = [x + 0.026 * size, y - 0.014 * size];
      shapes.push(
        { kind: "path", points: [[middle, middle], [x, y]], stroke: fill, width: 1.5, opacity: 0.6 * opacity },
        { kind: "circle", at: [x, y], radius: 0.02 * size, fill, stroke: palette.ink, width: 1, opacity },
        { kind: "text", at: place, text: String(i + 1), fill: palette.ink, size: 0.028 * size, opacity },
      );
    }
    return shapes;
  }

  // Circles of latitude and longitude, every 30 degrees.
  function graticule() {
    const round = Array.from({ length: 73 }, (_, i) => (i * Math.PI) / 36);
    const rings = [];
    for (let i = -2; i <= 2; i++) {
      const height = Math.sin((i * Math.PI) / 6);
      const radius = Math.cos((i * Math.PI) / 6);
      rings.push(round.map((a) => [radius * Math.cos(a), radius * Math.sin(a), height]));
    }
    for (let i = 0; i < 6; i++) {
      const b = (i * Math.PI) / 6;
      rings.push(round.map((a) => [Math.cos(a) * Math.cos(b), Math.cos(a) * Math.sin(b), Math.sin(a)]));
    }
    return rings;
  }

  function paint(context, shapes) {
    for (const shape of shapes) {
      context.globalAlpha = shape.opacity;
      context.strokeStyle = shape.stroke || "none";
      context.lineWidth = shape.width || 0;
      context.fillStyle = shape.fill || "none";
      context.beginPath();
      if (shape.kind === "text") {
        context.font = `${shape.size}px system-ui, sans-serif`;
        context.fillText(shape.text, ...shape.at);
      } else if (shape.kind === "circle") {
        context.arc(...shape.at, shape.radius, 0, 2 * Math.PI);
        if (shape.fill !== "none") context.fill();
        if (shape.stroke !== "none") context.stroke();
      } else {
        shape.points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
        context.stroke();
      }
    }
    context.globalAlpha = 1;
  }

  function sceneFile(shapes, size, note) {
    const body = shapes.map((shape) => {
      const { opacity, fill, at } = shape;
      const style = `opacity:${opacity};stroke:${shape.stroke};stroke-width:${shape.width || 0}`;
      if (shape.kind === "text") {
        return text(...at, shape.text, `fill:${fill};font-size:${short(shape.size)}px;opacity:${opacity}`);
      }
      if (shape.kind === "path") return line(shape.points, style);
      const place = `cx="${short(at[0])}" cy="${short(at[1])}" r="${short(shape.radius)}"`;
      return `<circle ${place} style="fill:${fill};${style}"/>`;
    });
    return file(size, size, body.join(""), note);
  }

  return { LIGHT, SCREEN, color, ticks, chart, degreesAt, sample, sheet, scene, paint, sceneFile };
})();
