"""Scores of one kind, genuine or impostor, sorted: what a curve needs to know of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_integer
from hypersphere.evaluation.arrays import Array, Floats, Ints, finite_scores


class SortedScores:
    """Scores in memory.

    Args:
        values: (n,) finite scores; float32 are kept as such.
        copy: whether `values` stay as they are; without, an array is sorted where it lies.

    Example:
        >>> SortedScores([0.1, 0.5, 0.5, 0.9]).at_least([0.5, 0.6])
        array([3, 1])
    """

    def __init__(self, values: npt.ArrayLike, *, copy: bool = True) -> None:
        self.values: Array = finite_scores("values", values)
        if copy:
            self.values = np.sort(self.values)
        else:
            self.values.sort()

    @property
    def total(self) -> int:
        """How many there are."""
        return len(self.values)

    def distinct(self) -> Floats:
        """The different ones, rising."""
        new = np.ones(len(self.values), dtype=bool)
        new[1:] = self.values[1:] != self.values[:-1]
        return self.values[new].astype(np.float64)

    def at_least(self, thresholds: npt.ArrayLike) -> Ints:
        """How many are accepted at each threshold, i.e. are >= it."""
        return len(self.values) - self.positions(thresholds)

    def positions(self, thresholds: npt.ArrayLike) -> Ints:
        """How many are below each threshold."""
        wanted = np.asarray(thresholds, dtype=np.float64)
        same_type: Array = round_up(wanted) if self.values.dtype == np.float32 else wanted
        return np.searchsorted(self.values, same_type, side="left").astype(np.int64)

    def beside(self, values: Floats) -> Floats:
        """The nearest ones below and above each value, and the lowest and the highest of all; different, rising."""
        below = self.positions(values) - 1
        above = self.positions(just_above(values))
        inside = np.concatenate([below[below >= 0], above[above < self.total], [0, self.total - 1]])
        return np.unique(self.values[np.unique(inside)]).astype(np.float64)

    def kth_largest(self, k: int) -> float:
        """The k-th largest score, k = 1 being the largest."""
        if not 1 <= k <= self.total:
            raise ValueError(f"k={k} must lie between 1 and the number of scores, {self.total}")
        return float(self.values[-k])

    def least_threshold(self, accepted: int) -> float:
        """The least threshold that accepts at most so many: the next number above the (accepted + 1)-th largest score.

        The next number of the scores' own precision. Of equal scores around that rank it accepts none.

        Example:
            >>> SortedScores([0.1, 0.5, 0.5, 0.9]).least_threshold(2)
            0.5000000000000001
        """
        edge = self.kth_largest(check_integer("accepted", accepted, 0) + 1)
        return float(np.nextafter(self.values.dtype.type(edge), self.values.dtype.type(np.inf)))


class ScoreBuffer:
    """Takes a known number of float32 scores that arrive in blocks, and sorts them where they lie: 4 bytes a score.

    Args:
        total: how many will come.

    Example:
        >>> impostors = ScoreBuffer(total=4)
        >>> for block in ([0.1, 0.5], [0.5, 0.9]):
        ...     impostors.add(np.array(block, dtype=np.float32))
        >>> impostors.sorted().at_least([0.5, 0.6])
        array([3, 1])
    """

    def __init__(self, total: int) -> None:
        self._values = np.empty(check_integer("total", total, 0), dtype=np.float32)
        self._filled = 0

    def add(self, scores: Array) -> None:
        """Take a block of any shape.

        Args:
            scores: float32 (or float16). float64 is refused: rounding it here could make ties that are not there.
        """
        block = np.asarray(scores)
        if block.dtype not in (np.float32, np.float16):
            raise ValueError(f"scores are {block.dtype}; they must be float32 (round them with astype)")
        if self._filled + block.size > len(self._values):
            raise ValueError(f"{self._filled + block.size:,} scores for a buffer of {len(self._values):,}")
        if not np.isfinite(block).all():
            place = self._filled + int(np.argmin(np.isfinite(block)))
            raise ValueError(f"scores hold NaN or infinity, first in position {place} of all that were added")
        self._values[self._filled : self._filled + block.size] = block.reshape(-1)
        self._filled += block.size

    def sorted(self) -> SortedScores:
        """All of them, when they have come; nothing can be added afterwards."""
        if self._filled < len(self._values):
            raise ValueError(f"{self._filled:,} scores were added of the {len(self._values):,} that were announced")
        return SortedScores(self._values, copy=False)


def just_above(values: Floats) -> Floats:
    """The smallest number above each value."""
    with np.errstate(over="ignore"):
        return np.nextafter(values, np.inf)


def round_up(values: Floats) -> npt.NDArray[np.float32]:
    """The smallest float32 that is at least each value: it accepts the same float32 scores."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
        return np.where(narrow.astype(np.float64) < values, np.nextafter(narrow, np.float32(np.inf)), narrow)
