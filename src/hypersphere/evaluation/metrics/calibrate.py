"""Calibrate thresholds: which cosine gives which false-match rate, over all pairs of people that nobody trained on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hypersphere.evaluation.arrays import Array, Ints, finite_rows, labels_for
from hypersphere.evaluation.metrics.roc import roc_from
from hypersphere.evaluation.statistics.bootstrap import percentile_estimate, subject_draws
from hypersphere.evaluation.statistics.estimate import NotMeasurable
from hypersphere.evaluation.statistics.scores import SortedScores
from hypersphere.models import Threshold

RATES = tuple(10.0**-power for power in range(1, 8))


def calibrate_thresholds(
    unit: npt.ArrayLike, identities: npt.ArrayLike, *, replicates: int = 1000, seed: int = 0
) -> list[Threshold]:
    """The thresholds of false-match rates 1e-1, 1e-2 ... down to the smallest that the impostor pairs can measure.

    Every image is compared with every other. A rate needs 3 / rate impostor pairs (the rule of 3); below 30 / rate it
    is marked as indicative (the rule of 30). Pairs that share a person are not independent: intervals are those of
    drawing people, a pair of two counting as often as the product of their draws.

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
    rows = finite_rows("unit", unit).astype(np.float32)
    _, person = np.unique(labels_for("identities", identities, len(rows)), return_inverse=True)
    count = int(person.max()) + 1
    left, right = np.triu_indices(len(rows), 1)
    scores = _cosines(rows)
    same = person[left] == person[right]
    genuine, impostors = (scores[kind] for kind in (same, ~same))
    if not len(genuine) or not len(impostors):
        raise ValueError("thresholds need pairs of one person and pairs of two")
    curve = roc_from(SortedScores(np.sort(genuine)), SortedScores(np.sort(impostors)))
    found = []
    for rate in RATES:
        point = curve.operating_point(rate)
        if isinstance(point, NotMeasurable):
            break
        wrong = scores >= point.threshold
        wrong[same] = ~wrong[same]
        errors = [(person[left[kind & wrong]], person[right[kind & wrong]]) for kind in (~same, same)]
        drawn = _drawn_rates(person, count, errors, replicates, seed)
        fmr, fnmr = (
            percentile_estimate(len(error[0]) / total, rates, total, count, "bootstrap over subjects")
            for error, rates, total in zip(errors, drawn, (len(impostors), len(genuine)), strict=True)
        )
        found.append(
            Threshold(
                fmr=rate,
                threshold=point.threshold,
                false_matches=len(errors[0][0]),
                fmr_low=fmr.low,
                fmr_high=fmr.high,
                fnmr=fnmr.value,
                fnmr_low=fnmr.low,
                fnmr_high=fnmr.high,
                indicative=len(impostors) * rate < 30,
            )
        )
    return found


def _cosines(rows: Array) -> Array:
    """(N (N - 1) / 2,) the cosine of every pair, in the order of `np.triu_indices`."""
    parts = [rows[place + 1 :] @ rows[place] for place in range(len(rows) - 1)]
    return np.concatenate(parts)


def _drawn_rates(
    person: Ints, count: int, errors: list[tuple[Ints, Ints]], replicates: int, seed: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(replicates,) false-match and false-non-match rates when people are drawn with replacement."""
    images = np.bincount(person, minlength=count)
    own = images * (images - 1) // 2
    (first, second), (single, _) = errors
    rates = []
    for drawn in subject_draws(count, replicates, seed):
        all_images = drawn * images
        impostors = (int(all_images.sum()) ** 2 - int((all_images**2).sum())) / 2
        genuine = float(drawn @ own)
        fmr = float((drawn[first] * drawn[second]).sum()) / impostors if impostors else np.nan
        fnmr = float(drawn[single].sum()) / genuine if genuine else np.nan
        rates.append((fmr, fnmr))
    both = np.array(rates, dtype=np.float64)
    return both[:, 0], both[:, 1]
