"""The bound of the softmax loss (NormFace Prop. 2)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_integer, check_positive


def softmax_bound(num_classes: int, scale: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The least softmax loss of normalised, well-separated features: log(1 + (n-1) e^(-n/(n-1) s)) (Prop. 2, eq. 20).

    Reached by the regular simplex, so only if n <= d + 1; below what is possible otherwise.

    Args:
        num_classes: n, at least 2.
        scale: s = l^2, the product of the norms of feature and prototype.

    Example:
        >>> round(float(softmax_bound(10_575, 1.0)), 2)
        8.27
    """
    others = check_integer("num_classes", num_classes, 2) - 1
    s = np.asarray(scale, dtype=np.float64)
    return np.logaddexp(0.0, math.log(others) - (others + 1) / others * s)


def scale_for_bound(num_classes: int, loss: float) -> float:
    """The smallest scale at which the bound of Prop. 2 falls to `loss`: its inverse; 0 where no scale is needed.

    Example:
        >>> round(scale_for_bound(10_575, 0.01), 1)
        13.9
    """
    others = check_integer("num_classes", num_classes, 2) - 1
    wanted = math.log(math.expm1(check_positive("loss", loss)))
    return max(0.0, (math.log(others) - wanted) * others / (others + 1))
