"""Calibrate thresholds: which cosine gives which false-match rate, over all pairs of people that nobody trained on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hypersphere.evaluation.arrays import Ints, finite_rows, finite_scores, labels_for
from hypersphere.evaluation.statistics.bootstrap import percentile_estimate, subject_draws
from hypersphere.evaluation.statistics.estimate import NotMeasurable, check_measurable
from hypersphere.evaluation.statistics.scores import SortedScores
from hypersphere.models import Threshold

RATES = tuple(10.0**-power for power in range(1, 8))


def calibrate_thresholds(
    unit: npt.ArrayLike, identities: npt.ArrayLike, *, replicates: int = 1000, seed: int = 0
) -> list[Threshold]:
    """The thresholds of false-match rates 1e-1, 1e-2 ... down to the smallest that the impostor pairs can measure.

    Every image is compared with every other, and `calibrate_pairs` does the rest.

    Args:
        unit: (N, dim) unit vectors.
        identities: (N,) whole numbers: whose image each is.
        replicates, seed: of the bootstrap.

    Example:
        >>> people = np.eye(4)[np.arange(40) % 4] + 0.01 * np.random.default_rng(0).normal(size=(40, 4))
        >>> rows = calibrate_thresholds(people / np.linalg.norm(people, axis=1, keepdims=True), np.arange(40) % 4)
        >>> [row.fmr for row in rows], rows[0].fnmr
        ([0.1, 0.01], 0.0)
    """
    return calibrate_pairs(*all_pairs(unit, identities), replicates=replicates, seed=seed)


def all_pairs(unit: npt.ArrayLike, identities: npt.ArrayLike) -> tuple[npt.NDArray[np.float32], Ints, Ints]:
    """(pairs,) the cosine of every image with every later one, and the people on the first and on the second.

    Args:
        unit: (N, dim) unit vectors.
        identities: (N,) whole numbers: whose image each is; the people of the answer are numbered from 0.
    """
    rows = finite_rows("unit", unit).astype(np.float32)
    if len(rows) < 2:
        raise ValueError("unit has one row; two images at least are needed, to be compared")
    _, person = np.unique(labels_for("identities", identities, len(rows)), return_inverse=True)
    left, right = np.triu_indices(len(rows), 1)
    scores = np.concatenate([rows[place + 1 :] @ rows[place] for place in range(len(rows) - 1)])
    return scores, person[left], person[right]


def calibrate_pairs(
    scores: npt.ArrayLike, left: npt.ArrayLike, right: npt.ArrayLike, *, replicates: int = 1000, seed: int = 0
) -> list[Threshold]:
    """The thresholds of false-match rates 1e-1, 1e-2 ... down to the smallest that the impostor pairs can measure.

    With k = floor(rate x impostor pairs) a threshold is the smallest number above the (k + 1)-th highest impostor
    score. So it is an order statistic of impostor scores alone: without ties k of them reach it, and the genuine
    scores, which its false-non-match rate is measured on, did not choose it. (A point of `Roc` is the highest threshold
    with the same false-non-match rate, and may lie far above where genuine scores are sparse.)
    A rate needs 3 / rate impostor pairs (the rule of 3); below 30 / rate it is marked as indicative (the rule of 30).
    Pairs that share a person are not independent: intervals are those of drawing people, a pair of two counting as
    often as the product of their draws.

    Args:
        scores: (pairs,) similarities.
        left, right: (pairs,) whole numbers: the person on the first and on the second image.
        replicates, seed: of the bootstrap.
    """
    scores = finite_scores("scores", scores)
    people = np.unique(np.concatenate([labels_for("left", left, len(scores)), labels_for("right", right, len(scores))]))
    first, second = (np.searchsorted(people, side) for side in (left, right))
    same = first == second
    genuine, impostors = (scores[kind] for kind in (same, ~same))
    if not len(genuine) or not len(impostors):
        raise ValueError("thresholds need pairs of one person and pairs of two")
    ranked = SortedScores(impostors)
    totals = [weighed(first[kind], second[kind], len(people)) for kind in (~same, same)]
    thresholds = []
    for rate, threshold in _measurable_thresholds(ranked):
        wrong = scores >= threshold
        wrong[same] = ~wrong[same]
        errors = [weighed(first[kind & wrong], second[kind & wrong], len(people)) for kind in (~same, same)]
        drawn = _drawn_rates(len(people), errors, totals, replicates, seed)
        fmr, fnmr = (
            percentile_estimate(error[2].sum() / total, rates, total, len(people), "bootstrap over subjects")
            for error, rates, total in zip(errors, drawn, (len(impostors), len(genuine)), strict=True)
        )
        thresholds.append(
            Threshold(
                fmr=rate,
                threshold=threshold,
                false_matches=int(errors[0][2].sum()),
                fmr_low=fmr.low,
                fmr_high=fmr.high,
                fnmr=float(fnmr.value),
                fnmr_low=fnmr.low,
                fnmr_high=fnmr.high,
                indicative=len(impostors) * rate < 30,
            )
        )
    return thresholds


@dataclass(frozen=True)
class ImpostorThreshold:
    """A threshold of which only false matches are known: people of one photo each have no genuine pairs.

    Args:
        fmr, threshold, false_matches, fmr_low, fmr_high, indicative: as in `Threshold`.
    """

    fmr: float
    threshold: float
    false_matches: int
    fmr_low: float
    fmr_high: float
    indicative: bool


def impostor_thresholds(
    scores: npt.ArrayLike, left: npt.ArrayLike, right: npt.ArrayLike, *, replicates: int = 1000, seed: int = 0
) -> list[ImpostorThreshold]:
    """The thresholds of `calibrate_pairs` from pairs of two people alone.

    Args:
        scores, left, right, replicates, seed: as for `calibrate_pairs`; nobody is paired with themselves.
    """
    scores = finite_scores("scores", scores)
    first, second = (labels_for(name, side, len(scores)) for name, side in (("left", left), ("right", right)))
    if not len(scores) or (first == second).any():
        raise ValueError("scores must be of pairs of two people, at least one")
    people, ranked = int(max(first.max(), second.max())) + 1, SortedScores(scores)
    draws = list(subject_draws(people, replicates, seed))
    total = weighed(first, second, people)
    compared = np.array([drawn_pairs(drawn, total) for drawn in draws], dtype=np.float64)
    thresholds = []
    for rate, threshold in _measurable_thresholds(ranked):
        wrong = scores >= threshold
        matched, count = weighed(first[wrong], second[wrong], people), int(wrong.sum())
        drawn_rates = np.array([drawn_pairs(drawn, matched) for drawn in draws]) / compared
        value = count / ranked.total
        fmr = percentile_estimate(value, drawn_rates, ranked.total, people, "bootstrap over subjects")
        thresholds.append(ImpostorThreshold(rate, threshold, count, fmr.low, fmr.high, ranked.total * rate < 30))
    return thresholds


def _measurable_thresholds(impostors: SortedScores) -> Iterator[tuple[float, float]]:
    """Yield each rate that the impostor scores can measure, with the smallest threshold that keeps it."""
    for rate in RATES:
        if isinstance(check_measurable(rate, impostors.total), NotMeasurable):
            return
        yield rate, impostors.least_threshold(math.floor(rate * impostors.total))


Weighed = tuple[Ints, Ints, Ints]
"""Two people, one or different, and how many pairs show them."""


def weighed(first: Ints, second: Ints, count: int) -> Weighed:
    """The different pairs of people among pairs of images, and how many images show each.

    Args:
        first, second: (pairs,) people from 0 to count - 1.
        count: how many people there are.
    """
    codes, times = np.unique(np.minimum(first, second) * count + np.maximum(first, second), return_counts=True)
    return codes // count, codes % count, times


def _drawn_rates(
    count: int, errors: list[Weighed], totals: list[Weighed], replicates: int, seed: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(replicates,) false-match and false-non-match rates when people are drawn with replacement."""
    rates = []
    for drawn in subject_draws(count, replicates, seed):
        (wrong, missed), (impostors, genuine) = (
            [drawn_pairs(drawn, part) for part in each] for each in (errors, totals)
        )
        rates.append((wrong / impostors if impostors else np.nan, missed / genuine if genuine else np.nan))
    both = np.array(rates, dtype=np.float64)
    return both[:, 0], both[:, 1]


def drawn_pairs(drawn: Ints, pairs: Weighed) -> int:
    """How many pairs there are when people are drawn: a pair of two counts as often as the product of their draws."""
    first, second, times = pairs
    weights = np.where(first == second, drawn[first], drawn[first] * drawn[second])
    return int(weights @ times)
