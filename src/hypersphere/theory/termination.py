"""The termination angle of any loss of the softmax family, from the loss itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hypersphere.core import check_choice, check_positive
from hypersphere.heads import create_head
from hypersphere.theory.weights import log_negative_weight

Floats = npt.NDArray[np.float64]
FAMILY = ("normface", "cosface", "arcface", "ampface", "unified", "sphereface", "sphereface_r")
"""Losses softplus(log sum_j e^(s cos_j) - t(theta_y)): all that the angle to the target moves is t."""
_FIXED: dict[str, dict[str, Any]] = {
    "normface": {"learnable_scale": False},
    "sphereface": {"anneal": None},
    "ampface": {"wrong_class_relu": False},
    "unified": {"wrong_class_relu": False},
}


def termination_angle_of(
    logit: Callable[[Floats], Floats], log_weight: float, *, level: float = 0.1, points: int = 20_001
) -> float | None:
    """The termination angle of any loss -log(e^t / (e^t + N)), t of the angle: the first with 1 - p_y = level.

    Args:
        logit: t, of an array of angles in radians.
        log_weight: log N.
        level: of 1 - p_y.
        points: of the grid on [0, pi] in which the root is bracketed.

    Returns:
        The angle in radians; None where 1 - p_y is above the level at angle 0, or never reaches it.
    """
    from scipy.optimize import brentq

    angles = np.linspace(0.0, math.pi, points)
    wanted = log_weight + math.log1p(-level) - math.log(level)
    beyond = np.flatnonzero(logit(angles) < wanted)
    if len(beyond) == 0 or beyond[0] == 0:
        return None
    return float(brentq(lambda a: float(logit(np.asarray(a))) - wanted, angles[beyond[0] - 1], angles[beyond[0]]))


def target_logit(loss: str, *, scale: float, **options: Any) -> Callable[[Floats], Floats]:
    """t(theta) of a loss of the library, read back from its value for two opposite prototypes.

        L = log(1 + e^(-s cos(theta) - t))   so   t = -s cos(theta) - log(e^L - 1)

    Args:
        loss: one of `FAMILY`.
        scale: s.
        options: of the loss, such as its margin. The wrong-class ReLU is switched off, for it changes N and not t.
    """
    check_choice("loss", loss, FAMILY)
    fixed = _FIXED.get(loss, {})
    settings: dict[str, Any] = {**options, **fixed, "scale": scale}
    head = create_head(loss, dim=2, num_classes=2, engine="dense", **settings).double()
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    label = torch.zeros(1, dtype=torch.int64)

    def logit(angle: Floats) -> Floats:
        theta = torch.from_numpy(np.atleast_1d(np.asarray(angle, dtype=np.float64)))
        points = torch.stack([theta.cos(), theta.sin()], dim=1)
        with torch.no_grad():
            values = torch.stack([head(point[None], label) for point in points])
            odds = values + torch.log(-torch.expm1(-values))
            return np.asarray((-scale * theta.cos() - odds).numpy().reshape(np.shape(angle)))

    return logit


def loss_termination_angle(
    loss: str, *, num_classes: int, dim: int, scale: float, level: float = 0.1, **options: Any
) -> float | None:
    """The termination angle of a loss of the library among uniform prototypes.

    Args:
        loss: one of `FAMILY`.
        num_classes, dim, scale: C, d and s of the expected wrong-class weight.
        level: of 1 - p_y.
        options: of the loss.

    Returns:
        Radians; None where p_y never gets there.

    Example:
        >>> angle = loss_termination_angle("arcface", num_classes=85_742, dim=512, scale=64, margin=0.6)
        >>> round(math.degrees(angle), 1)
        39.7
    """
    weight = log_negative_weight(num_classes, dim, check_positive("scale", scale))
    return termination_angle_of(target_logit(loss, scale=scale, **options), weight, level=level, points=361)
