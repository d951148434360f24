"""Bootstrap over subjects: samples that share a person are drawn together, by weights instead of copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_integer
from hypersphere.evaluation.arrays import Array, Floats, Ints, labels_for, scored_pairs
from hypersphere.evaluation.metrics.roc import Roc, curve_thresholds
from hypersphere.evaluation.statistics.estimate import Estimate, Unit, wilson_interval
from hypersphere.evaluation.statistics.scores import SortedScores

Subjects = tuple[npt.ArrayLike, npt.ArrayLike]
"""The person on the first and on the second image of every pair."""


def subject_draws(count: int, replicates: int, seed: int) -> Iterator[Ints]:
    """For each replicate, how often each of `count` subjects is drawn when `count` are drawn with replacement."""
    check_integer("replicates", replicates, 1)
    generator = np.random.default_rng(seed)
    for _ in range(replicates):
        yield np.bincount(generator.integers(count, size=count), minlength=count)


class PairWeights:
    """Draws subjects and weighs pairs: one of a single subject counts as often as the subject was drawn, one of two
    subjects as often as the product of their draws.

    Args:
        count: the number of pairs.
        subjects: who is on them; without, every pair is a subject of its own.
    """

    def __init__(self, count: int, subjects: Subjects | None) -> None:
        if subjects is None:
            self.left = self.right = np.arange(count)
        else:
            left, right = (labels_for("subjects", side, count) for side in subjects)
            everyone = np.unique(np.concatenate([left, right]))
            self.left, self.right = np.searchsorted(everyone, left), np.searchsorted(everyone, right)
        self.count = int(max(self.left.max(), self.right.max())) + 1
        self.name = "bootstrap over pairs" if subjects is None else "bootstrap over subjects"

    def draws(self, replicates: int, seed: int) -> Iterator[Ints]:
        """(pairs,) weights of each replicate."""
        single = self.left == self.right
        for drawn in subject_draws(self.count, replicates, seed):
            yield np.where(single, drawn[self.left], drawn[self.left] * drawn[self.right])

    def means(self, values: npt.ArrayLike, replicates: int, seed: int) -> Floats:
        """(replicates,) means of values, one for each pair; NaN where no pair was drawn."""
        numbers: Array = np.asarray(values, dtype=np.float64)
        drawn = self.draws(replicates, seed)
        return np.array([float(w @ numbers) / w.sum() if w.any() else np.nan for w in drawn])


class WeightedRoc:
    """The ROC of pairs under changing weights; scores are sorted once.

    Args:
        scores: (n,) similarities.
        same: (n,) truth.
    """

    def __init__(self, scores: npt.ArrayLike, same: npt.ArrayLike) -> None:
        similarity, truth = scored_pairs(scores, same)
        kinds = [np.flatnonzero(truth), np.flatnonzero(~truth)]
        self._orders = [kind[np.argsort(similarity[kind], kind="stable")] for kind in kinds]
        genuine, impostors = (SortedScores(similarity[order]) for order in self._orders)
        self._thresholds = curve_thresholds(genuine, impostors)
        self._places = [genuine.positions(self._thresholds), impostors.positions(self._thresholds)]

    def roc(self, weights: Ints) -> Roc | None:
        """The curve; None if all pairs of one kind weigh nothing."""
        accepted, totals = [], []
        for order, places in zip(self._orders, self._places, strict=True):
            below = np.append(0, np.cumsum(weights[order]))
            totals.append(int(below[-1]))
            accepted.append(below[-1] - below[places])
        if 0 in totals:
            return None
        return Roc(self._thresholds, accepted[1], accepted[0], totals[1], totals[0])


def bootstrap_roc(
    scores: npt.ArrayLike,
    same: npt.ArrayLike,
    statistic: Callable[[Roc], list[float]],
    *,
    subjects: Subjects | None = None,
    replicates: int = 1000,
    seed: int = 0,
) -> Floats:
    """(replicates, statistics) values of what is read off the ROC; rows of NaN where a kind of pairs was not drawn."""
    curve, weights = WeightedRoc(scores, same), PairWeights(len(np.asarray(same)), subjects)
    drawn = (curve.roc(weight) for weight in weights.draws(replicates, seed))
    rows = [None if roc is None else statistic(roc) for roc in drawn]
    if all(row is None for row in rows):
        raise ValueError("no replicate drew both kinds of pairs; there are too few subjects to bootstrap")
    width = max(len(row) for row in rows if row is not None)
    return np.array([[np.nan] * width if row is None else row for row in rows], dtype=np.float64)


def bootstrap_mean(
    values: npt.ArrayLike,
    subjects: npt.ArrayLike | None = None,
    *,
    share: bool = True,
    unit: Unit = "share",
    replicates: int = 1000,
    seed: int = 0,
) -> Estimate:
    """The mean of values, one for each sample, with the interval of drawing their subjects.

    Args:
        values: (n,) numbers, such as average precisions, or whether decisions are right.
        subjects: (n,) whose sample each is; without, every sample is a subject of its own.
        share: whether the mean is a share of decisions, as `percentile_estimate` asks.
        unit: of the values.
        replicates: how many draws.
        seed: of the draws.
    """
    numbers: Array = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not len(numbers):
        raise ValueError(f"values have shape {numbers.shape}; they must be a list of at least one number")
    people = np.arange(len(numbers)) if subjects is None else labels_for("subjects", subjects, len(numbers))
    _, member = np.unique(people, return_inverse=True)
    sums, counts = np.bincount(member, weights=numbers), np.bincount(member)
    drawn = [float(w @ sums) / float(w @ counts) for w in subject_draws(len(counts), replicates, seed)]
    name = "bootstrap over samples" if subjects is None else "bootstrap over subjects"
    return percentile_estimate(
        float(numbers.mean()), np.array(drawn), len(numbers), len(counts), name, share=share, unit=unit
    )


def bootstrap_pairs(values: npt.ArrayLike, subjects: Subjects | None, value: float | None = None) -> Estimate:
    """The share of right decisions about pairs, with the interval of drawing people where they are known, else pairs.

    Args:
        values: (n,) whether each decision is right, or how often it was.
        subjects: (n,) people on the first images, and on the second.
        value: what is reported; the mean of the values by default.
    """
    numbers: Array = np.asarray(values, dtype=np.float64)
    weights = PairWeights(len(numbers), subjects)
    mean = float(numbers.mean()) if value is None else value
    return percentile_estimate(mean, weights.means(numbers, 1000, 0), len(numbers), weights.count, weights.name)


def percentile_estimate(
    value: float, drawn: Floats, n: int, subjects: int, name: str, *, share: bool = True, unit: Unit = "share"
) -> Estimate:
    """An estimate with the 2.5 and 97.5 percentiles of its replicates, widened to hold the value itself.

    Where these are the same for a share of decisions (no error was seen, so hardly any could be drawn) the interval is
    Wilson's for as many decisions as there are subjects: drawing again what was seen cannot show what was not.
    """
    known = drawn[~np.isnan(drawn)]
    if len(known) == 0:
        raise ValueError("no replicate could be measured; there are too few subjects to bootstrap")
    low, high = (float(bound) for bound in np.quantile(known, [0.025, 0.975]))
    if share and low == high == value:
        return Estimate(value, *wilson_interval(value * subjects, subjects), n, "wilson over subjects")
    return Estimate(value, min(value, low), max(value, high), n, name, unit)
