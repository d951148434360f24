"""Unit vectors and angles."""

from __future__ import annotations

import torch
from torch import Tensor

EPS = 1e-12
"""The epsilon of NormFace eq. 3; the paper's released layer uses 1e-6."""


def with_derivative(x: Tensor, value: Tensor, derivative: Tensor | float) -> Tensor:
    """A function of x given by its value and its derivative, both computed elsewhere without gradients.

    The result equals `value` to the last bit, and its derivative with respect to x is `derivative`.
    """
    return value.detach() + (x - x.detach()) * (derivative.detach() if isinstance(derivative, Tensor) else derivative)


def norm(x: Tensor, eps: float = EPS) -> Tensor:
    """||x||_2 = sqrt(sum_i x_i^2 + eps) over the last dimension (NormFace sec. 3.2), without overflow.

    Vectors so long that their squares overflow are measured after division by their largest entry. In float32 at least.
    """
    if x.ndim and not x.shape[-1]:
        raise ValueError(f"vectors have shape {tuple(x.shape)}; their last dimension must not be 0")
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    size = wide.detach().abs().amax(-1, keepdim=True).clamp(min=1.0)
    scaled = wide / size
    return ((scaled * scaled).sum(-1, keepdim=True) + eps / (size * size)).sqrt() * size


def normalize(x: Tensor, eps: float = EPS) -> Tensor:
    """The unit vector x / sqrt(sum_i x_i^2 + eps) over the last dimension (NormFace eq. 3).

    Its gradient is orthogonal to x (eq. 4) up to eps / ||x||^2; the zero vector maps to itself.

    Example:
        >>> normalize(torch.tensor([[3.0, 4.0]]))
        tensor([[0.6000, 0.8000]])
    """
    return (x / norm(x, eps)).to(x.dtype)


def sine_from_cosine(cosine: Tensor) -> Tensor:
    """sqrt(1 - c^2) as sqrt((1-c)(1+c)), which keeps its digits near the poles; 0 beyond them."""
    return ((1 - cosine) * (1 + cosine)).clamp(min=0).sqrt()


def angle_from_cosine(cosine: Tensor) -> Tensor:
    """arccos(c) with derivative -1/sqrt(1-c^2), and the subgradient 0 at |c| >= 1."""
    c = cosine.detach()
    sine = sine_from_cosine(c)
    derivative = torch.where(sine > 0, -1 / sine.clamp(min=torch.finfo(c.dtype).tiny), 0.0)
    return with_derivative(cosine, torch.arccos(c.clamp(-1, 1)), derivative)


def angle_between(x: Tensor, y: Tensor, eps: float = EPS) -> Tensor:
    """The angle between vectors, 2 atan2(||x~ - y~||, ||x~ + y~||), over the last dimension.

    Unlike arccos of a cosine it keeps its digits and its gradient (of norm 1 on the sphere) right up to the poles;
    exactly at them the gradient is 0.
    """
    unit_x, unit_y = normalize(x, eps), normalize(y, eps)
    return 2 * torch.atan2(_length(unit_x - unit_y), _length(unit_x + unit_y))


def _length(x: Tensor) -> Tensor:
    squared = (x * x).sum(-1)
    return torch.where(squared > 0, squared, 1.0).sqrt() * (squared > 0)
