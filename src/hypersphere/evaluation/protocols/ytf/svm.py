"""A support vector machine with the histogram intersection kernel, by sequential minimal optimisation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_integer, check_positive
from hypersphere.evaluation.arrays import Array, Bools, Floats

_ROWS = 256
_TINY = 1e-12


def intersection_kernel(first: Array, second: Array) -> Floats:
    """(n, m) sums over the bins of the smaller count: K(a, b) = sum_k min(a_k, b_k) (Barla et al. 2003).

    Args:
        first: (n, bins).
        second: (m, bins).
    """
    kernel = np.zeros((len(first), len(second)))
    for top in range(0, len(first), _ROWS):
        part = kernel[top : top + _ROWS]
        for left, right in zip(first[top : top + _ROWS].T, second.T, strict=True):
            if left.any() and right.any():
                part += np.minimum(left[:, None], right)
    return kernel


@dataclass(frozen=True)
class DualSvm:
    """A trained machine: f(x) = sum_i coefficients_i K(x_i, x) + bias; positive is the class of True.

    Args:
        coefficients: (n,) alpha_i y_i.
        bias: b.
    """

    coefficients: Floats
    bias: float

    def decide(self, kernel: Floats) -> Floats:
        """(m,) values of f from the (m, n) kernel of new samples with the training ones."""
        return kernel @ self.coefficients + self.bias


def train_svm(
    kernel: Floats, positive: npt.ArrayLike, cost: float = 1.0, *, tolerance: float = 1e-3, steps: int = 1_000_000
) -> DualSvm:
    """Solve the dual of the soft-margin machine.

        min_a  a' Q a / 2 - sum a,   0 <= a_i <= cost,   y' a = 0,   Q_ij = y_i y_j K_ij

    Each step moves the pair that violates the optimality conditions most, to second order (Fan, Chen and Lin 2005),
    until no violation is above the tolerance.

    Args:
        kernel: (n, n) of the training samples.
        positive: (n,) their classes, both of which must occur.
        cost: C.
        tolerance: of the optimality conditions, as LIBSVM's.
        steps: an error is raised beyond this many.
    """
    check_positive("cost", cost)
    check_positive("tolerance", tolerance)
    check_integer("steps", steps, 1)
    truth: Bools = np.asarray(positive, dtype=bool)
    if kernel.shape != (len(truth), len(truth)):
        raise ValueError(f"kernel has shape {kernel.shape}; it must be square, a row for each of {len(truth)} samples")
    if truth.all() or not truth.any():
        raise ValueError("positive must hold both classes")
    sign = np.where(truth, 1.0, -1.0)
    alpha = np.zeros(len(truth))
    gradient = -np.ones(len(truth))
    diagonal = np.diag(kernel).copy()
    for _ in range(steps):
        pull = -sign * gradient
        up = np.where(truth, alpha < cost, alpha > 0)
        down = np.where(truth, alpha > 0, alpha < cost)
        i = int(np.argmax(np.where(up, pull, -np.inf)))
        if pull[i] - np.where(down, pull, np.inf).min() < tolerance:
            return DualSvm(alpha * sign, _bias(pull, alpha, cost, up, down))
        gap = pull[i] - pull
        curvature = np.maximum(diagonal[i] + diagonal - 2 * kernel[i], _TINY)
        j = int(np.argmax(np.where(down & (gap > 0), gap * gap / curvature, -np.inf)))
        step = gap[j] / curvature[j]
        step = min(step, cost - alpha[i] if truth[i] else alpha[i], alpha[j] if truth[j] else cost - alpha[j])
        alpha[i] += sign[i] * step
        alpha[j] -= sign[j] * step
        for k in (i, j):
            alpha[k] = 0.0 if alpha[k] < _TINY * cost else cost if alpha[k] > cost * (1 - _TINY) else alpha[k]
        gradient += step * sign * (kernel[i] - kernel[j])
    raise ValueError(f"no solution within steps={steps}; raise tolerance={tolerance:g} or lower cost={cost:g}")


def _bias(pull: Floats, alpha: Floats, cost: float, up: Bools, down: Bools) -> float:
    """The mean over samples on the margin; half-way between the bounds if there is none."""
    free = (alpha > 0) & (alpha < cost)
    if free.any():
        return float(pull[free].mean())
    return float(pull[up].max() + pull[down].min()) / 2
