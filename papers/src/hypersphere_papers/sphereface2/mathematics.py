"""SphereFace2: its loss curves (Figs. 3, 6), decision planes, the start of the bias, and the gradients of Table 13."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hypersphere.core import check_integer, check_positive
from hypersphere.engines import Similarity
from hypersphere.geometry import uniform_sphere
from hypersphere.losses import SphereFace2

Floats = npt.NDArray[np.float64]


def softmax_example(cosine: npt.ArrayLike, scale: float) -> Floats:
    """L_n = -log(e^(s c) / (e^(s c) + 3 e^(0.2 s))): four classes, the wrong ones at 0.2 (Fig. 3a)."""
    c = np.asarray(cosine, dtype=np.float64)
    return np.logaddexp(0.0, math.log(3) + check_positive("scale", scale) * (0.2 - c))


def positive_loss(cosine: npt.ArrayLike, scale: float) -> Floats:
    """The positive term of eq. 2 at lambda = 1: log(1 + e^(-r c)) / r (Fig. 3b)."""
    c, r = np.asarray(cosine, dtype=np.float64), check_positive("scale", scale)
    return np.asarray(np.logaddexp(0.0, -r * c) / r)


def adjusted(cosine: npt.ArrayLike, power: float) -> Floats:
    """g(z) = 2 ((z + 1)/2)^t - 1, the similarity adjustment (sec. 2.2, Fig. 6)."""
    c = torch.tensor(cosine, dtype=torch.float64)
    return Similarity(check_positive("power", power)).value(c).numpy()


def adjusted_inverse(similarity: npt.ArrayLike, power: float) -> Floats:
    """The cosine with g(cosine) = similarity; NaN outside [-1, 1]."""
    z = np.asarray(similarity, dtype=np.float64)
    share = np.where(np.abs(z) <= 1, (z + 1) / 2, np.nan)
    return np.asarray(2 * share ** (1 / check_positive("power", power)) - 1)


def decision_planes(*, scale: float, margin: float, bias: float, power: float = 1.0) -> dict[str, float]:
    """The cosines at which the logits of eq. 5 are 0: planes across the classifier's direction (Figs. 4, 7, 8).

        positive   r (g(c) - m) + b = 0,   baseline  r g(c) + b = 0,   negative  r (g(c) + m) + b = 0

    In r g they are r m apart, 2 r m from positive to negative (sec. 2.3).

    Args:
        scale: r.
        margin: m.
        bias: b.
        power: t.

    Returns:
        The three cosines; NaN where a plane misses the sphere.
    """
    r = check_positive("scale", scale)
    places = {"positive": margin - bias / r, "baseline": -bias / r, "negative": -margin - bias / r}
    return {name: float(adjusted_inverse(place, power)) for name, place in places.items()}


def start_bias(num_classes: int, *, balance: float, scale: float, margin: float, power: float) -> float:
    """The bias at which dL/db = 0 for all cosines 0 (App. G, eqs. 9 and 10).

    Args:
        num_classes: n.
        balance: lambda.
        scale: r.
        margin: m.
        power: t.

    Example:
        >>> round(start_bias(8_631, balance=0.7, scale=40, margin=0.4, power=3), 2)
        5.78
    """
    classes = check_integer("num_classes", num_classes, 2)
    loss = SphereFace2(num_classes=classes, balance=balance, scale=scale, margin=margin, power=power)
    return loss.start_bias(classes)


def bias_slope(bias: float, num_classes: int, *, balance: float, scale: float, margin: float, power: float) -> float:
    """r dL/db with all cosines 0, straight from eq. 7 (times r), divided by lambda."""
    g = float(adjusted(0.0, power))
    a_y, a_i = scale * (g - margin), scale * (g + margin)
    positive = -1 / (1 + math.exp(a_y + bias))
    return positive + (1 - balance) / balance * (num_classes - 1) / (1 + math.exp(-a_i - bias))


def gradient_table(*, seed: int = 0) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Table 13's four cells: the gradient by autograd, as printed, and corrected, for random W and x.

    Returns:
        By cell, three vectors.
    """
    g = torch.Generator().manual_seed(seed)
    weight = uniform_sphere(5, 3, generator=g).requires_grad_()
    x, y = 1.5 * uniform_sphere(1, 3, generator=g)[0], 2
    logits = weight @ x
    signs = torch.ones(5, dtype=torch.float64)
    signs[y] = -1
    softmax = torch.autograd.grad(logits.logsumexp(0) - logits[y], weight, retain_graph=True)[0]
    binary = torch.autograd.grad(torch.nn.functional.softplus(signs * logits).sum(), weight)[0]
    p, sigmoid = logits.detach().softmax(0), logits.detach().sigmoid()
    wrong = p.sum() - p[y]
    return {
        "softmax, i != y": (softmax[0], p[0] * x, p[0] * x),
        "SphereFace2, i != y": (binary[0], sigmoid[0] * x, sigmoid[0] * x),
        "softmax, y": (softmax[y], (wrong - 1) * x, (p[y] - 1) * x),
        "SphereFace2, y": (binary[y], -sigmoid[y] * x, (sigmoid[y] - 1) * x),
    }
