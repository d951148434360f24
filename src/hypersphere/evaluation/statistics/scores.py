"""Scores of one kind, genuine or impostor, as what a curve needs to know of them."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from hypersphere.evaluation.arrays import Array, Floats, Ints, finite_scores


class Scores(Protocol):
    """A multiset of finite scores; `SortedScores` holds them, `ScoreCounts` counts them."""

    @property
    def total(self) -> int:
        """How many there are."""
        ...

    def distinct(self) -> Floats:
        """The different ones, rising."""
        ...

    def at_least(self, thresholds: npt.ArrayLike) -> Ints:
        """How many are accepted at each threshold, i.e. are >= it."""
        ...

    def beside(self, values: Floats) -> Floats:
        """The nearest ones below and above each value, and the lowest and the highest of all; different, rising."""
        ...


class SortedScores:
    """Scores in memory.

    Args:
        values: (n,) finite scores; float32 are kept as such.

    Example:
        >>> SortedScores([0.1, 0.5, 0.5, 0.9]).at_least([0.5, 0.6])
        array([3, 1])
    """

    def __init__(self, values: npt.ArrayLike) -> None:
        self.values: Array = np.sort(finite_scores("values", values))

    @property
    def total(self) -> int:
        return len(self.values)

    def distinct(self) -> Floats:
        new = np.ones(len(self.values), dtype=bool)
        new[1:] = self.values[1:] != self.values[:-1]
        return self.values[new].astype(np.float64)

    def at_least(self, thresholds: npt.ArrayLike) -> Ints:
        return len(self.values) - self.positions(thresholds)

    def positions(self, thresholds: npt.ArrayLike) -> Ints:
        """How many are below each threshold."""
        wanted = np.asarray(thresholds, dtype=np.float64)
        same_type: Array = round_up(wanted) if self.values.dtype == np.float32 else wanted
        return np.searchsorted(self.values, same_type, side="left").astype(np.int64)

    def beside(self, values: Floats) -> Floats:
        below = self.positions(values) - 1
        above = self.positions(just_above(values))
        inside = np.concatenate([below[below >= 0], above[above < self.total], [0, self.total - 1]])
        return np.unique(self.values[np.unique(inside)]).astype(np.float64)


def just_above(values: Floats) -> Floats:
    """The smallest number above each value."""
    with np.errstate(over="ignore"):
        return np.nextafter(values, np.inf)


def round_up(values: Floats) -> npt.NDArray[np.float32]:
    """The smallest float32 that is at least each value: it accepts the same float32 scores."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
        return np.where(narrow.astype(np.float64) < values, np.nextafter(narrow, np.float32(np.inf)), narrow)
