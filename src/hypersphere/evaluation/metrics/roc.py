"""The ROC in whole numbers, exact on ties, and what is read off it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hypersphere.evaluation.arrays import Floats, Ints, scored_pairs
from hypersphere.evaluation.statistics.estimate import (
    Estimate,
    NotMeasurable,
    area_interval,
    check_measurable,
    guaranteed_proportion,
    proportion,
    wilson_interval,
)
from hypersphere.evaluation.statistics.scores import SortedScores

RULES = """\
Threshold rule: a pair is accepted if its score is at least the threshold; thresholds are scores that occur.
Tie rule: pairs of equal score are accepted together; the area counts a tie between the two kinds as one half.
TAR at a FAR: the largest TAR among thresholds whose FAR is not above the asked one, without interpolation; its
threshold is the highest one with that TAR.
EER: where the ROC, its points joined by straight lines, meets FAR = FNMR.
Best threshold: most right decisions; half-way to the next lower score; of equally good ones the middle (of two middle
ones the upper).
An operating point with fewer than 3 / FAR impostors is not measurable."""
"""How every estimate of verification is computed, for reports."""


@dataclass(frozen=True)
class OperatingPoint:
    """What is accepted at a false-accept rate that must not be exceeded.

    Args:
        asked: the rate.
        tar, fnmr: share of genuine pairs that are accepted, and that are not (Wilson).
        far: share of impostor pairs that are accepted at the threshold, at most `asked` (Clopper-Pearson).
        threshold: accepts scores >= it; infinity accepts nothing.
    """

    asked: float
    tar: Estimate
    fnmr: Estimate
    far: Estimate
    threshold: float


@dataclass(frozen=True)
class Roc:
    """The curve of all thresholds: a pair is accepted if its score is at least the threshold.

    A point for every distinct genuine score, and for the first and the last of each run of impostor scores between two
    of them; the points left out lie on a line between these. The DET is the same curve as (`far`, `fnmr`).

    Args:
        thresholds: falling; the first, infinity, accepts nothing.
        false_accepts: impostor pairs accepted at each.
        true_accepts: genuine pairs accepted at each.
        impostors, genuine: how many pairs there are.
    """

    thresholds: Floats
    false_accepts: Ints
    true_accepts: Ints
    impostors: int
    genuine: int

    @property
    def far(self) -> Floats:
        """Share of impostor pairs accepted (FMR)."""
        return self.false_accepts / self.impostors

    @property
    def tar(self) -> Floats:
        """Share of genuine pairs accepted."""
        return self.true_accepts / self.genuine

    @property
    def fnmr(self) -> Floats:
        """Share of genuine pairs not accepted."""
        return (self.genuine - self.true_accepts) / self.genuine

    def point_at(self, far: float) -> int:
        """The index of the highest threshold that has the largest TAR with a FAR not above `far`."""
        last = int(np.searchsorted(self.far, far, side="right")) - 1
        return int(np.searchsorted(self.true_accepts, self.true_accepts[last], side="left"))

    def tar_at(self, far: float) -> float:
        """The largest TAR with a FAR not above `far`, as a bare number."""
        return float(self.tar[self.point_at(far)])

    def auc(self) -> float:
        """The area under the curve, i.e. P(genuine > impostor) + P(equal) / 2, as a bare number."""
        self._check_complete("the area")
        exact = np.int64 if self.genuine * self.impostors < 1 << 61 else object
        widths, heights = np.diff(self.false_accepts), self.true_accepts[1:] + self.true_accepts[:-1]
        twice = int(np.dot(widths.astype(exact), heights.astype(exact)))
        return twice / (2 * self.genuine * self.impostors)

    def eer(self) -> float:
        """The rate at which false accepts and false rejects are equal, as a bare number."""
        self._check_complete("the equal error rate")
        right = int(np.argmax(self.far >= self.fnmr))
        fa, fr = self.false_accepts, self.genuine - self.true_accepts
        left = right - 1
        gaps = [int(fa[p]) * self.genuine - int(fr[p]) * self.impostors for p in (left, right)]
        share = -gaps[0] / (gaps[1] - gaps[0])
        return float(fa[left] + share * (fa[right] - fa[left])) / self.impostors

    def best_threshold(self) -> float:
        """The threshold with most right decisions over both kinds of pairs."""
        right = self.true_accepts - self.false_accepts
        best = np.flatnonzero(right == right.max())
        cut = int(best[(len(best) - 1) // 2])
        if cut == 0:
            return float(np.nextafter(self.thresholds[1], np.inf))
        upper = float(self.thresholds[cut])
        if cut == len(self.thresholds) - 1:
            return upper
        lower = float(self.thresholds[cut + 1])
        middle = upper / 2 + lower / 2
        return middle if lower < middle <= upper else upper

    def operating_point(self, far: float) -> OperatingPoint | NotMeasurable:
        """TAR and FNMR at a FAR, or the statement that there are fewer than 3 / `far` impostors."""
        missing = check_measurable(far, self.impostors)
        if missing is not None:
            return missing
        point = self.point_at(far)
        hits = int(self.true_accepts[point])
        return OperatingPoint(
            asked=far,
            tar=proportion(hits, self.genuine),
            fnmr=proportion(self.genuine - hits, self.genuine),
            far=guaranteed_proportion(int(self.false_accepts[point]), self.impostors),
            threshold=float(self.thresholds[point]),
        )

    def area(self) -> Estimate:
        """The area under the curve with Newcombe's interval, pairs being taken as independent."""
        value = self.auc()
        low, high = area_interval(value, self.genuine, self.impostors)
        return Estimate(value, low, high, self.genuine + self.impostors, "newcombe")

    def equal_error(self) -> Estimate:
        """The equal error rate with the Wilson interval of the scarcer kind of pairs, which is the wider one."""
        value, scarcer = self.eer(), min(self.genuine, self.impostors)
        return Estimate(value, *wilson_interval(value * scarcer, scarcer), scarcer, "wilson")

    def _check_complete(self, what: str) -> None:
        if self.true_accepts[-1] < self.genuine or self.false_accepts[-1] < self.impostors:
            raise ValueError(f"{what} needs a curve that ends where all is accepted; this one is of an open-set search")


def roc_from(genuine: SortedScores, impostors: SortedScores) -> Roc:
    """The ROC of two multisets of scores.

    Args:
        genuine: scores of pairs of one person.
        impostors: scores of pairs of two.
    """
    for name, scores in (("genuine", genuine), ("impostors", impostors)):
        if scores.total == 0:
            raise ValueError(f"{name} holds no score; a curve needs pairs of one person and pairs of two")
    thresholds = curve_thresholds(genuine, impostors)
    return Roc(thresholds, impostors.at_least(thresholds), genuine.at_least(thresholds), impostors.total, genuine.total)


def curve_thresholds(genuine: SortedScores, impostors: SortedScores) -> Floats:
    """The thresholds of a curve's points, falling from infinity."""
    people = genuine.distinct()
    scores = np.union1d(people, impostors.beside(people))
    return np.append(np.inf, scores[::-1])


def roc_curve(scores: npt.ArrayLike, same: npt.ArrayLike) -> Roc:
    """The ROC of similarity scores in memory.

    Args:
        scores: (n,) similarities, higher for the same person.
        same: (n,) truth.
    """
    similarity, truth = scored_pairs(scores, same)
    return roc_from(SortedScores(similarity[truth]), SortedScores(similarity[~truth]))
