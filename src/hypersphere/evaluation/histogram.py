"""How scores are distributed, for pictures with a threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hypersphere.evaluation.arrays import Floats, Ints
from hypersphere.evaluation.scores import Scores


@dataclass(frozen=True)
class ScoreHistogram:
    """Counts of genuine and impostor scores in the same bins.

    Args:
        edges: (bins + 1,) rising; a bin holds its left edge, the last one both.
        genuine, impostors: (bins,) counts.
        outside: scores of either kind beyond the edges.
    """

    edges: Floats
    genuine: Ints
    impostors: Ints
    outside: int


def score_histogram(genuine: Scores, impostors: Scores, edges: npt.ArrayLike) -> ScoreHistogram:
    """The histogram of held or counted scores.

    Args:
        genuine, impostors: the scores.
        edges: of the bins, rising; for cosines `np.linspace(-1, 1, 101)`.
    """
    borders = np.asarray(edges, dtype=np.float64)
    if borders.ndim != 1 or len(borders) < 2 or not (np.diff(borders) > 0).all():
        raise ValueError("edges must be at least two rising numbers")
    cuts = np.append(borders[:-1], np.nextafter(borders[-1], np.inf))
    first, second = (-np.diff(scores.at_least(cuts)) for scores in (genuine, impostors))
    outside = genuine.total + impostors.total - int(first.sum() + second.sum())
    return ScoreHistogram(borders, first, second, outside)
