// The losses as functions of angles in radians, each with its slope: one table, read by the curves and by the sphere.
//
// target(angle, p) is the target's logit, negative(angle, p, target angle) a wrong class's, each [value, d/d angle].
// kind says what becomes of them:
//   softmax   softplus(logsumexp of the negatives - target)
//   largest   (logsumexp of the negatives - target) / s
//   sum       pull(target) + sum of the negatives; pull is [value, d/d target]; a third and a fourth entry of a
//             negative are its slopes in the target's angle and in the bias, if not 0
// `detached` losses take the slope of the cosine without the margin, as their papers train.
const losses = (() => {
  const { softplus, sigmoid } = geometry;
  const number = (key, symbol, label, value, min, max, step, more = {}) => ({
    key, symbol, label, value, min, max, step, ...more,
  });

  // Settings of all losses together.
  const SHARED = [
    number("C", "C", "classes", 85742, 2, 1e9, 1, { logarithmic: true, integer: true }),
    number("d", "d", "dimensions", 512, 2, 4096, 1, { logarithmic: true, integer: true }),
    number("s", "s", "scale", 64, 1, 512, 0.1, { logarithmic: true }),
  ];
  // Settings of SphereFace2, whatever its margin type.
  const BINARY = [
    number("lambda", "λ", "balance", 0.7, 0.001, 0.999, 0.001),
    number("r", "r", "scale", 40, 1, 256, 0.1, { logarithmic: true }),
    number("t", "t", "power", 3, 0.5, 8, 0.1),
    number("b", "b", "bias", null, -200, 200, 0.01, { automatic: "start (App. G)" }),
  ];

  const plain = (angle, p) => [p.s * Math.cos(angle), -p.s * Math.sin(angle)];
  const rectified = (angle, p) => (Math.cos(angle) > 0 ? plain(angle, p) : [0, 0]);
  const cosineMargin = (angle, p, { m0 = 1, m1 = 1, m2 = 0, m3 = 0 }) => [
    p.s * (m0 * Math.cos(m1 * angle + m2) - m3),
    -p.s * m0 * m1 * Math.sin(m1 * angle + m2),
  ];
  const bounded = (angle, m1, m2) => (m1 * angle + m2 < Math.PI ? Math.cos(m1 * angle + m2) : -1);

  // psi(theta) = (-1)^k cos(m theta) - 2k on [k pi/m, (k+1) pi/m].
  function psi(angle, m) {
    const k = Math.min(m - 1, Math.floor((m * angle) / Math.PI));
    const sign = k % 2 === 0 ? 1 : -1;
    return [sign * Math.cos(m * angle) - 2 * k, -sign * m * Math.sin(m * angle)];
  }

  // g(z) = 2 ((z + 1)/2)^t - 1, and its slope, for t < 1 bounded at z = -1.
  const adjust = (z, t) => 2 * (Math.max(0, z + 1) / 2) ** t - 1;
  const adjustSlope = (z, t) => t * Math.max((z + 1) / 2, t < 1 ? 1e-6 : 0) ** (t - 1);

  // The root b of exp(a_y) e^2b + (1 - z) e^b - z exp(-a_i) = 0 (SphereFace2 eqs. 8-10).
  function balancedBias(logZ, ay, ai) {
    const gap = logZ === 0 ? -Infinity : Math.max(logZ, 0) + Math.log(-Math.expm1(-Math.abs(logZ)));
    const root = geometry.logAddExp(2 * gap, Math.log(4) + logZ + ay - ai) / 2;
    const sum = geometry.logAddExp(gap, root);
    return logZ > 0 ? sum - Math.log(2) - ay : Math.log(2) + logZ - ai - sum;
  }

  // One of SphereFace2's margin types: the bent cosine of the target, and m on both sides (type c alone).
  function sphereface2(type, title, formula, equation, margin, bend) {
    const both = (p) => (type === "c" ? p.m : 0);
    return {
      title, formula, equation, kind: "sum", probability: "binary", detached: type !== "c", groups: ["binary"],
      parameters: [number("m", "m", "margin", ...margin)],
      prepare(p) {
        if (p.b !== null) return p;
        const logZ = Math.log(p.lambda) - Math.log1p(-p.lambda) - Math.log(p.C - 1);
        const ay = p.r * (adjust(bend(Math.PI / 2, p.m), p.t) - both(p));
        return { ...p, b: balancedBias(logZ, ay, p.r * (adjust(0, p.t) + both(p))), learned: true };
      },
      target: (angle, p) => [
        p.r * (adjust(bend(angle, p.m), p.t) - both(p)) + p.b,
        -p.r * adjustSlope(Math.cos(angle), p.t) * Math.sin(angle),
      ],
      pull: (logit, p) => [(p.lambda / p.r) * softplus(-logit), (-p.lambda / p.r) * sigmoid(-logit)],
      negative(angle, p) {
        const z = Math.cos(angle);
        const logit = p.r * (adjust(z, p.t) + both(p)) + p.b;
        const share = (1 - p.lambda) * sigmoid(logit);
        const slope = -share * adjustSlope(z, p.t) * Math.sin(angle);
        return [((1 - p.lambda) / p.r) * softplus(logit), slope, 0, share / p.r];
      },
    };
  }

  const softmaxed = { kind: "softmax", probability: "softmax", negative: plain, groups: ["scale"], parameters: [] };
  const agent = { kind: "sum", groups: [] };
  const distance = (angle) => [2 * Math.cos(angle) - 2, -2 * Math.sin(angle)];
  const ADDED = "L = softplus(log Σ e^(s cos θⱼ) − t), ";

  const TABLE = {
    normface: {
      ...softmaxed, title: "NormFace", formula: ADDED + "t = s cos θ", equation: "NormFace eq. 6", target: plain,
    },
    ampface: {
      ...softmaxed, title: "AmpFace",
      formula: "L = softplus(log Σ e^(s max(0, cos θⱼ)) − t), t = s m₀ cos θ",
      equation: "AmpFace eq. 3 (m₀), wrong-class ReLU",
      parameters: [number("m", "m₀", "amplitude", 0.35, 0.01, 1, 0.01)],
      target: (angle, p) => cosineMargin(angle, p, { m0: p.m }),
      negative: rectified,
      kinks: () => [Math.PI / 2],
    },
    sphereface_r: {
      ...softmaxed, title: "SphereFace-R v1", formula: ADDED + "t = s cos(min(m, π/θ) θ), gradient detached",
      equation: "SphereFace2 App. F; m₁ of AmpFace eq. 3", detached: true,
      parameters: [number("m", "m₁", "multiple of the angle", 1.85, 1, 8, 0.01)],
      target: (angle, p) => [p.s * bounded(angle, p.m, 0), -p.s * Math.sin(angle)],
    },
    arcface: {
      ...softmaxed, title: "ArcFace", formula: ADDED + "t = s cos(θ + m)",
      equation: "m₂ of AmpFace eq. 3",
      parameters: [number("m", "m₂", "added angle, radians", 0.6, 0, 1.57, 0.01)],
      target: (angle, p) => cosineMargin(angle, p, { m2: p.m }),
    },
    cosface: {
      ...softmaxed, title: "CosFace", formula: ADDED + "t = s (cos θ − m)", equation: "m₃ of AmpFace eq. 3",
      parameters: [number("m", "m₃", "subtracted cosine", 0.5, 0, 2, 0.01)],
      target: (angle, p) => cosineMargin(angle, p, { m3: p.m }),
    },
    unified: {
      ...softmaxed, title: "Unified m₀..m₃", formula: ADDED + "t = s (m₀ cos(m₁ θ + m₂) − m₃)",
      equation: "AmpFace eq. 3",
      parameters: [
        number("m0", "m₀", "amplitude", 1, 0.01, 2, 0.01),
        number("m1", "m₁", "multiple of the angle", 1, 0.01, 8, 0.01),
        number("m2", "m₂", "added angle, radians", 0.3, 0, 1.57, 0.01),
        number("m3", "m₃", "subtracted cosine", 0.2, 0, 2, 0.01),
        number("relu", "ReLU", "max(0, cos θⱼ) for wrong classes", 0, 0, 1, 1, { toggle: true }),
      ],
      target: cosineMarginOf,
      negative: (angle, p) => (p.relu ? rectified : plain)(angle, p),
      kinks: (p) => (p.relu ? [Math.PI / 2] : []),
    },
    sphereface: {
      ...softmaxed, title: "SphereFace ψ", formula: ADDED + "t = s ψ(θ), ψ = (−1)^k cos(m θ) − 2k",
      equation: "SphereFace eq. 7, with s for the feature's length",
      parameters: [number("m", "m", "multiple of the angle", 4, 1, 4, 1, { integer: true })],
      target: (angle, p) => psi(angle, p.m).map((x) => p.s * x),
    },
    sphereface_r2: {
      ...softmaxed, title: "SphereFace-R v2",
      formula: "L = softplus(log Σ e^(s cos(θⱼ/m)) − t), t = s cos θ, gradient detached",
      equation: "SphereFace Revived, v2", detached: true,
      parameters: [number("m", "m", "divisor of wrong angles", 1.4, 1, 8, 0.01)],
      target: plain,
      negative: (angle, p) => [p.s * Math.cos(angle / p.m), -p.s * Math.sin(angle)],
    },
    curricularface: {
      ...softmaxed, title: "CurricularFace", coupled: true,
      formula: "ArcFace's t; wrong classes with cos θⱼ > cos(θ + m) weigh s cos θⱼ (τ + cos θⱼ)",
      equation: "CurricularFace eqs. 5-9",
      parameters: [
        number("m", "m", "added angle, radians", 0.5, 0, 1.57, 0.01),
        number("t", "τ", "running mean of cos θ", 0.3, -1, 1, 0.01),
      ],
      target: (angle, p) => cosineMargin(angle, p, { m2: p.m }),
      negative(angle, p, own) {
        const z = Math.cos(angle);
        if (z <= Math.cos(own + p.m)) return plain(angle, p);
        return [p.s * z * (p.t + z), -p.s * (p.t + 2 * z) * Math.sin(angle)];
      },
      kinks: (p, own) => [Math.acos(Math.cos(own + p.m))],
    },
    circle: {
      ...softmaxed, title: "Circle", groups: [], detached: true,
      formula:
        "L = softplus(log Σ e^(γ [cos θⱼ + m]₊ (cos θⱼ − m)) − t), t = γ [1 + m − cos θ]₊ (cos θ − 1 + m)",
      equation: "Circle Loss eqs. 6, 8; weights held constant",
      parameters: [
        number("gamma", "γ", "scale", 256, 1, 1024, 1, { logarithmic: true }),
        number("m", "m", "margin", 0.25, -1, 1, 0.01),
      ],
      target(angle, p) {
        const weight = p.gamma * Math.max(0, 1 + p.m - Math.cos(angle));
        return [weight * (Math.cos(angle) - 1 + p.m), -weight * Math.sin(angle)];
      },
      negative(angle, p) {
        const weight = p.gamma * Math.max(0, Math.cos(angle) + p.m);
        return [weight * (Math.cos(angle) - p.m), -weight * Math.sin(angle)];
      },
      kinks: (p) => [Math.acos(-p.m)],
    },
    lm_softmax: {
      title: "LM-Softmax", formula: "L = (log Σ e^(s cos θⱼ) − s cos θ) / s", equation: "Largest Margins eq. 3.5",
      kind: "largest", groups: ["scale"], parameters: [], target: plain, negative: plain,
    },
    sphereface2_c: sphereface2(
      "c", "SphereFace2-C",
      "L = λ/r softplus(−t) + (1−λ)/r Σ softplus(r (g(cos θⱼ) + m) + b), t = r (g(cos θ) − m) + b",
      "SphereFace2 eq. 5", [0.4, 0, 2, 0.01], (angle) => Math.cos(angle),
    ),
    sphereface2_a: sphereface2(
      "a", "SphereFace2-A", "as C, with t = r g(cos(min(π, θ + m))) + b and no m on wrong classes; gradient detached",
      "SphereFace2 App. F", [0.5, 0, 3.14, 0.01], (angle, m) => bounded(angle, 1, m),
    ),
    sphereface2_m: sphereface2(
      "m", "SphereFace2-M", "as C, with t = r g(cos(min(m, π/θ) θ)) + b and no m on wrong classes; gradient detached",
      "SphereFace2 App. F", [1.7, 1, 8, 0.01], (angle, m) => bounded(angle, m, 0),
    ),
    c_contrastive: {
      ...agent, title: "C-contrastive", formula: "L = d² + Σ max(0, m − dⱼ²), d² = 2 − 2 cos θ, t = −d²",
      equation: "NormFace eq. 10",
      parameters: [number("m", "m", "margin", 1, 0, 4, 0.01)],
      target: distance,
      pull: (logit) => [-logit, -1],
      negative: (angle, p) => hinge(p.m - 2 + 2 * Math.cos(angle), angle),
      kinks: (p) => [Math.acos(1 - p.m / 2)],
    },
    c_triplet: {
      ...agent, title: "C-triplet", formula: "L = Σ max(0, m + d² − dⱼ²), d² = 2 − 2 cos θ, t = −d²",
      equation: "NormFace eq. 11", coupled: true,
      parameters: [number("m", "m", "margin", 0.8, 0, 4, 0.01)],
      target: distance,
      pull: () => [0, 0],
      negative(angle, p, own) {
        const [value, slope] = hinge(p.m - 2 * Math.cos(own) + 2 * Math.cos(angle), angle);
        return [value, slope, value > 0 ? 2 * Math.sin(own) : 0];
      },
      kinks: (p, own) => [Math.acos(Math.max(-1, Math.cos(own) - p.m / 2))],
    },
  };

  function cosineMarginOf(angle, p) {
    return cosineMargin(angle, p, p);
  }

  function hinge(value, angle) {
    return value > 0 ? [value, -2 * Math.sin(angle)] : [0, 0];
  }

  const groups = (name) => ({ shared: SHARED, binary: TABLE[name].groups.includes("binary") ? BINARY : [] });

  // Every setting a loss reads, as {key in the page's settings: its description}.
  function settingsOf(name) {
    const { shared, binary } = groups(name);
    const common = shared.filter((x) => x.key !== "s" || TABLE[name].groups.includes("scale"));
    return [
      ...common,
      ...binary.map((x) => ({ ...x, key: `sphereface2.${x.key}` })),
      ...TABLE[name].parameters.map((x) => ({ ...x, key: `${name}.${x.key}` })),
    ];
  }

  // What the functions above call p, from the page's settings; `changes` of it are for the sphere.
  function resolve(name, settings, changes = {}) {
    const p = {};
    for (const { key } of settingsOf(name)) p[key.split(".").pop()] = settings[key];
    const loss = TABLE[name];
    const full = { ...p, ...changes };
    return loss.prepare ? loss.prepare(full) : full;
  }

  // Value and slopes for one sample, in the target's angle, those of all wrong classes, and the bias.
  function evaluate(name, p, own, wrong) {
    const loss = TABLE[name];
    const [logit, logitSlope] = loss.target(own, p);
    const terms = wrong.map((angle) => loss.negative(angle, p, own));
    if (loss.kind === "sum") {
      const [value, pull] = loss.pull(logit, p);
      return {
        loss: terms.reduce((sum, term) => sum + term[0], value),
        target: terms.reduce((sum, term) => sum + (term[2] || 0), pull * logitSlope),
        wrong: terms.map((term) => term[1]),
        bias: terms.reduce((sum, term) => sum + (term[3] || 0), pull),
      };
    }
    const high = terms.reduce((most, term) => Math.max(most, term[0]), -Infinity);
    const shares = terms.map((term) => Math.exp(term[0] - high));
    const total = shares.reduce((a, b) => a + b);
    const excess = high + Math.log(total) - logit;
    const outer = loss.kind === "largest" ? 1 / p.s : sigmoid(excess);
    return {
      loss: loss.kind === "largest" ? excess / p.s : softplus(excess),
      target: -outer * logitSlope,
      wrong: terms.map((term, j) => (outer * shares[j] * term[1]) / total),
      bias: 0,
    };
  }

  return { TABLE, SHARED, BINARY, settingsOf, resolve, evaluate };
})();
