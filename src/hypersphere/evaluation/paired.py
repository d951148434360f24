"""Two systems on the same pairs: the difference of their accuracies, with an interval that knows people repeat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_integer


@dataclass(frozen=True)
class Difference:
    """A difference of two accuracies and its 95 % interval."""

    value: float
    low: float
    high: float


def paired_difference(
    first: npt.ArrayLike, second: npt.ArrayLike, people: npt.ArrayLike, *, replicates: int = 1000, seed: int = 0
) -> Difference:
    """Accuracy of `first` minus that of `second`, with a bootstrap interval over people.

    Pairs that share a person are not independent, so people are drawn, not pairs: each replicate draws as many people
    as there are, with replacement; a pair of one person counts as often as that person was drawn, a pair of two as the
    product of how often each was. The interval is that of the 2.5 and 97.5 percentiles. It knows of other people, not
    of other training runs.

    Args:
        first, second: (n,) whether each system decided each pair rightly.
        people: (n, 2) the identities of the pair, numbered from 0.
        replicates: of the bootstrap.
        seed: of it.

    Example:
        >>> paired_difference([True, True], [True, False], [[0, 0], [0, 1]]).value
        0.5
    """
    gain = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    who = np.asarray(people, dtype=np.int64)
    if gain.ndim != 1 or not len(gain) or who.shape != (len(gain), 2):
        raise ValueError(f"decisions {gain.shape} and people {who.shape} must be (n,) and (n, 2), n at least 1")
    if who.min() < 0:
        raise ValueError(f"people hold {who.min()}; number them from 0")
    check_integer("replicates", replicates, 1)
    rng, count = np.random.default_rng(seed), int(who.max()) + 1
    left, right, single = who[:, 0], who[:, 1], who[:, 0] == who[:, 1]
    values: list[float] = []
    while len(values) < replicates:
        times = np.bincount(rng.integers(count, size=count), minlength=count)
        weight = np.where(single, times[left], times[left] * times[right])
        if weight.any():
            values.append(float(np.average(gain, weights=weight)))
    low, high = np.percentile(values, [2.5, 97.5])
    return Difference(float(gain.mean()), float(low), float(high))
