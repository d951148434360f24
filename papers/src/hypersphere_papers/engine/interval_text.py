"""Numbers of a few seeds as text, with Student's interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hypersphere_papers.engine.verdict import over_seeds

Floats = npt.NDArray[np.float64]


def each(values: Sequence[float] | Floats, form: str = ".2f") -> str:
    """`0.50, 1.20, 1.90`."""
    return ", ".join(f"{value:{form}}" for value in values)


def difference(values: Floats, digits: int) -> str:
    """`; difference -0.01 to +0.05, by seed +0.010, +0.020, +0.030`; nothing of one seed.

    An end that would be printed as zero is what decided the verdict: it takes more digits, until it is none.
    """
    if len(values) < 2:
        return ""
    found = over_seeds(values)
    ends = [] if found is None else [abs(end) for end in (found.low, found.high) if end]
    shown = max([digits, *(math.ceil(-math.log10(2 * end)) for end in ends)])
    return f"; difference {interval(values, f'+.{shown}f')}, by seed {each(values, f'+.{shown + 1}f')}"


def interval(values: npt.ArrayLike, form: str, bounds: tuple[float, float] = (-math.inf, math.inf)) -> str:
    """Student's 95 % interval of the mean of a few values, cut at the bounds of what they can be."""
    found = over_seeds(values)
    low, high = (math.nan, math.nan) if found is None else (found.low, found.high)
    return f"{max(low, bounds[0]):{form}} to {min(high, bounds[1]):{form}}"
