// A loss over the angle, its wrong classes uniform on the sphere and at their expectation (AmpFace App. C).
const curves = (() => {
  const { softplus, sigmoid, logAddExp, logMean, bisect } = geometry;
  const LEVEL = 0.1;
  const ODDS = Math.log((1 - LEVEL) / LEVEL);
  const GRID = 360;

  // The curves of a loss with parameters p (of losses.resolve): functions of angles in radians.
  function expected(name, p) {
    const loss = losses.TABLE[name];
    const kinks = (own) => (loss.kinks ? loss.kinks(p, own) : []);
    const mean = (logF, own) => logMean(p.d, logF, kinks(own));
    // log E e^n of a wrong class, or log E n where negatives are summed.
    const perClass = remember((own) => {
      const value = (angle) => loss.negative(angle, p, own)[0];
      return mean(loss.kind === "sum" ? (angle) => Math.log(value(angle)) : value, own);
    });
    // E of a summed negative's slope in the target's angle.
    const coupling = (own) => Math.exp(mean((angle) => Math.log(loss.negative(angle, p, own)[2] || 0), own));
    const logWeight = (own, count = p.C - 1) => Math.log(count) + perClass(own);
    const logit = (own) => loss.target(own, p)[0];
    const excess = (own) => logWeight(own) - logit(own);

    // Where own angles do not matter to the negatives, their expectation is computed once.
    function remember(f) {
      if (loss.coupled) return f;
      let known = null;
      return (own) => (known === null ? (known = f(own)) : known);
    }

    function value(own) {
      if (loss.kind === "softmax") return softplus(excess(own));
      if (loss.kind === "largest") return excess(own) / p.s;
      return loss.pull(logit(own), p)[0] + Math.exp(logWeight(own));
    }

    // dL/d theta_y, per radian.
    function targetGradient(own) {
      const slope = loss.target(own, p)[1];
      if (loss.kind === "softmax") return -sigmoid(excess(own)) * slope;
      if (loss.kind === "largest") return -slope / p.s;
      const pulled = loss.pull(logit(own), p)[1] * slope;
      return loss.coupled ? pulled + (p.C - 1) * coupling(own) : pulled;
    }

    // dL/d theta_j of one wrong class at its own angle, the C - 2 others at their expectation, per radian: for a
    // target's angle, a function of theta_j.
    function wrongGradient(own) {
      const rest = loss.kind !== "sum" && p.C > 2 ? logWeight(own, p.C - 2) : -Infinity;
      return (angle) => {
        const [score, slope] = loss.negative(angle, p, own);
        if (loss.kind === "sum") return slope;
        const wrong = logAddExp(score, rest);
        if (loss.kind === "largest") return (Math.exp(score - wrong) * slope) / p.s;
        return Math.exp(score - logAddExp(wrong, logit(own))) * slope;
      };
    }

    // The first angle with 1 - p_y = 0.1, or null; p_y of the softmax, or of the target's own classifier.
    function termination() {
      if (!loss.probability) return null;
      const ahead = (own) => (loss.probability === "binary" ? logit(own) : -excess(own)) - ODDS;
      if (!(ahead(0) >= 0)) return null;
      for (let i = 1; i <= GRID; i++) {
        if (ahead((Math.PI * i) / GRID) < 0) return bisect(ahead, (Math.PI * (i - 1)) / GRID, (Math.PI * i) / GRID);
      }
      return null;
    }

    return { logit, value, targetGradient, wrongGradient, termination, logWeight };
  }

  return { expected };
})();
