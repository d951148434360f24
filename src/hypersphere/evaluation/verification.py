"""Pair verification: ROC exact on ties, and accuracy by folds whose threshold comes from the other folds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Roc:
    """The curve of all thresholds: a pair is accepted if its score is at least the threshold.

    Args:
        thresholds: falling; the first, infinity, accepts nothing.
        far: share of pairs of two people that are accepted at each.
        tar: share of pairs of one person that are.
    """

    thresholds: Floats
    far: Floats
    tar: Floats

    @property
    def auc(self) -> float:
        """The area under the curve; ties count half."""
        return float(np.trapezoid(self.tar, self.far))

    @property
    def eer(self) -> float:
        """The rate at which false accepts and false rejects are equal, between the two thresholds that enclose it."""
        gap = self.far - (1 - self.tar)
        right = int(np.argmax(gap >= 0))
        left = max(0, right - 1)
        if gap[right] == gap[left]:
            return float(self.far[right])
        share = -gap[left] / (gap[right] - gap[left])
        return float(self.far[left] + share * (self.far[right] - self.far[left]))

    def tar_at(self, far: float) -> float:
        """The largest share of accepted pairs of one person with at most `far` false accepts."""
        return float(self.tar[self.far <= far].max())


def roc_curve(scores: Floats, same: Bools) -> Roc:
    """The ROC of similarity scores, one point per distinct score."""
    order = np.argsort(-scores, kind="stable")
    ranked, mates = scores[order], same[order]
    ends = np.flatnonzero(np.append(np.diff(ranked) != 0, True))
    accepted = np.cumsum(mates)[ends]
    tar, far = accepted / max(1, mates.sum()), (ends + 1 - accepted) / max(1, (~mates).sum())
    return Roc(np.append(np.inf, ranked[ends]), np.append(0.0, far), np.append(0.0, tar))


@dataclass(frozen=True)
class Verification:
    """The result of a pair protocol.

    Args:
        accuracy: mean over the folds, each at the threshold that is best on the others.
        deviation: standard deviation over the folds.
        low, high: 95 % Wilson interval of the accuracy as a proportion of all pairs.
        threshold: mean of the folds' thresholds.
        pairs: their number.
        folds: their number.
        roc: over all pairs.
        right: (pairs,) whether each was decided rightly, at the threshold of the other folds.
    """

    accuracy: float
    deviation: float
    low: float
    high: float
    threshold: float
    pairs: int
    folds: int
    roc: Roc
    right: Bools


def verify_pairs(scores: npt.ArrayLike, same: npt.ArrayLike, folds: int = 10) -> Verification:
    """Accuracy of "the same person" by thresholding, `folds` parts in turn tested at the threshold of the others.

    The best threshold lies half-way between two neighbouring scores; of several equally good ones the middle is taken.

    Args:
        scores: (n,) similarities, higher for the same person.
        same: (n,) truth.
        folds: consecutive parts of the list, as LFW's.
    """
    similarity, truth = np.asarray(scores, dtype=np.float64), np.asarray(same, dtype=bool)
    if similarity.ndim != 1 or similarity.shape != truth.shape:
        raise ValueError(f"scores {similarity.shape} and same {truth.shape} must be two lists of one length")
    if not np.isfinite(similarity).all():
        raise ValueError(f"scores hold NaN or infinity, first in pair {int(np.argmin(np.isfinite(similarity)))}")
    if folds < 2 or len(similarity) < folds:
        raise ValueError(f"folds={folds} must be at least 2 and at most the number of pairs, {len(similarity)}")
    if truth.all() or not truth.any():
        raise ValueError("same must hold pairs of one person and pairs of two")
    parts = np.array_split(np.arange(len(similarity)), folds)
    thresholds, accuracies, right = [], [], np.empty(len(truth), bool)
    for part in parts:
        rest = np.setdiff1d(np.arange(len(similarity)), part)
        threshold = best_threshold(similarity[rest], truth[rest])
        right[part] = (similarity[part] >= threshold) == truth[part]
        thresholds.append(threshold)
        accuracies.append(right[part].mean())
    low, high = wilson_interval(int(right.sum()), len(similarity))
    return Verification(
        float(np.mean(accuracies)),
        float(np.std(accuracies, ddof=1)),
        low,
        high,
        float(np.mean(thresholds)),
        len(similarity),
        folds,
        roc_curve(similarity, truth),
        right,
    )


def best_threshold(scores: Floats, same: Bools) -> float:
    """The threshold with most right decisions."""
    order = np.argsort(scores, kind="stable")
    ranked, mates = scores[order], same[order]
    right = mates.sum() + np.append(0, np.cumsum(np.where(mates, -1, 1)))
    cuts = np.flatnonzero(np.concatenate([[True], np.diff(ranked) != 0, [True]]))
    best = cuts[right[cuts] == right[cuts].max()]
    cut = int(best[len(best) // 2])
    if cut == 0:
        return float(ranked[0])
    if cut == len(ranked):
        return float(np.nextafter(ranked[-1], np.inf))
    return float((ranked[cut - 1] + ranked[cut]) / 2)


def wilson_interval(hits: int, total: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """The Wilson score interval of a proportion."""
    if not 0 <= hits <= total or total == 0:
        raise ValueError(f"hits={hits} must lie between 0 and total={total}, which must be positive")
    share = hits / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(0.0, middle - half), min(1.0, middle + half)
