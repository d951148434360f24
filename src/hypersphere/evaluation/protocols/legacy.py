"""How others read a TAR off a curve: conventions to reproduce published figures with, not to choose."""

from __future__ import annotations

import numpy as np

from hypersphere.evaluation.roc import Roc

TAR_RULES = ("at_most", "nearest", "interpolated")
"""`at_most`: hypersphere's; `nearest`: arcface_torch's and AdaFace's; `interpolated`: OpenSphere's."""


def tar_by_rule(roc: Roc, far: float, rule: str) -> float:
    """The TAR at a FAR.

    Args:
        roc: the curve.
        far: where.
        rule: one of `TAR_RULES`.
    """
    return {"at_most": Roc.tar_at, "nearest": _nearest, "interpolated": _interpolated}[rule](roc, far)


def _nearest(roc: Roc, far: float) -> float:
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
    return float(roc.tar[last[corner][chosen]])


def _interpolated(roc: Roc, far: float) -> float:
    """On the straight line between the points on either side; the largest TAR where the FAR is met exactly."""
    return float(np.interp(far, roc.far, roc.tar))
