// The toy problem of Learning Towards the Largest Margins (Fig. 3): k prototypes and n samples of each, all free on the
// sphere in 3-D, moved by the gradient of a loss.
const motion = (() => {
  const SLOW = 100;
  const [FIRST, SECOND] = [0.9, 0.99];

  // Numbers in [0, 1) from a seed (mulberry32).
  function random(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let x = Math.imul(state ^ (state >>> 15), 1 | state);
      x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
      return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
    };
  }

  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
  const unit = (a) => a.map((x) => x / Math.hypot(...a));
  const angleBetween = (a, b) => Math.atan2(Math.hypot(...cross(a, b)), dot(a, b));

  // By Archimedes, the height of a uniform point is uniform.
  function uniform(draw) {
    const height = 2 * draw() - 1;
    const turn = 2 * Math.PI * draw();
    const radius = Math.sqrt(1 - height * height);
    return [radius * Math.cos(turn), radius * Math.sin(turn), height];
  }

  function start(classes, samples, seed) {
    const draw = random(seed);
    const prototypes = Array.from({ length: classes }, () => uniform(draw));
    const points = Array.from({ length: classes * samples }, () => uniform(draw));
    const labels = points.map((_, i) => Math.floor(i / samples));
    const all = [...prototypes, ...points];
    const bias = { value: null, mean: 0, square: 0 };
    return { classes, labels, all, step: 0, mean: all.map(() => [0, 0, 0]), square: all.map(() => 0), bias };
  }

  const prototypes = (state) => state.all.slice(0, state.classes);
  const points = (state) => state.all.slice(state.classes);

  // The mean loss and its gradient on the sphere, one tangent vector for each prototype and sample; that of the bias.
  function gradient(state, name, p) {
    const found = state.all.map(() => [0, 0, 0]);
    const count = state.labels.length;
    let [loss, bias] = [0, 0];
    state.labels.forEach((label, i) => {
      const x = state.all[state.classes + i];
      const angles = prototypes(state).map((w) => angleBetween(x, w));
      const result = losses.evaluate(name, p, angles[label], angles.filter((_, j) => j !== label));
      loss += result.loss / count;
      bias += result.bias / count;
      const slopes = [...result.wrong.slice(0, label), result.target, ...result.wrong.slice(label)];
      slopes.forEach((slope, j) => {
        const w = state.all[j];
        const [sine, cosine] = [Math.sin(angles[j]), Math.cos(angles[j])];
        if (sine < 1e-12) return;
        for (let axis = 0; axis < 3; axis++) {
          found[j][axis] -= (slope / count) * ((x[axis] - cosine * w[axis]) / sine);
          found[state.classes + i][axis] -= (slope / count) * ((w[axis] - cosine * x[axis]) / sine);
        }
      });
    });
    return { loss, gradient: found, bias };
  }

  // One step of Adam with one size per vector, on the sphere; its length falls with the number of steps. The gradient
  // is first divided by its own size, for a loss near zero would hardly move: its logarithm has that direction.
  // A bias left to its start (p.learned) moves too, r times as far, for it stands beside r cos.
  function advance(state, name, start, rate) {
    const p = start.learned && state.bias.value !== null ? { ...start, b: state.bias.value } : start;
    const found = gradient(state, name, p);
    const size = root(found.gradient);
    if (!(size > 0)) return { ...state, loss: found.loss, still: true };
    const slopes = found.gradient.map((g) => g.map((x) => x / size));
    const step = state.step + 1;
    const length = rate / (1 + step / SLOW) ** 2 / (1 - FIRST ** step);
    const reach = (square) => (square > 0 ? length / Math.sqrt(square / (1 - SECOND ** step)) : 0);
    const mean = slopes.map((g, i) => g.map((x, axis) => FIRST * state.mean[i][axis] + (1 - FIRST) * x));
    const square = slopes.map((g, i) => SECOND * state.square[i] + (1 - SECOND) * dot(g, g));
    const all = state.all.map((point, i) => unit(point.map((x, axis) => x - reach(square[i]) * mean[i][axis])));
    const bias = {
      mean: FIRST * state.bias.mean + ((1 - FIRST) * found.bias) / size,
      square: SECOND * state.bias.square + (1 - SECOND) * (found.bias / size) ** 2,
    };
    bias.value = start.learned ? p.b - p.r * reach(bias.square) * bias.mean : null;
    return { ...state, all, mean, square, bias, step, loss: found.loss, still: false };
  }

  // The root of the mean squared length of vectors, which may be as short as numbers can be.
  function root(vectors) {
    const largest = vectors.flat().reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    const squares = vectors.flat().reduce((sum, x) => sum + (x / largest) ** 2, 0);
    return largest > 0 ? largest * Math.sqrt(squares / vectors.length) : 0;
  }

  // Class margin (eq. 2.2) and smallest sample margin: in degrees, and in cosines as the paper has it (eq. 2.6).
  function margins(state) {
    const w = prototypes(state);
    const degrees = 180 / Math.PI;
    let classMargin = Math.PI;
    w.forEach((a, i) => w.slice(0, i).forEach((b) => (classMargin = Math.min(classMargin, angleBetween(a, b)))));
    let [sampleMargin, cosineMargin] = [Infinity, Infinity];
    points(state).forEach((x, i) => {
      const angles = w.map((a) => angleBetween(x, a));
      const own = angles[state.labels[i]];
      const nearest = Math.min(...angles.filter((_, j) => j !== state.labels[i]));
      sampleMargin = Math.min(sampleMargin, nearest - own);
      cosineMargin = Math.min(cosineMargin, Math.cos(own) - Math.cos(nearest));
    });
    return { classes: degrees * classMargin, samples: degrees * sampleMargin, cosine: cosineMargin };
  }

  return { random, start, prototypes, points, gradient, advance, margins, angleBetween };
})();
