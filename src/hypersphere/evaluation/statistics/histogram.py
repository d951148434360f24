"""How scores are distributed, for pictures with a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hypersphere.evaluation.arrays import Floats, Ints
from hypersphere.evaluation.metrics.roc import Roc
from hypersphere.evaluation.statistics.estimate import check_measurable, rate_name
from hypersphere.evaluation.statistics.scores import SortedScores

COSINES: Floats = np.linspace(-1.0001, 1.0001, 101)
"""Edges of bins for cosines, which rounding may carry beyond 1."""

MEAN_OF_FOLDS = "the mean of the folds' thresholds"


@dataclass(frozen=True)
class ScoreHistogram:
    """Counts of genuine and impostor scores in the same bins.

    Args:
        edges: (bins + 1,) rising; a bin holds its left edge, the last one both.
        genuine, impostors: (bins,) counts.
        outside: scores of either kind beyond the edges.
        kinds: what the two kinds of scores are.
        threshold: where to draw a line; infinity, which accepts nothing, cannot be drawn.
        threshold_rule: what the line is.
    """

    edges: Floats
    genuine: Ints
    impostors: Ints
    outside: int
    kinds: tuple[str, str] = ("one person", "two people")
    threshold: float | None = None
    threshold_rule: str = ""

    def at(self, threshold: float, rule: str) -> ScoreHistogram:
        """The same with a threshold."""
        return replace(self, threshold=threshold, threshold_rule=rule)

    def at_lowest(self, roc: Roc, rates: Sequence[float], name: str = "FAR") -> ScoreHistogram:
        """The same with the threshold of the lowest rate that can be measured, if one can.

        Args:
            roc: the curve of these scores.
            rates: that were asked for.
            name: of the rate.
        """
        usable = [rate for rate in rates if check_measurable(rate, roc.impostors) is None]
        if not usable:
            return self
        rate = min(usable)
        return self.at(float(roc.thresholds[roc.point_at(rate)]), f"the threshold of {rate_name(name, rate)}")


def score_histogram(
    genuine: SortedScores,
    impostors: SortedScores,
    edges: npt.ArrayLike = COSINES,
    kinds: tuple[str, str] = ("one person", "two people"),
) -> ScoreHistogram:
    """The histogram of sorted scores.

    Args:
        genuine, impostors: the scores.
        edges: of the bins, rising; those of cosines by default.
        kinds: what they are.
    """
    borders = np.asarray(edges, dtype=np.float64)
    if borders.ndim != 1 or len(borders) < 2 or not (np.diff(borders) > 0).all():
        raise ValueError("edges must be at least two rising numbers")
    cuts = np.append(borders[:-1], np.nextafter(borders[-1], np.inf))
    first, second = (-np.diff(scores.at_least(cuts)) for scores in (genuine, impostors))
    outside = genuine.total + impostors.total - int(first.sum() + second.sum())
    return ScoreHistogram(borders, first, second, outside, kinds)
