"""Margins as functions of the target's cosine, differentiable to the poles.

Each gives its derivative itself: automatic differentiation of arccos is infinite at cos = 1 and cos = -1, where the
subgradient here is 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hypersphere.core import check_choice
from hypersphere.engines import Similarity
from hypersphere.geometry import sine_from_cosine, with_derivative


def check_margin_grad(value: str) -> bool:
    """Return whether the margin's gradient is detached."""
    return check_choice("margin_grad", value, ("exact", "detached")) == "detached"


def detach_margin(target: Tensor, cosine: Tensor) -> Tensor:
    """Return the target with the gradient that it has without its margin.

    This is cosine + stopgrad(target - cosine), the characteristic gradient detachment of SphereFace2's App. F: the
    margin shapes the value alone.
    """
    return with_derivative(cosine, target, 1.0)


def adjust(cosine: Tensor, similarity: Similarity) -> Tensor:
    """g(cos) = 2 ((cos + 1)/2)^t - 1, the similarity adjustment of SphereFace2 (sec. 2.2); cos itself for t = 1."""
    c = cosine.detach()
    return with_derivative(cosine, similarity.value(c), similarity.derivative(c))


def angular_margin(cosine: Tensor, m1: float | Tensor = 1.0, m2: float | Tensor = 0.0) -> Tensor:
    """cos(m1 theta + m2), with the derivative m1 sin(m1 theta + m2) / sin(theta) in the cosine."""
    if not isinstance(m1, Tensor) and not isinstance(m2, Tensor) and m1 == 1 and m2 == 0:
        return cosine
    c = cosine.detach()
    angle, sine = m1 * torch.arccos(c.clamp(-1, 1)) + m2, sine_from_cosine(c)
    return with_derivative(cosine, torch.cos(angle), torch.where(sine > 0, m1 * torch.sin(angle) / sine, 0.0))


def bounded_angular_margin(cosine: Tensor, m1: float = 1.0, m2: float = 0.0) -> Tensor:
    """cos(min(pi, m1 theta + m2)): SphereFace-R v1, and the margins A and M of SphereFace2's App. F."""
    below_pi = cosine >= math.cos(max(0.0, math.pi - m2) / m1)
    return torch.where(below_pi, angular_margin(cosine, m1, m2), -1.0)


def psi(cosine: Tensor, m: int) -> Tensor:
    """(-1)^k cos(m theta) - 2k on [k pi/m, (k+1) pi/m] (SphereFace eq. 7), for m = 1, 2, 3, 4.

    The multi-angle formula takes no angle: here the derivative at cos = 1 is m^2.
    """
    c = cosine.detach().clamp(-1, 1)
    k = sum(((c < math.cos(n * math.pi / m)).to(c.dtype) for n in range(1, m)), torch.zeros_like(c))
    sign = 1 - 2 * (k % 2)
    multiple = (c, 2 * c**2 - 1, 4 * c**3 - 3 * c, 8 * c**4 - 8 * c**2 + 1)[m - 1]
    derivative = (1.0, 4 * c, 12 * c**2 - 3, 32 * c**3 - 16 * c)[m - 1]
    return with_derivative(cosine, sign * multiple - 2 * k, sign * derivative)


def psi_of_real(cosine: Tensor, m: float) -> Tensor:
    """The same psi for a real m (SphereFace-R v0), by the angle: the derivative at the poles is 0."""
    c = cosine.detach()
    angle, sine = m * torch.arccos(c.clamp(-1, 1)), sine_from_cosine(c)
    k = (angle / math.pi).floor()
    sign = 1 - 2 * (k % 2)
    derivative = torch.where(sine > 0, sign * m * torch.sin(angle) / sine, 0.0)
    return with_derivative(cosine, sign * torch.cos(angle) - 2 * k, derivative)
