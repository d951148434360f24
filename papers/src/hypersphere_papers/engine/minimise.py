"""Minimise a function of free points, to see a theorem's bound reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def minimise(objective: Callable[[Tensor], Tensor], start: Tensor, *, steps: int = 500) -> tuple[Tensor, float]:
    """L-BFGS in float64 from a start.

    Args:
        objective: a scalar of a tensor of the start's shape, differentiable.
        start: where it begins.
        steps: iterations at most.

    Returns:
        The last point and its value.
    """
    from scipy.optimize import minimize

    def value(flat: Any) -> tuple[float, Any]:
        points = torch.from_numpy(flat.copy()).view_as(start).requires_grad_()
        result = objective(points)
        (gradient,) = torch.autograd.grad(result, points)
        return float(result.detach()), gradient.flatten().numpy()

    options = {"maxiter": steps, "maxfun": 4 * steps, "maxcor": 20, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(value, start.double().flatten().numpy(), jac=True, method="L-BFGS-B", options=options)
    return torch.from_numpy(found.x).view_as(start), float(found.fun)
