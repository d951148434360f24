"""SphereFace: the angular margin of its decision boundaries, and the least m of Properties 2 and 3, on the circle."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_integer, check_range

Floats = npt.NDArray[np.float64]
BINARY_BOUND = 2 + math.sqrt(3)
"""Property 2: with two classes, m at least this constrains a class to be narrower than the gap to the other."""
MULTI_CLASS_BOUND = 3.0
"""Property 3: with three or more uniformly spaced classes."""


def angular_margin(margin: float, between: float) -> float:
    """The gap (m - 1)/(m + 1) theta_12 between the regions of two classes theta_12 apart (sec. 3.2)."""
    return (margin - 1) / (margin + 1) * between


def constraint(margin: float, between: float) -> tuple[float, float]:
    """The largest angle inside class 1 and the smallest to class 2, in the plane of two prototypes (eqs. 8, 9).

        theta/(m-1) + theta/(m+1)        if theta <= (m-1)/m pi,  else  (2 pi - theta)/(m+1) + theta/(m+1)
        against  (m-1)/(m+1) theta

    Args:
        margin: m > 1.
        between: theta_12, the angle between the prototypes, in (0, pi].
    """
    m, theta = check_range("margin", margin, 1.0), check_range("between", between, 0.0, math.pi)
    outward = theta / (m - 1) if theta <= (m - 1) / m * math.pi else (2 * math.pi - theta) / (m + 1)
    return outward + theta / (m + 1), angular_margin(m, theta)


def class_arcs(margin: float, prototypes: npt.ArrayLike, *, points: int = 200_001) -> list[Floats]:
    """Which directions of the circle belong to which class: m theta_i < theta_j for all j != i (sec. 3.3), by a grid.

    Args:
        margin: m.
        prototypes: their directions on the circle, in radians.
        points: of the grid.

    Returns:
        For every class the directions in its region, in radians relative to its prototype, in (-pi, pi].
    """
    centres = np.asarray(prototypes, dtype=np.float64)
    around = np.linspace(-math.pi, math.pi, check_integer("points", points, 3))
    arcs = []
    for number, centre in enumerate(centres):
        own = np.abs(around)
        others = np.delete(centres, number) - centre
        away = np.abs((around[:, None] - others + math.pi) % (2 * math.pi) - math.pi)
        arcs.append(around[margin * own < away.min(1)])
    return arcs


def spread_and_gap(margin: float, prototypes: npt.ArrayLike, *, points: int = 200_001) -> tuple[float, float]:
    """The largest angle inside a class and the smallest between two, measured on the arcs of the grid."""
    centres = np.asarray(prototypes, dtype=np.float64)
    arcs = class_arcs(margin, centres, points=points)
    spread = max(float(arc.max() - arc.min()) for arc in arcs)
    gap = math.pi
    for first in range(len(centres)):
        for second in range(first + 1, len(centres)):
            ends = [centres[k] + edge for k in (first, second) for edge in (arcs[k].min(), arcs[k].max())]
            for a in ends[:2]:
                gap = min(gap, *(abs((b - a + math.pi) % (2 * math.pi) - math.pi) for b in ends[2:]))
    return spread, gap


def least_margin(prototypes: npt.ArrayLike, *, points: int = 200_001) -> float:
    """The smallest m whose regions are no wider than the gaps between them (Definition 1), by bisection on the grid.

    Args:
        prototypes: directions on the circle, in radians.
        points: of the grid; the result is as fine as it.

    Example:
        >>> round(least_margin([0.0, 1.0]), 2)  # 2 + sqrt(3)
        3.73
    """
    low, high = 1.5, 40.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        spread, gap = spread_and_gap(middle, prototypes, points=points)
        low, high = (low, middle) if spread <= gap else (middle, high)
    return (low + high) / 2
