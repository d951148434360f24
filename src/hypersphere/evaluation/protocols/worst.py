"""The pairs that a report shows: the impostors most alike, and the mates least alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hypersphere.evaluation.arrays import Array, Bools, Floats, Ints
from hypersphere.evaluation.metrics.verification import Verification
from hypersphere.evaluation.results.measurement import ScoredPair

SHOWN = 12
Name = Callable[[int], str]


class HighestPairs:
    """The pairs of the highest scores among all that pass; equal ones in the order in which they came.

    Args:
        count: how many are kept.
    """

    def __init__(self, count: int = SHOWN) -> None:
        self.count = count
        self.scores: Array = np.empty(0, dtype=np.float32)
        self.left: Ints = np.empty(0, dtype=np.int64)
        self.right: Ints = np.empty(0, dtype=np.int64)

    @property
    def enough(self) -> float:
        """A score at or below this one is not kept."""
        return float(self.scores[-1]) if len(self.scores) == self.count else -np.inf

    def among(self, scores: Array, allowed: Bools) -> tuple[Array, ...]:
        """The places in a table of scores, among those that are allowed, of all that may have to be kept."""
        values = scores[allowed]
        least = np.partition(values, -self.count)[-self.count] if len(values) > self.count else -np.inf
        return np.nonzero(allowed & (scores >= least) & (scores > self.enough))

    def add(self, scores: Array, left: Array, right: Array) -> None:
        """Scores of pairs, and what stands on their left and right, (n,) each."""
        (top,) = self.among(scores, np.ones(len(scores), dtype=bool))
        scores, left, right = scores[top], left[top], right[top]
        together = np.concatenate([self.scores, scores])
        order = np.argsort(-together, kind="stable")[: self.count]
        self.scores = together[order]
        self.left, self.right = (
            np.concatenate([old, new]).astype(np.int64)[order] for old, new in ((self.left, left), (self.right, right))
        )

    def pairs(self, name: Name, sign: int = 1) -> list[ScoredPair]:
        """What was kept, the highest first.

        Args:
            name: of what stands on a side.
            sign: -1 if the scores were handed over with the other sign, to keep the lowest.
        """
        rows = zip(self.left.tolist(), self.right.tolist(), self.scores.tolist(), strict=True)
        return [ScoredPair(name(left), name(right), sign * score) for left, right, score in rows]


def worst_pairs(impostors: HighestPairs, mates: HighestPairs, name: Name) -> dict[str, list[ScoredPair]]:
    """`Result.worst` of the impostors most alike, and the mates least alike, kept by the negative of their scores."""
    return {"false matches": impostors.pairs(name), "false non-matches": mates.pairs(name, -1)}


def worst_decisions(
    left: Sequence[str], right: Sequence[str], same: Bools, scores: Floats, folds: Ints, found: Verification
) -> dict[str, list[ScoredPair]]:
    """`Result.worst` of pairs that were decided: the wrong ones, the farthest beyond their threshold first.

    Args:
        left, right: (n,) names of images.
        same: (n,) truth.
        scores, folds: (n,) of each.
        found: how they were decided.
    """
    thresholds = found.fold_thresholds[np.unique(folds, return_inverse=True)[1]]
    over = scores - thresholds
    worst = {}
    for name, kind, order in (("false matches", ~same, -over), ("false non-matches", same, over)):
        wrong = np.flatnonzero(kind & ~found.right)
        chosen = wrong[np.argsort(order[wrong], kind="stable")][:SHOWN].tolist()
        worst[name] = [ScoredPair(left[k], right[k], float(scores[k]), float(thresholds[k])) for k in chosen]
    return worst
