"""How others read a TAR off a curve: conventions to reproduce published numbers with, not to choose."""

from __future__ import annotations

import numpy as np

from hypersphere.evaluation.arrays import Array, Floats
from hypersphere.evaluation.metrics.roc import Roc

TAR_RULES = ("at_most", "nearest", "interpolated")
"""`at_most`: hypersphere's; `nearest`: arcface_torch's and AdaFace's; `interpolated`: OpenSphere's."""


def tar_by_rule(roc: Roc, far: float, rule: str) -> float:
    """The TAR at a FAR.

    Args:
        roc: the curve.
        far: where.
        rule: one of `TAR_RULES`.
    """
    return sum(weight * float(roc.tar[point]) for point, weight in _points(roc, far, rule))


def accepted_by_rule(scores: Array, roc: Roc, far: float, rule: str) -> Floats:
    """(n,) how far each genuine pair is accepted, 0 or 1, or between two thresholds in between: the mean is the TAR.

    Args:
        scores: (n,) of the genuine pairs.
        roc, far, rule: as for `tar_by_rule`.
    """
    accepted = np.zeros(len(scores))
    for point, weight in _points(roc, far, rule):
        accepted += weight * (scores >= roc.thresholds[point])
    return accepted


def _points(roc: Roc, far: float, rule: str) -> list[tuple[int, float]]:
    """The points of the curve that a rule reads, and their weights."""
    if rule == "interpolated":
        return _interpolated(roc, far)
    return [(roc.point_at(far) if rule == "at_most" else _nearest(roc, far), 1.0)]


def _nearest(roc: Roc, far: float) -> int:
    """The largest TAR at the corner of the curve whose FAR is nearest, even above the asked one; of two the higher.

    Corners are where the TAR rises, the two ends, and the highest score; other points on a level line do not count.
    """
    fars, first = np.unique(roc.false_accepts, return_index=True)
    last = np.append(first[1:], len(roc.false_accepts)) - 1
    corner = roc.true_accepts[first] != roc.true_accepts[last]
    before = np.append(0, roc.true_accepts[last][:-1])
    corner |= roc.true_accepts[first] != before
    corner[[0, -1]] = True
    corner |= fars == roc.false_accepts[1]
    distance = np.abs(fars[corner] / roc.impostors - far)
    chosen = len(distance) - 1 - int(np.argmin(distance[::-1]))
    return int(last[corner][chosen])


def _interpolated(roc: Roc, far: float) -> list[tuple[int, float]]:
    """On the straight line between the points on either side; the largest TAR where the FAR is met exactly."""
    left = int(np.searchsorted(roc.far, far, side="right")) - 1
    if left == len(roc.far) - 1 or roc.far[left] == far:
        return [(left, 1.0)]
    share = float((far - roc.far[left]) / (roc.far[left + 1] - roc.far[left]))
    return [(left, 1 - share), (left + 1, share)]
