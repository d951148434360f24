"""The highest of very many scores: all that a curve at low false-accept rates needs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_integer
from hypersphere.evaluation.arrays import Array
from hypersphere.evaluation.metrics.roc import Roc, roc_from
from hypersphere.evaluation.statistics.scores import SortedScores


class HighestScores:
    """Keeps the largest of any number of scores that arrive in blocks, and counts them all.

    Args:
        keep: how many.

    Example:
        >>> impostors = HighestScores(keep=100)
        >>> for block, same in blocks:
        ...     impostors.add(block[~same])
        >>> tar = tail_roc(genuine, impostors).tar_at(1e-3)
    """

    def __init__(self, keep: int) -> None:
        self.keep = check_integer("keep", keep, 1)
        self.total = 0
        self._parts: list[Array] = []
        self._waiting = 0
        self._floor = -np.inf

    def add(self, scores: Array) -> None:
        """Look through a block of any shape; scores must be finite."""
        flat = np.asarray(scores).reshape(-1)
        self.total += len(flat)
        above = flat[flat > self._floor]
        if len(above):
            self._parts.append(above)
            self._waiting += len(above)
        if self._waiting >= 2 * self.keep + 1024:
            self._settle()

    def values(self) -> Array:
        """The largest ones, rising."""
        self._settle()
        return np.sort(self._parts[0]) if self._parts else np.empty(0, dtype=np.float32)

    def _settle(self) -> None:
        if not self._parts:
            return
        held = np.concatenate(self._parts)
        if len(held) > self.keep:
            held = np.partition(held, len(held) - self.keep)[-self.keep :]
        if len(held) == self.keep:
            self._floor = held.min()
        self._parts, self._waiting = [held], len(held)


def tail_roc(genuine: npt.ArrayLike, impostors: HighestScores) -> Roc:
    """The part of the curve that the kept impostor scores determine: FARs below keep / total.

    Args:
        genuine: (n,) scores of pairs of one person.
        impostors: the highest scores of pairs of two.
    """
    own, others = np.asarray(genuine), impostors.values()
    if len(own) == 0 or len(others) == 0:
        raise ValueError("a curve needs scores of pairs of one person and of pairs of two")
    whole = len(others) == impostors.total
    floor = -np.inf if whole else float(others[0])
    above = own[own > floor]
    if len(above) == 0:
        zero = np.zeros(1, dtype=np.int64)
        return Roc(np.array([np.inf]), zero, zero, impostors.total, len(own))
    roc = roc_from(SortedScores(above), SortedScores(others))
    sure = roc.thresholds > floor
    counts = roc.false_accepts[sure], roc.true_accepts[sure]
    return Roc(roc.thresholds[sure], *counts, impostors.total, len(own))
