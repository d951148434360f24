"""Is one system better than another on the same data? Paired tests."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hypersphere.evaluation.arrays import Bools, Floats
from hypersphere.evaluation.bootstrap import PairWeights, Subjects, bootstrap_roc
from hypersphere.evaluation.figures import Figure, NotMeasurable, Z, check_measurable
from hypersphere.evaluation.roc import Roc, roc_curve


@dataclass(frozen=True)
class Difference:
    """The second system's figure minus the first's.

    Args:
        figure: the difference with its interval.
        p_value: two-sided, of no difference.
        test: its name.
    """

    figure: Figure
    p_value: float
    test: str


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
    return Difference(Figure(value, min(low, value), max(high, value), n, "agresti-min"), p, "mcnemar, exact")


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
        >>> compare_accuracy([True, False], [True, True], subjects=([0, 0], [0, 1])).figure.value
        0.5
    """
    one, two = _decisions(first_right, second_right)
    return compare_means(one, two, subjects=subjects, replicates=replicates, seed=seed)


def compare_means(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    subjects: Subjects,
    replicates: int = 1000,
    seed: int = 0,
) -> Difference:
    """The difference of two systems' means over the same items, such as average precisions; as `compare_accuracy`."""
    one, two = (np.asarray(values, dtype=np.float64) for values in (first, second))
    gain, weights = two - one, PairWeights(len(one), subjects)
    return _drawn_difference(float(gain.mean()), weights.means(gain, replicates, seed), len(one), weights.name)


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
    curves = [roc_curve(scores, same) for scores in (first_scores, second_scores)]
    missing = check_measurable(far, curves[0].impostors)
    if missing is not None:
        return missing

    def read(roc: Roc) -> list[float]:
        return [roc.tar_at(far)]

    first, second = (
        bootstrap_roc(scores, same, read, subjects=subjects, replicates=replicates, seed=seed)[:, 0]
        for scores in (first_scores, second_scores)
    )
    value = curves[1].tar_at(far) - curves[0].tar_at(far)
    name = PairWeights(len(np.asarray(same)), subjects).name
    return _drawn_difference(value, second - first, curves[0].genuine, name)


def _drawn_difference(value: float, drawn: Floats, n: int, name: str) -> Difference:
    known = drawn[~np.isnan(drawn)]
    if len(known) == 0:
        raise ValueError("no replicate drew a pair; there are too few subjects to bootstrap")
    low, high = np.quantile(known, [0.025, 0.975])
    p = 2 * (1 + min(int((known <= 0).sum()), int((known >= 0).sum()))) / (1 + len(known))
    figure = Figure(value, min(value, float(low)), max(value, float(high)), n, name)
    return Difference(figure, min(1.0, p), f"paired {name}")


def _decisions(first_right: npt.ArrayLike, second_right: npt.ArrayLike) -> tuple[Bools, Bools]:
    one, two = (np.asarray(right, dtype=bool) for right in (first_right, second_right))
    if one.ndim != 1 or one.shape != two.shape or len(one) == 0:
        raise ValueError(f"first_right {one.shape} and second_right {two.shape} must be lists of the same pairs")
    return one, two
