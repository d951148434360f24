"""The angle from one uniform direction to the nearest of many: exactly, by asymptotics, and by sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from hypersphere.core import check_integer
from hypersphere.geometry.caps import _panels, cap_angle, log_cap_area
from hypersphere.geometry.configurations import uniform_sphere

_EULER = 0.5772156649015329
_BLOCK = 8192


@dataclass(frozen=True, kw_only=True)
class NearestAngle:
    """The law of the angle to the nearest prototype, in radians.

    Args:
        mean: its expectation.
        deviation: its standard deviation.
        median: its median.
    """

    mean: float
    deviation: float
    median: float


def nearest_angle(num_classes: int, dim: int) -> NearestAngle:
    """The angle from a prototype to the nearest of the others, all uniform on the sphere (AmpFace Prop. 1, Fig. 7).

    It exceeds t if all C - 1 others are outside the cap of half-angle t:

        P(angle > t) = (1 - A(t))^(C-1),   E angle = int_0^pi P(angle > t) dt

    with A of `log_cap_area`. Exact for finite C and d: quadrature in logarithms, for C up to 1e9 and more.

    Args:
        num_classes: C, at least 2.
        dim: d >= 2.

    Example:
        >>> round(math.degrees(nearest_angle(85_742, 512).mean), 2)
        79.0
    """
    others, width = check_integer("num_classes", num_classes, 2) - 1, check_integer("dim", dim, 2)
    low = cap_angle(math.log(1e-17 / others), width)
    high = math.pi - cap_angle(-45.0 / others, width)
    nodes, weights = _panels(low, high)
    outside = np.exp(others * log_cap_area(math.pi - nodes, width))
    mean = low + float(weights @ outside)
    square = 2 * float(weights @ ((nodes - low) * outside)) - (mean - low) ** 2
    median = cap_angle(math.log(-math.expm1(-math.log(2) / others)), width)
    return NearestAngle(mean=mean, deviation=math.sqrt(max(0.0, square)), median=median)


def nearest_angle_asymptotics(num_classes: int, dim: int) -> dict[str, float]:
    """The expectation of `nearest_angle` by the usual asymptotics, in radians.

    - `one in the cap`: the angle t with (C - 1) A(t) = 1;
    - `many classes`: C -> inf at fixed d, where caps are flat and angles small (a Weibull law),
      Gamma(1 + 1/(d-1)) ((C-1) / ((d-1) B((d-1)/2, 1/2)))^(-1/(d-1));
    - `many dimensions`: d -> inf, cosines normal with variance 1/d and the largest of them of Gumbel's law,
      arccos((b + gamma/b') / sqrt(d)), b' = sqrt(2 log n), b = b' - (log log n + log 4 pi) / (2 b'), n = C - 1;
    - `first order`: the same with arccos(sqrt(2 log(n) / d)) alone.

    An entry is left out where its formula is not defined.

    Args:
        num_classes: C, at least 2.
        dim: d >= 2.
    """
    from scipy.special import betaln

    others, width = check_integer("num_classes", num_classes, 2) - 1, check_integer("dim", dim, 2)
    found = {"one in the cap": cap_angle(-math.log(others), width)}
    log_flat = math.log(others) - math.log(width - 1) - float(betaln((width - 1) / 2, 0.5))
    flat = math.gamma(1 + 1 / (width - 1)) * math.exp(-log_flat / (width - 1))
    if flat <= math.pi:
        found["many classes"] = flat
    if others > 2:
        root = math.sqrt(2 * math.log(others))
        level = root - (math.log(math.log(others)) + math.log(4 * math.pi)) / (2 * root)
        for name, score in (("many dimensions", level + _EULER / root), ("first order", root)):
            if score <= math.sqrt(width):
                found[name] = math.acos(score / math.sqrt(width))
    return found


def sample_nearest_angles(num_classes: int, dim: int, *, probes: int = 256, seed: int = 0) -> torch.Tensor:
    """Angles from `probes` uniform directions to the nearest of C - 1 uniform prototypes, in radians.

    Each has the law of `nearest_angle`; they share the prototypes, and are almost independent.

    Args:
        num_classes: C, at least 2.
        dim: d >= 2.
        probes: how many directions.
        seed: of prototypes and directions.

    Returns:
        (probes,) float64.
    """
    others, width = check_integer("num_classes", num_classes, 2) - 1, check_integer("dim", dim, 2)
    generator = torch.Generator().manual_seed(seed)
    directions = uniform_sphere(check_integer("probes", probes, 1), width, generator=generator, dtype=torch.float32)
    best = torch.full((len(directions),), -1.0)
    for start in range(0, others, _BLOCK):
        block = torch.randn(min(_BLOCK, others - start), width, generator=generator)
        best = torch.maximum(best, (directions @ (block / block.norm(dim=1, keepdim=True)).T).amax(1))
    return best.double().clamp(-1, 1).arccos()
