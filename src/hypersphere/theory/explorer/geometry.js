// The sphere in d dimensions: the law of an angle, caps, the nearest prototype. Angles are in radians.
const geometry = (() => {
  const SCAN = 256;
  const PANELS = 16;
  const NEGLIGIBLE = 50;

  const softplus = (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
  const sigmoid = (x) => (x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x)));

  function logAddExp(a, b) {
    const high = Math.max(a, b);
    return high === -Infinity ? high : high + Math.log1p(Math.exp(Math.min(a, b) - high));
  }

  // Nodes and weights of Gauss and Legendre's rule on [-1, 1], by Newton's method.
  function legendre(count) {
    const nodes = [];
    const weights = [];
    for (let i = 1; i <= count; i++) {
      let x = Math.cos((Math.PI * (i - 0.25)) / (count + 0.5));
      let slope = 1;
      for (let round = 0; round < 20; round++) {
        let [before, now] = [1, x];
        for (let n = 2; n <= count; n++) [before, now] = [now, ((2 * n - 1) * x * now - (n - 1) * before) / n];
        slope = (count * (x * now - before)) / (x * x - 1);
        x -= now / slope;
      }
      nodes.push(x);
      weights.push(2 / ((1 - x * x) * slope * slope));
    }
    return { nodes, weights };
  }
  const RULE = legendre(24);

  // Calls use(x, weight) at the nodes of the rule on equal panels of [low, high].
  function quadrature(low, high, panels, use) {
    const half = (high - low) / (2 * panels);
    for (let panel = 0; panel < panels; panel++) {
      const middle = low + (2 * panel + 1) * half;
      RULE.nodes.forEach((node, i) => use(middle + half * node, half * RULE.weights[i]));
    }
  }

  // log B((d-1)/2, 1/2), from B(a+1, 1/2) = B(a, 1/2) a / (a + 1/2).
  const logBetas = new Map();
  function logBeta(dim) {
    if (logBetas.has(dim)) return logBetas.get(dim);
    let a = dim % 2 === 0 ? 0.5 : 1;
    let value = dim % 2 === 0 ? Math.log(Math.PI) : Math.log(2);
    for (; a < (dim - 1) / 2; a++) value += Math.log(a / (a + 0.5));
    logBetas.set(dim, value);
    return value;
  }

  // The log density of the angle between a fixed and a uniform direction: sin^(d-2) / B((d-1)/2, 1/2).
  function logDensity(dim) {
    const norm = logBeta(dim);
    return (angle) => (dim === 2 ? 0 : (dim - 2) * Math.log(Math.sin(angle))) - norm;
  }

  // log E f of the angle to a uniform direction, f >= 0 given by its logarithm; kinks of f bound the panels.
  function logMean(dim, logF, kinks = []) {
    const density = logDensity(dim);
    const integrand = (angle) => density(angle) + logF(angle);
    const scan = Array.from({ length: SCAN }, (_, i) => integrand((Math.PI * (i + 0.5)) / SCAN));
    const floor = scan.reduce((a, b) => Math.max(a, b)) - NEGLIGIBLE;
    if (floor === -Infinity) return -Infinity;
    const low = Math.max(0, (Math.PI * (scan.findIndex((x) => x >= floor) - 1)) / SCAN);
    const high = Math.min(Math.PI, (Math.PI * (scan.findLastIndex((x) => x >= floor) + 2)) / SCAN);
    const edges = [low, ...kinks.filter((k) => k > low && k < high).sort((a, b) => a - b), high];
    let sum = 0;
    for (let i = 1; i < edges.length; i++) {
      quadrature(edges[i - 1], edges[i], PANELS, (angle, weight) => {
        sum += weight * Math.exp(integrand(angle) - floor);
      });
    }
    return floor + Math.log(sum);
  }

  // The continued fraction of the incomplete beta function, by Lentz's method.
  function betaFraction(x, a, b) {
    const keep = (y) => (Math.abs(y) < 1e-300 ? 1e-300 : y);
    let c = 1;
    let d = 1 / keep(1 - ((a + b) * x) / (a + 1));
    let value = d;
    for (let m = 1; m < 1000; m++) {
      const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
      d = 1 / keep(1 + even * d);
      c = keep(1 + even / c);
      value *= d * c;
      const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
      d = 1 / keep(1 + odd * d);
      c = keep(1 + odd / c);
      value *= d * c;
      if (Math.abs(d * c - 1) < 1e-15) break;
    }
    return value;
  }

  // log of a cap's share of the sphere: A(t) = I(sin^2 t; (d-1)/2, 1/2) / 2 up to pi/2, 1 - A(pi - t) beyond.
  function logCapArea(angle, dim) {
    if (angle > Math.PI / 2) return Math.log1p(-Math.exp(logCapArea(Math.PI - angle, dim)));
    if (angle === 0) return -Infinity;
    const half = (dim - 1) / 2;
    const [sine, cosine] = [Math.sin(angle), Math.cos(angle)];
    const front = 2 * half * Math.log(sine) + Math.log(cosine) - logBeta(dim);
    if (sine * sine < (half + 1) / (half + 2.5)) {
      return front + Math.log(betaFraction(sine * sine, half, 0.5) / (2 * half));
    }
    return Math.log((1 - Math.exp(front) * 2 * betaFraction(cosine * cosine, 0.5, half)) / 2);
  }

  // The root of a function that falls or rises through zero between low and high.
  function bisect(f, low, high) {
    const sign = f(low) > 0;
    for (let round = 0; round < 80; round++) {
      const middle = (low + high) / 2;
      if (f(middle) > 0 === sign) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  }

  // E of the angle to the nearest of C - 1 uniform prototypes: int (1 - A(t))^(C-1) dt (AmpFace Prop. 1).
  function nearestAngle(classes, dim) {
    const others = classes - 1;
    const low = bisect((t) => logCapArea(t, dim) - Math.log(1e-17 / others), 0, Math.PI);
    const high = bisect((t) => others * logCapArea(Math.PI - t, dim) + 45, 0, Math.PI);
    let mean = low;
    quadrature(low, high, PANELS, (t, weight) => {
      mean += weight * Math.exp(others * logCapArea(Math.PI - t, dim));
    });
    return mean;
  }

  return { softplus, sigmoid, logAddExp, legendre, logMean, logCapArea, bisect, nearestAngle };
})();
