"""Is one system better than another on the same data? Paired tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from hypersphere.evaluation.arrays import Array, Bools, Floats, Ints
from hypersphere.evaluation.metrics.identification import open_set_curve, open_set_draws
from hypersphere.evaluation.metrics.roc import Roc, roc_curve
from hypersphere.evaluation.statistics.bootstrap import PairWeights, Subjects, bootstrap_roc, subject_draws
from hypersphere.evaluation.statistics.estimate import Estimate, NotMeasurable, Z, check_measurable


@dataclass(frozen=True)
class Difference:
    """The second system's estimate minus the first's.

    Args:
        estimate: the difference with its interval.
        p_value: two-sided, of no difference.
        test: its name.
        at_floor: whether `p_value` is the least that so many draws can show: the true one is at most that.
    """

    estimate: Estimate
    p_value: float
    test: str
    at_floor: bool = False


def mcnemar(first_right: npt.ArrayLike, second_right: npt.ArrayLike) -> Difference:
    """McNemar's exact test of two systems' decisions on the same pairs, and the difference of their accuracies.

        p = min(1, 2 P(X <= min(b, c))),  X ~ Binomial(b + c, 1/2)

    b and c count the pairs that only the first, and only the second, decides rightly. The interval of (c - b) / n is
    Wald's after 1/2 is added to each of the four counts (Agresti and Min 2005).

    Args:
        first_right, second_right: (n,) whether each pair was decided rightly, as `Verification.right`.
    """
    from scipy.special import bdtr

    one, two = _decisions(first_right, second_right)
    only_first, only_second, n = int((one & ~two).sum()), int((two & ~one).sum()), len(one)
    changed = only_first + only_second
    p = min(1.0, 2 * float(bdtr(min(only_first, only_second), changed, 0.5))) if changed else 1.0
    middle = (only_second - only_first) / (n + 2)
    half = Z * math.sqrt(max(0.0, (changed + 1) / (n + 2) - middle**2) / (n + 2))
    value = (only_second - only_first) / n
    low, high = max(-1.0, middle - half), min(1.0, middle + half)
    return Difference(Estimate(value, min(low, value), max(high, value), n, "agresti-min"), p, "mcnemar, exact")


def compare_accuracy(
    first_right: npt.ArrayLike,
    second_right: npt.ArrayLike,
    *,
    subjects: Subjects,
    replicates: int = 1000,
    seed: int = 0,
) -> Difference:
    """The difference of two systems' accuracies on pairs that share people, by drawing people.

        p = 2 (1 + min(#{d <= 0}, #{d >= 0})) / (1 + replicates), at most 1

    The interval knows of other people, not of other training runs.

    Args:
        first_right, second_right: (n,) whether each pair was decided rightly, as `Verification.right`.
        subjects: (n,) people on the first images, and on the second.
        replicates: how many draws.
        seed: of the draws.

    Example:
        >>> compare_accuracy([True, False], [True, True], subjects=([0, 0], [0, 1])).estimate.value
        0.5
    """
    one, two = _decisions(first_right, second_right)
    return compare_means(one, two, subjects=subjects, replicates=replicates, seed=seed)


def compare_repeated(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    subjects: Subjects | None,
    weights: npt.ArrayLike | None = None,
    seeds: Literal["paired", "independent"] = "paired",
    replicates: int = 1000,
    seed: int = 0,
) -> Difference:
    """The difference of two methods' means over the same items, each method trained several times.

    A replicate draws people as `compare_accuracy` does, and runs with replacement: the interval knows of other people
    and, as far as the runs show them, of other training runs. Of the variance between n runs it sees (n - 1) / n: half
    of it with two, nothing with one.

    Args:
        first, second: (runs, n) whether each run decided each item rightly, or another number of each.
        subjects: (n,) people on the first images, and on the second; without, every item is drawn by itself.
        weights: (n,) how much each item counts; alike by default.
        seeds: `paired`: run i of both has the same seed, and so the same start and order of images; a replicate draws
            seeds. `independent`: a replicate draws as many runs of either method as it has, which may differ.
        replicates: how many draws.
        seed: of the draws.

    Example:
        >>> right = [[True, True], [True, True]]
        >>> compare_repeated([[True, False]], right, subjects=([0, 0], [0, 1]), seeds="independent").estimate.value
        0.5
    """
    one, two = (np.atleast_2d(np.asarray(values, dtype=np.float64)) for values in (first, second))
    if one.shape[1] != two.shape[1]:
        raise ValueError(f"first has {one.shape[1]} items, second {two.shape[1]}; they must be the same")
    if seeds not in ("paired", "independent"):
        raise ValueError(f"seeds={seeds!r} must be 'paired' or 'independent'")
    if seeds == "paired" and len(one) != len(two):
        raise ValueError(f"first has {len(one)} runs, second {len(two)}; runs of different seeds are 'independent'")
    share = np.ones(one.shape[1]) if weights is None else np.asarray(weights, dtype=np.float64)
    people, generator = PairWeights(one.shape[1], subjects), np.random.default_rng([seed, 1])
    drawn = []
    for times in people.draws(replicates, seed):
        runs = generator.integers(len(one), size=len(one))
        others = runs if seeds == "paired" else generator.integers(len(two), size=len(two))
        gain = two[others].mean(0) - one[runs].mean(0)
        weighed = times * share
        drawn.append(float(weighed @ gain) / weighed.sum() if weighed.any() else np.nan)
    value = float(np.average(two.mean(0) - one.mean(0), weights=share))
    name = f"{people.name} and {'seeds' if seeds == 'paired' else 'runs'}"
    return _drawn_difference(value, np.array(drawn), one.shape[1], name)


def compare_means(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    subjects: Subjects | None,
    replicates: int = 1000,
    seed: int = 0,
) -> Difference:
    """The difference of two systems' means over the same items, such as average precisions; as `compare_accuracy`."""
    one, two = (np.asarray(values, dtype=np.float64) for values in (first, second))
    gain, weights = two - one, PairWeights(len(one), subjects)
    name = weights.name if subjects is not None else "bootstrap over samples"
    return _drawn_difference(float(gain.mean()), weights.means(gain, replicates, seed), len(one), name)


def compare_tar(
    first_scores: npt.ArrayLike,
    second_scores: npt.ArrayLike,
    same: npt.ArrayLike,
    far: float,
    *,
    subjects: Subjects | None = None,
    replicates: int = 1000,
    seed: int = 0,
) -> Difference | NotMeasurable:
    """The difference of two systems' TAR at a FAR, both drawn with the same subjects each time.

        p = 2 (1 + min(#{d <= 0}, #{d >= 0})) / (1 + replicates), at most 1

    Args:
        first_scores, second_scores: (n,) of the same pairs.
        same: (n,) truth.
        far: where.
        subjects: (n,) people on the first images, and on the second; without, every pair is drawn by itself.
        replicates: how many draws.
        seed: of the draws.
    """
    missing = check_measurable(far, int((~np.asarray(same, dtype=bool)).sum()))
    if missing is not None:
        return missing
    reading = Reading(lambda roc: roc.tar_at(far), int(np.asarray(same, dtype=bool).sum()))
    return compare_curves(
        first_scores, second_scores, same, [reading], subjects=subjects, replicates=replicates, seed=seed
    )[0]


@dataclass(frozen=True)
class Reading:
    """A number that is read off a curve, such as the equal error rate, and how many decisions it rests on."""

    read: Callable[[Roc], float]
    n: int


def compare_curves(
    first_scores: npt.ArrayLike,
    second_scores: npt.ArrayLike,
    same: npt.ArrayLike,
    readings: Sequence[Reading],
    *,
    subjects: Subjects | None = None,
    replicates: int = 1000,
    seed: int = 0,
) -> list[Difference]:
    """The differences of what is read off two systems' curves, all from the same draws; as `compare_tar`.

    Args:
        first_scores, second_scores, same, subjects, replicates, seed: as for `compare_tar`.
        readings: what is read.
    """

    def read(roc: Roc) -> list[float]:
        return [reading.read(roc) for reading in readings]

    both = first_scores, second_scores
    first, second = (
        bootstrap_roc(scores, same, read, subjects=subjects, replicates=replicates, seed=seed) for scores in both
    )
    values = [read(roc_curve(scores, same)) for scores in both]
    name = PairWeights(len(np.asarray(same)), subjects).name
    return [
        _drawn_difference(values[1][k] - values[0][k], second[:, k] - first[:, k], reading.n, name)
        for k, reading in enumerate(readings)
    ]


def compare_open_set(
    first_scores: Sequence[Array],
    second_scores: Sequence[Array],
    with_mate: Sequence[Bools],
    fpir: float,
    *,
    subjects: npt.ArrayLike,
    replicates: int = 1000,
    seed: int = 0,
) -> Difference | NotMeasurable:
    """The difference of two systems' TPIR at a FPIR, the mean over galleries; both drawn with the same people.

    Args:
        first_scores, second_scores: for each gallery (probes,) from `open_set_scores`.
        with_mate: for each gallery (probes,) which have a mate in it.
        fpir: where.
        subjects: (probes,) their people.
        replicates: how many draws.
        seed: of the draws.
    """
    missing = [check_measurable(fpir, int((~mates).sum())) for mates in with_mate]
    if any(each is not None for each in missing):
        return min((each for each in missing if each is not None), key=lambda each: each.n)
    values, drawn = [], []
    for system in (first_scores, second_scores):
        both = list(zip(system, with_mate, strict=True))
        values.append(float(np.mean([open_set_curve(scores, mates).tar_at(fpir) for scores, mates in both])))
        each = [
            open_set_draws(scores, mates, subjects, [fpir], replicates=replicates, seed=seed)[:, 0]
            for scores, mates in both
        ]
        drawn.append(np.mean(each, axis=0))
    n = sum(int(mates.sum()) for mates in with_mate)
    return _drawn_difference(values[1] - values[0], drawn[1] - drawn[0], n, "bootstrap over subjects")


def compare_trials(first: npt.ArrayLike, second: npt.ArrayLike) -> Difference:
    """The difference of two systems' means over the same trials, by Student's paired t test.

    Args:
        first, second: (trials,) estimates.
    """
    from scipy.special import stdtr, stdtrit

    gain = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    mean, count = float(gain.mean()), len(gain)
    error = float(gain.std(ddof=1)) / count**0.5
    half = float(stdtrit(count - 1, 0.975)) * error
    p = 2 * float(stdtr(count - 1, -abs(mean) / error)) if error > 0 else float(mean == 0)
    return Difference(
        Estimate(mean, mean - half, mean + half, count, "student t over trials"), p, "paired t over trials"
    )


def compare_lowered(
    first: npt.ArrayLike, second: npt.ArrayLike, *, replicates: int = 1000, seed: int = 0
) -> Difference:
    """The difference of two systems' mean - sd over the same trials (BLUFR), by drawing trials.

    Args:
        first, second: (trials,) estimates.
        replicates: how many draws.
        seed: of the draws.
    """
    both = [np.asarray(values, dtype=np.float64) for values in (first, second)]

    def gain(times: Ints) -> float:
        lowered = [np.repeat(values, times).mean() - np.repeat(values, times).std(ddof=1) for values in both]
        return float(lowered[1] - lowered[0])

    count = len(both[0])
    drawn = np.array([gain(times) for times in subject_draws(count, replicates, seed)])
    return _drawn_difference(gain(np.ones(count, dtype=np.int64)), drawn, count, "bootstrap over trials")


def _drawn_difference(value: float, drawn: Floats, n: int, name: str) -> Difference:
    known = drawn[~np.isnan(drawn)]
    if len(known) == 0:
        raise ValueError("no replicate drew a pair; there are too few subjects to bootstrap")
    low, high = np.quantile(known, [0.025, 0.975])
    against = min(int((known <= 0).sum()), int((known >= 0).sum()))
    p = 2 * (1 + against) / (1 + len(known))
    estimate = Estimate(value, min(value, float(low)), max(value, float(high)), n, name)
    return Difference(estimate, min(1.0, p), f"paired {name}", at_floor=against == 0)


def _decisions(first_right: npt.ArrayLike, second_right: npt.ArrayLike) -> tuple[Bools, Bools]:
    one, two = (np.asarray(right, dtype=bool) for right in (first_right, second_right))
    if one.ndim != 1 or one.shape != two.shape or len(one) == 0:
        raise ValueError(f"first_right {one.shape} and second_right {two.shape} must be lists of the same pairs")
    return one, two
