"""Margin softmax losses as functions of the angles alone, the wrong classes at their expectation (AmpFace App. C)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_choice, check_finite_number, check_integer, check_positive
from hypersphere.geometry import nearest_angle
from hypersphere.theory.weights import log_negative_weight, log_negative_weight_approximation

Floats = npt.NDArray[np.float64]
_WEIGHTS = {"exact": log_negative_weight, "approximation": log_negative_weight_approximation}


@dataclass(frozen=True, kw_only=True)
class ExpectedSoftmax:
    """A margin softmax loss in a space of uniform prototypes; the defaults are the AmpFace paper's C, d and s.

        L = -log(e^t(theta_y) / (e^t(theta_y) + N)),  t(theta) = s (m0 cos(m1 theta + m2) - m3)    (eq. 3)

    with N the expected total weight of the wrong classes (Prop. 3).

    Args:
        num_classes: C.
        dim: d.
        scale: s.
        m0, m1, m2, m3: the margins of AmpFace, SphereFace, ArcFace and CosFace.
        weight: N's formula: `exact` on the sphere, or the paper's `approximation`.
    """

    num_classes: int = 85_742
    dim: int = 512
    scale: float = 64.0
    m0: float = 1.0
    m1: float = 1.0
    m2: float = 0.0
    m3: float = 0.0
    weight: str = "exact"

    def __post_init__(self) -> None:
        check_integer("num_classes", self.num_classes, 2)
        check_integer("dim", self.dim, 2)
        for name in ("scale", "m0", "m1"):
            check_positive(name, getattr(self, name))
        for name in ("m2", "m3"):
            check_finite_number(name, getattr(self, name))
        check_choice("weight", self.weight, _WEIGHTS)

    def log_weight(self) -> float:
        """log N."""
        return _WEIGHTS[self.weight](self.num_classes, self.dim, self.scale)

    def logit(self, angle: npt.ArrayLike) -> Floats:
        """t(theta), the target's logit."""
        theta = np.asarray(angle, dtype=np.float64)
        return np.asarray(self.scale * (self.m0 * np.cos(self.m1 * theta + self.m2) - self.m3))

    def logit_slope(self, angle: npt.ArrayLike) -> Floats:
        """t'(theta) = -s m0 m1 sin(m1 theta + m2)."""
        theta = np.asarray(angle, dtype=np.float64)
        return np.asarray(-self.scale * self.m0 * self.m1 * np.sin(self.m1 * theta + self.m2))


def vary(setting: ExpectedSoftmax, name: str, value: Any) -> ExpectedSoftmax:
    """The setting with one field changed."""
    changes: dict[str, Any] = {name: value}
    return replace(setting, **changes)


def margin_loss(setting: ExpectedSoftmax, target_angle: npt.ArrayLike) -> Floats:
    """L(theta_y) = log(1 + N e^-t(theta_y)) (AmpFace Fig. 11).

    Args:
        setting: the loss.
        target_angle: theta_y in radians.

    Example:
        >>> round(float(margin_loss(ExpectedSoftmax(m3=0.5), math.radians(39.3))), 3)  # 1 - p_y is 0.1 here
        0.105
    """
    return np.logaddexp(0.0, setting.log_weight() - setting.logit(target_angle))


def target_gradient(setting: ExpectedSoftmax, target_angle: npt.ArrayLike) -> Floats:
    """dL/dtheta_y = (1 - p_y) s m0 m1 sin(m1 theta_y + m2) (AmpFace eq. 12, Fig. 12), per radian.

    Args:
        setting: the loss.
        target_angle: theta_y in radians.
    """
    return np.asarray(-_wrong_share(setting, target_angle) * setting.logit_slope(target_angle))


def wrong_class_gradient(setting: ExpectedSoftmax, target_angle: npt.ArrayLike, wrong_angle: npt.ArrayLike) -> Floats:
    """dL/dtheta_j = -p_j s sin(theta_j) for one wrong class (AmpFace Figs. 13, 14), per radian.

        p_j = e^(s cos theta_j) / (e^t(theta_y) + e^(s cos theta_j) + N (C-2)/(C-1))

    This class has its own angle, the C - 2 others their expectation.

    Args:
        setting: the loss.
        target_angle: theta_y in radians.
        wrong_angle: theta_j in radians; the two are broadcast.
    """
    theta = np.asarray(wrong_angle, dtype=np.float64)
    own = setting.scale * np.cos(theta)
    total = np.logaddexp(setting.logit(target_angle), own)
    if setting.num_classes > 2:
        rest = setting.log_weight() + math.log((setting.num_classes - 2) / (setting.num_classes - 1))
        total = np.logaddexp(total, rest)
    return np.asarray(-np.exp(own - total) * setting.scale * np.sin(theta))


def termination_angle(setting: ExpectedSoftmax, *, level: float = 0.1) -> float | None:
    """The angle below which the loss hardly pulls any more: 1 - p_y = level (AmpFace App. A and B).

    With kappa = log((1 - level)/level N) / s, in closed form

        theta = (arccos((kappa + m3) / m0) - m2) / m1

    Args:
        setting: the loss.
        level: of 1 - p_y.

    Returns:
        The angle in radians; None where p_y never gets there.

    Example:
        >>> round(math.degrees(termination_angle(ExpectedSoftmax(m2=0.6))), 1)
        39.7
    """
    score = (termination_cosine(setting, level=level) + setting.m3) / setting.m0
    if abs(score) > 1:
        return None
    angle = (math.acos(score) - setting.m2) / setting.m1
    return angle if 0 <= angle <= math.pi else None


def termination_cosine(setting: ExpectedSoftmax, *, level: float = 0.1) -> float:
    """kappa of `termination_angle`: what the target's t(theta)/s must be. Without margins, its cosine."""
    share = check_positive("level", level)
    if share >= 1:
        raise ValueError(f"level={share:g} must be below 1")
    return (math.log1p(-share) - math.log(share) + setting.log_weight()) / setting.scale


def half_nearest_angle(num_classes: int, dim: int) -> float:
    """Half of the expected angle to the nearest prototype, the papers' empirical termination angle (App. B)."""
    return nearest_angle(num_classes, dim).mean / 2


def polar_collapse_loss(setting: ExpectedSoftmax) -> float:
    """The loss of "polar collapse" (AmpFace sec. 3.2): every prototype, the right one too, opposite to the feature.

        log(1 + (C-1) e^(-s - t(pi)))

    Near zero for m0 < 1, and for m1 with the plain cosine of eq. 3: an optimum without any class. The wrong-class ReLU
    takes it away.
    """
    return float(np.logaddexp(0.0, math.log(setting.num_classes - 1) - setting.scale - setting.logit(math.pi)))


def _wrong_share(setting: ExpectedSoftmax, target_angle: npt.ArrayLike) -> Floats:
    """1 - p_y."""
    from scipy.special import expit

    return np.asarray(expit(setting.log_weight() - setting.logit(target_angle)))
