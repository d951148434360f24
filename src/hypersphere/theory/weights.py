"""The total weight of the wrong classes in the softmax denominator (AmpFace Prop. 3, Fig. 10)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from hypersphere.core import check_integer, check_positive, check_range

_LARGEST_SCALE = 1e5


def log_mean_weight(dim: int, scale: float) -> float:
    """log E e^(s z), z the cosine of a uniform direction with a fixed one.

        E e^(s z) = Gamma(d/2) (2/s)^(d/2-1) I_(d/2-1)(s) = sum_k (s^2/4)^k / (k! (d/2)_k)

    with I a modified Bessel function and (x)_k the rising factorial; the series, in logarithms, neither overflows nor
    cancels.

    Args:
        dim: d >= 2.
        scale: s, positive and at most 10^5: the series has two terms for each unit of it.

    Example:
        >>> round(log_mean_weight(512, 64), 4)
        3.9695
    """
    width, s = check_integer("dim", dim, 2), check_positive("scale", scale)
    if s > _LARGEST_SCALE:
        raise ValueError(f"scale={s:g} must be at most {_LARGEST_SCALE:g}")
    k = np.arange(int(2 * s) + 80)
    steps = 2 * math.log(s / 2) - np.log(k + 1.0) - np.log(width / 2 + k)
    terms = np.concatenate([[0.0], np.cumsum(steps)])
    return float(np.logaddexp.reduce(terms))


def log_negative_weight(num_classes: int, dim: int, scale: float) -> float:
    """The logarithm of the expected total wrong-class weight sum_(j != y) e^(s cos_j), prototypes uniform: exact.

    log(C - 1) + `log_mean_weight`.

    Args:
        num_classes: C, at least 2.
        dim: d >= 2.
        scale: s > 0.

    Example:
        >>> f"{math.exp(log_negative_weight(85_742, 512, 64)):.4g}"
        '4.541e+06'
    """
    return math.log(check_integer("num_classes", num_classes, 2) - 1) + log_mean_weight(dim, scale)


def log_negative_weight_approximation(num_classes: int, dim: int, scale: float) -> float:
    """The paper's approximation of it: log(C - 1) + s^2/(2d) (AmpFace eq. 10), cosines normal with variance 1/d.

    Always above the exact value; close where s is small against d.

    Example:
        >>> f"{math.exp(log_negative_weight_approximation(85_742, 512, 64)):.4g}"
        '4.681e+06'
    """
    others = check_integer("num_classes", num_classes, 2) - 1
    return math.log(others) + check_positive("scale", scale) ** 2 / (2 * check_integer("dim", dim, 2))


def relative_deviation(num_classes: int, dim: int, scale: float) -> float:
    """The standard deviation of the total weight over its mean, exact on the sphere.

        sqrt((M(2s)/M(s)^2 - 1) / (C - 1)),  M(s) = E e^(s z)

    The paper's proof has sqrt(e^(s^2/d) / C) in its place (AmpFace App. A, after eq. 13).

    Example:
        >>> round(relative_deviation(85_742, 512, 64), 3)
        0.153
    """
    others = check_integer("num_classes", num_classes, 2) - 1
    excess = log_mean_weight(dim, 2 * scale) - 2 * log_mean_weight(dim, scale)
    return math.exp(0.5 * (excess + math.log(-math.expm1(-excess)) - math.log(others)))


def error_bound(num_classes: int, dim: int, scale: float, error: float) -> float:
    """Chebyshev's bound of eq. 13: P(|weight / mean - 1| > error) < (relative deviation / error)^2, at most 1."""
    return min(1.0, (relative_deviation(num_classes, dim, scale) / check_positive("error", error)) ** 2)


@dataclass(frozen=True, kw_only=True)
class SampledWeights:
    """Draws of the total wrong-class weight.

    Args:
        logs: (draws,) logarithms.
        mean: of the weights.
        standard_error: of that mean, from the draws.
    """

    logs: torch.Tensor
    mean: float
    standard_error: float


def sample_negative_weights(
    num_classes: int, dim: int, scale: float, *, draws: int = 100, seed: int = 0
) -> SampledWeights:
    """Draw the prototypes and sum their weights, several times.

    Only their cosines with the feature matter, and (1 + z)/2 of a uniform direction has the law Beta((d-1)/2, (d-1)/2):
    z = x / sqrt(x^2 + chi^2_(d-1)), drawn from d-dimensional Gaussians without forming them.

    Args:
        num_classes: C, at least 2.
        dim: d >= 2.
        scale: s > 0.
        draws: how many times.
        seed: of the draws.
    """
    others, width = check_integer("num_classes", num_classes, 2) - 1, check_integer("dim", dim, 2)
    s, count = check_range("scale", scale, 0.0), check_integer("draws", draws, 2)
    random = np.random.default_rng(seed)
    logs = torch.empty(count, dtype=torch.float64)
    for draw in range(count):
        first, rest = random.standard_normal(others), random.chisquare(width - 1, others)
        logs[draw] = torch.from_numpy(s * first / np.sqrt(first**2 + rest)).logsumexp(0)
    weights = logs.exp()
    return SampledWeights(logs=logs, mean=float(weights.mean()), standard_error=float(weights.std()) / math.sqrt(count))
