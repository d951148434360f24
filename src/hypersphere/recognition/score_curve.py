"""How genuine and impostor scores are spread: histograms, and both error rates with intervals at every edge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_integer, check_rising
from hypersphere.evaluation import SortedScores
from hypersphere.evaluation.metrics.calibrate import weighed
from hypersphere.evaluation.statistics.bootstrap import subject_draws

BINS = 200
"""Of the cosines from -1 to 1."""
_ROUNDING, _TINY = 1e-3, 1e-12
"""Bounds have four digits; rates are rounded besides."""
_BESIDE = 1e-6
"""A threshold so near to an edge may lie on either side of it."""
_REPLICATES = 64
"""Draws that are computed at once."""
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ScoreCurve:
    """Counts of scores in bins, and the rates of a threshold at the left edge of each.

    Args:
        edges: of the bins, rising, one more than there are bins; a bin holds its left edge, the last one both.
        genuine, impostors: pairs of one person and of two in each bin.
        fmr_low, fmr_high: 95 % interval over people of the false-match rate of a threshold at each left edge.
        fnmr_low, fnmr_high: of the false-non-match rate.
    """

    edges: tuple[float, ...]
    genuine: tuple[int, ...]
    impostors: tuple[int, ...]
    fmr_low: tuple[float, ...]
    fmr_high: tuple[float, ...]
    fnmr_low: tuple[float, ...]
    fnmr_high: tuple[float, ...]

    def __post_init__(self) -> None:
        for name, values in vars(self).items():
            if len(values) != len(self.edges) - (name != "edges") or len(values) < 1:
                raise ValueError(f"{name} has {len(values)} entries; {len(self.edges)} edges bound one bin less")
        check_rising("edges", self.edges, -1, 1, strictly=True)
        for name in ("genuine", "impostors"):
            for count in getattr(self, name):
                check_integer(name, count, 0)
            if not any(getattr(self, name)):
                raise ValueError(f"{name}: all counts are 0")
        self._check_rates("fmr", self.fmr, self.fmr_low, self.fmr_high)
        self._check_rates("fnmr", self.fnmr[::-1], self.fnmr_low[::-1], self.fnmr_high[::-1])

    @staticmethod
    def _check_rates(name: str, rates: Floats, *bounds: tuple[float, ...]) -> None:
        """Raise ValueError unless rates that fall lie between bounds in [0, 1] that fall too."""
        low, high = (np.array(bound, dtype=np.float64) for bound in bounds)
        for bound in (low, high):
            falls = (bound[1:] <= bound[:-1] * (1 + _ROUNDING) + _TINY).all()
            if not falls or not ((bound >= 0) & (bound <= 1)).all():
                raise ValueError(
                    f"{name}_low, {name}_high: expected rates in [0, 1] that go one way with the threshold"
                )
        if (low > rates * (1 + _ROUNDING) + _TINY).any() or (high < rates * (1 - _ROUNDING) - _TINY).any():
            raise ValueError(f"{name}_low, {name}_high: an interval does not hold the rate of the counts")

    def accepted(self, counts: Sequence[int], threshold: float) -> tuple[int, int]:
        """Return at least and at most how many scores of counted ones reach a threshold: it lies within a bin."""
        first = int(np.searchsorted(self.edges, threshold + _BESIDE, side="left"))
        last = int(np.searchsorted(self.edges, threshold - _BESIDE, side="right")) - 1
        return sum(counts[first:]), sum(counts[max(last, 0) :])

    @property
    def fmr(self) -> Floats:
        """(bins,) the false-match rate of a threshold at each left edge."""
        return _from_right(self.impostors)

    @property
    def fnmr(self) -> Floats:
        """(bins,) the false-non-match rate of a threshold at each left edge."""
        return 1 - _from_right(self.genuine)

    def fmr_bounds(self, threshold: float) -> tuple[float, float]:
        """An interval that holds that of the false-match rate at any threshold, from the edges beside it."""
        left = max(0, int(np.searchsorted(self.edges, threshold, side="right")) - 1)
        low = self.fmr_low[left + 1] if left + 1 < len(self.fmr_low) else 0.0
        return low, self.fmr_high[min(left, len(self.fmr_high) - 1)]

    def fmr_at(self, score: float) -> float:
        """The false-match rate of a threshold at the nearest edge that is not above a score."""
        left = int(np.searchsorted(self.edges, score, side="right")) - 1
        return float(self.fmr[min(max(left, 0), len(self.fmr) - 1)])


def score_curve(scores: npt.NDArray[np.float32], left: Ints, right: Ints, *, replicates: int, seed: int) -> ScoreCurve:
    """The curve of scored pairs; intervals are those of drawing people, as `calibrate_pairs` makes them.

    Args:
        scores: (pairs,) cosines.
        left, right: (pairs,) the people on them, from 0.
        replicates, seed: of the bootstrap.
    """
    grid = np.linspace(-1, 1, BINS + 1)
    inside = np.clip(np.searchsorted(grid, scores, side="right") - 1, 0, BINS - 1)
    used = slice(int(inside.min()), int(inside.max()) + 1)
    bins, edges = inside - used.start, grid[used.start : used.stop + 1]
    same, count = left == right, int(max(left.max(), right.max())) + 1
    spread = [np.bincount(bins[kind], minlength=len(edges) - 1) for kind in (same, ~same)]
    draws = np.array(list(subject_draws(count, replicates, seed)), dtype=np.float64)
    own, others = (_drawn_counts(left[kind], right[kind], bins[kind], len(edges) - 1, draws) for kind in (same, ~same))
    fmr, fnmr = _from_right(others), 1 - _from_right(own)
    bounds = [np.nanquantile(rates, [0.025, 0.975], axis=0) for rates in (fmr, fnmr)]
    points = _from_right(spread[1]), 1 - _from_right(spread[0])
    intervals = [
        end(bound, point)
        for each, point in zip(bounds, points, strict=True)
        for end, bound in zip((np.minimum, np.maximum), each, strict=True)
    ]
    numbers = [tuple(float(f"{value:.4g}") for value in each) for each in intervals]
    return ScoreCurve(
        edges=tuple(round(float(edge), 6) for edge in edges),
        genuine=tuple(spread[0].tolist()),
        impostors=tuple(spread[1].tolist()),
        fmr_low=numbers[0],
        fmr_high=numbers[1],
        fnmr_low=numbers[2],
        fnmr_high=numbers[3],
    )


def _drawn_counts(left: Ints, right: Ints, bins: Ints, width: int, draws: Floats) -> Floats:
    """(replicates, bins) how many pairs there are in each bin when people are drawn."""
    from scipy.sparse import csr_array

    people = draws.shape[1]
    first, second, _ = weighed(left, right, people)
    rows = np.searchsorted(first * people + second, np.minimum(left, right) * people + np.maximum(left, right))
    table = csr_array((np.ones(len(bins)), (rows, bins)), shape=(len(first), width))
    parts = []
    for start in range(0, len(draws), _REPLICATES):
        drawn = draws[start : start + _REPLICATES]
        weights = np.where(first == second, drawn[:, first], drawn[:, first] * drawn[:, second])
        parts.append((table.T @ weights.T).T)
    return np.concatenate(parts)


def _from_right(counts: npt.ArrayLike) -> Floats:
    """The share of the counts in each bin and those to its right."""
    numbers = np.asarray(counts, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # a draw without such pairs measures nothing
        shares: Floats = np.flip(np.flip(numbers, -1).cumsum(-1), -1) / numbers.sum(-1, keepdims=True)
    return shares


def sorted_kinds(scores: npt.NDArray[np.float32], left: Ints, right: Ints) -> tuple[SortedScores, SortedScores]:
    """Genuine and impostor scores, sorted."""
    same = left == right
    return SortedScores(scores[same]), SortedScores(scores[~same])
