"""The log-likelihood ratio of a score: how much likelier it is for one person than for two."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_finite_number, check_positive, check_range, check_rising
from hypersphere.evaluation import Roc

Floats = npt.NDArray[np.float64]
_STEPS = 100


@dataclass(frozen=True, kw_only=True)
class LlrLine:
    """LLR(s) = slope s + offset, in natural logarithms, held within what the calibration pairs can show.

    Args:
        slope, offset: of the line.
        low, high: bounds: -ln(n + 1) of the genuine pairs, ln(n + 1) of the impostor pairs.
        prior: the share of genuine pairs that the fit was weighed for.
        cllr: cost of the log-likelihood ratios on the calibration pairs, in bits; 1 says nothing, 0 is perfect.
        cllr_min: the least cost that any rising function of the score has on them.
    """

    slope: float
    offset: float
    low: float
    high: float
    prior: float
    cllr: float
    cllr_min: float

    def __post_init__(self) -> None:
        check_positive("slope", self.slope)
        check_finite_number("offset", self.offset)
        if not self.low < 0 < self.high:
            raise ValueError(f"low={self.low:g}, high={self.high:g}: 0 must lie between them")
        check_range("prior", self.prior, 1e-9, 1 - 1e-9)
        check_rising("cllr_min, cllr", (self.cllr_min, self.cllr + 1e-9), 0, math.inf)

    def at(self, score: float) -> float:
        """The log-likelihood ratio of a score.

        Example:
            >>> LlrLine(slope=20, offset=-8, low=-5, high=6, prior=0.5, cllr=0.2, cllr_min=0.19).at(0.5)
            2.0
        """
        return min(self.high, max(self.low, self.slope * score + self.offset))


def fit_llr(genuine: npt.ArrayLike, impostors: npt.ArrayLike, curve: Roc, *, prior: float = 0.5) -> LlrLine:
    """The line a s + b that minimises, by Newton's method in float64,

        prior / n_G  sum over genuine s of ln(1 + exp(-(a s + b + logit prior)))
        + (1 - prior) / n_I  sum over impostor s of ln(1 + exp(a s + b + logit prior)).

    Where no impostor score reaches a genuine one this has no minimum: then the line goes through the highest impostor
    score at the lower bound and the lowest genuine score at the upper one.

    Args:
        genuine: (n_G,) scores of pairs of one person.
        impostors: (n_I,) scores of pairs of two.
        curve: the ROC of both, for the least cost.
        prior: share of genuine pairs to weigh for; C_llr is the cost at one half.

    References:
        Brümmer and du Preez 2006, Application-independent evaluation of speaker detection.
    """
    check_range("prior", prior, 1e-9, 1 - 1e-9)
    own, others = (np.asarray(scores, dtype=np.float64) for scores in (genuine, impostors))
    if own.ndim != 1 or others.ndim != 1 or not len(own) or not len(others):
        raise ValueError(f"genuine {own.shape} and impostors {others.shape} must be two lists of scores, not empty")
    low, high = -math.log(len(own) + 1), math.log(len(others) + 1)
    least, most = float(own.min()), float(others.max())
    if least > most:
        slope = (high - low) / (least - most)
        offset = low - slope * most
    else:
        slope, offset = _minimum(own, others, prior)
    if slope <= 0:
        raise ValueError("genuine pairs score no higher than impostor pairs: the scores say nothing to calibrate")
    ratios = [np.clip(slope * scores + offset, low, high) for scores in (own, others)]
    return LlrLine(
        slope=slope,
        offset=offset,
        low=low,
        high=high,
        prior=prior,
        cllr=cllr(*ratios),
        cllr_min=min_cllr(curve),
    )


def cllr(genuine: npt.ArrayLike, impostors: npt.ArrayLike) -> float:
    """The cost of log-likelihood ratios in bits,

        C_llr = 1 / (2 ln 2) (mean over genuine of ln(1 + exp(-LLR)) + mean over impostors of ln(1 + exp(LLR))).

    Example:
        >>> cllr([0.0, 0.0], [0.0])
        1.0
    """
    own, others = (np.asarray(ratios, dtype=np.float64) for ratios in (genuine, impostors))
    return float(np.logaddexp(0, -own).mean() + np.logaddexp(0, others).mean()) / (2 * math.log(2))


def min_cllr(curve: Roc) -> float:
    """C_llr of the best rising function of the score, which pooling adjacent violators (PAV) finds.

    Its values are the logarithms of the slopes of the ROC's convex hull: a segment of the hull that takes a share g of
    the genuine and a share i of the impostor pairs has LLR ln(g / i).
    """
    far, tar = curve.far, curve.tar
    hull: list[int] = []
    for point in range(len(far)):
        while len(hull) > 1 and _below(far, tar, hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    shares = np.diff(tar[hull]), np.diff(far[hull])
    cost = 0.0
    for own, other in zip(*shares, strict=True):
        if own > 0 and other > 0:
            cost += own * math.log1p(other / own) + other * math.log1p(own / other)
    return float(cost) / (2 * math.log(2))


def _below(far: Floats, tar: Floats, first: int, middle: int, last: int) -> bool:
    """Whether the middle point does not lie above the line from the first to the last."""
    rise, run = tar[last] - tar[first], far[last] - far[first]
    return bool((tar[middle] - tar[first]) * run <= rise * (far[middle] - far[first]))


def _minimum(own: Floats, others: Floats, prior: float) -> tuple[float, float]:
    """Slope and offset by Newton's method, steps halved while the cost does not fall."""
    shift = math.log(prior) - math.log1p(-prior)
    weights = prior / len(own), (1 - prior) / len(others)
    line = np.zeros(2)

    def cost(at: Floats) -> float:
        z = [at[0] * scores + at[1] + shift for scores in (own, others)]
        return float(weights[0] * np.logaddexp(0, -z[0]).sum() + weights[1] * np.logaddexp(0, z[1]).sum())

    now = cost(line)
    for _ in range(_STEPS):
        gradient, curvature = np.zeros(2), np.zeros((2, 2))
        for scores, weight, sign in ((own, weights[0], -1.0), (others, weights[1], 1.0)):
            share = 1 / (1 + np.exp(-sign * np.clip(line[0] * scores + line[1] + shift, -700, 700)))
            variance = share * (1 - share)
            gradient += sign * weight * np.array([share @ scores, share.sum()])
            moment = variance @ scores
            curvature += weight * np.array([[variance @ scores**2, moment], [moment, variance.sum()]])
        step = np.linalg.lstsq(curvature, gradient, rcond=None)[0]
        if float(gradient @ step) < 1e-20:
            break
        while (new := cost(line - step)) > now and np.abs(step).max() > 1e-12:
            step = step / 2
        if new > now:
            break
        line, now = line - step, new
    return float(line[0]), float(line[1])
