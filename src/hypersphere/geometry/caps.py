"""Spherical caps: their area, the angles of uniform points in them, and such points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hypersphere.core import check_finite_number, check_integer, check_range
from hypersphere.geometry.configurations import uniform_sphere
from hypersphere.geometry.sphere import normalize

Floats = npt.NDArray[np.float64]

_UNDERFLOW = 1e-200
"""Below this share of the sphere an incomplete beta function is taken from its own expansion, in logarithms."""


def log_cap_area(angle: npt.ArrayLike, dim: int) -> Floats:
    """The logarithm of a cap's share of the sphere's area (AmpFace App. A, after Fig. 8).

        A(t) = I(sin^2 t; (d-1)/2, 1/2) / 2  for t <= pi/2,  1 - A(pi - t)  beyond

    with I the regularised incomplete beta function. It is also the probability that a uniform direction is within t of
    a given one. Shares below 1e-200 come from I's expansion, so that no dimension underflows.

    Args:
        angle: half-angle(s) of the cap in radians, from 0 to pi.
        dim: d >= 2, of the space: the sphere has d - 1 dimensions.

    Returns:
        Natural logarithms, of the shape of `angle`; -inf at 0.

    Example:
        >>> round(float(log_cap_area(0.1, 512)), 3)
        -1181.506
    """
    angles = _angles(angle)
    half = (check_integer("dim", dim, 2) - 1) / 2
    small = np.minimum(angles, math.pi - angles)
    with np.errstate(divide="ignore"):
        logs = np.where(angles <= math.pi / 2, _log_small_area(small, half), _log_rest(small, half))
    return np.asarray(logs, dtype=np.float64)


def log_angle_density(angle: npt.ArrayLike, dim: int) -> Floats:
    """The log density of the angle between a fixed and a uniform direction, A' = sin^(d-2)(t) / B((d-1)/2, 1/2).

    Args:
        angle: in radians, from 0 to pi.
        dim: d >= 2.

    Example:
        >>> round(float(log_angle_density(1.0, 2)), 4)  # uniform on [0, pi] in the plane: log(1/pi)
        -1.1447
    """
    from scipy.special import betaln, xlogy

    angles, width = _angles(angle), check_integer("dim", dim, 2)
    return np.asarray(xlogy(width - 2, np.sin(angles)) - betaln((width - 1) / 2, 0.5), dtype=np.float64)


def cap_angle(log_area: float, dim: int) -> float:
    """The half-angle of the cap whose share of the sphere has this logarithm: the inverse of `log_cap_area`.

    Zero where the angle is below the smallest float, as in the plane for a share of e^-740.

    Args:
        log_area: at most 0.
        dim: d >= 2.

    Example:
        >>> cap_angle(math.log(0.5), 512)
        1.5707963267948966
    """
    from scipy.optimize import brentq

    width, wanted = check_integer("dim", dim, 2), check_finite_number("log_area", log_area)
    if wanted > 0:
        raise ValueError(f"log_area={wanted:g} must be at most 0: a cap is a part of the sphere")
    if wanted > math.log(0.5):
        rest = -math.expm1(wanted)
        return math.pi if rest == 0 else math.pi - cap_angle(math.log(rest), width)
    if wanted == math.log(0.5):
        return math.pi / 2
    low, high = max(-740.0, 2 * wanted / (width - 1) - 10), math.log(math.pi / 2)

    def excess(log_angle: float) -> float:
        return float(log_cap_area(math.exp(log_angle), width)) - wanted

    return 0.0 if excess(low) >= 0 else math.exp(brentq(excess, low, high, xtol=1e-15, rtol=8.9e-16))


def cap_angle_statistics(angle: float, dim: int) -> tuple[float, float]:
    """Mean and standard deviation of the angle to the axis of uniform points in a cap (AmpFace Fig. 9), exactly.

        E a = int_0^t (1 - A(u)/A(t)) du,  E a^2 = int_0^t 2u (1 - A(u)/A(t)) du

    Args:
        angle: t in radians, in (0, pi].
        dim: d >= 2.

    Returns:
        Mean and standard deviation in radians.

    Example:
        >>> mean, deviation = cap_angle_statistics(1.0, 512)
        >>> round(mean, 4), round(deviation, 4)
        (0.997, 0.003)
    """
    limit, width = check_range("angle", angle, 0.0, math.pi), check_integer("dim", dim, 2)
    if limit == 0:
        raise ValueError("angle=0 is a point, not a cap")
    full = float(log_cap_area(limit, width))
    edge = cap_angle(full - 45.0, width)
    below, weights = _panels(0.0, limit - edge)
    share = np.exp(log_cap_area(limit - below, width) - full)
    shortfall = float(weights @ share)
    square = float(weights @ (2 * below * share))
    return limit - shortfall, math.sqrt(max(0.0, square - shortfall**2))


def uniform_cap(n: int, axis: Tensor, angle: float, *, generator: torch.Generator | None = None) -> Tensor:
    """Points uniform on the spherical cap of all directions within `angle` of `axis`.

    The angle a to the axis has density proportional to sin(a)^(d-2) on [0, angle]; it is drawn by inverting its
    distribution, a regularised incomplete beta function I of sin^2:

        P(a <= t) = I(sin^2 t; (d-1)/2, 1/2) / I(sin^2 angle; (d-1)/2, 1/2)  for t <= angle <= pi/2

    in its logarithm where the cap is too small a part of the sphere for floating point.

    Args:
        n: number of points.
        axis: (dim,) with dim >= 2, of any length but zero.
        angle: half-angle of the cap in radians, from 0 to pi.
        generator: source of randomness.

    Returns:
        (n, dim) unit rows of the axis's dtype (float64 for an axis of integers) and device.

    Example:
        >>> points = uniform_cap(4, torch.tensor([0.0, 0.0, 1.0]), 0.1)
        >>> bool((points[:, 2] > 0.995).all())
        True
    """
    count, limit = check_integer("n", n, 0), check_range("angle", angle, 0.0, math.pi)
    pole = _axis(axis)
    around = uniform_sphere(count, len(pole) - 1, generator=generator).cpu()
    device = "cpu" if generator is None else generator.device
    quantiles = torch.rand(count, generator=generator, dtype=torch.float64, device=device).cpu()
    cosine, sine = _cap_angles(quantiles, len(pole), limit)
    sign = 1.0 if float(pole[0]) >= 0 else -1.0
    points = torch.cat([-sign * cosine[:, None], sine[:, None] * around], dim=1)
    mirror = pole.clone()
    mirror[0] += sign
    points = points - (points @ mirror)[:, None] * mirror * (2 / mirror.dot(mirror))
    return points.to(axis.device, axis.dtype if axis.is_floating_point() else torch.float64)


def _angles(angle: npt.ArrayLike) -> Floats:
    angles = np.asarray(angle, dtype=np.float64)
    if not bool(((angles >= 0) & (angles <= math.pi)).all()):
        raise ValueError("angle must be in radians, from 0 to pi")
    return angles


def _log_small_area(angles: Floats, half: float) -> Any:
    """log A up to pi/2: near pi/2 from its complement in cos^2, where sin^2 would lose digits."""
    from scipy.special import betainc, betaln

    sine = np.sin(angles)
    inside = betainc(half, 0.5, sine**2)
    beyond = betainc(0.5, half, np.cos(angles) ** 2)
    area = np.where(beyond < 0.5, 1 - beyond, inside) / 2
    tail = 2 * half * np.log(sine) + np.log(_correction(sine**2, half)) - math.log(2 * half) - betaln(half, 0.5)
    return np.where(area < _UNDERFLOW, tail, np.log(area))


def _log_rest(angles: Floats, half: float) -> Any:
    """log(1 - A), exact where A is tiny."""
    return np.log1p(-np.exp(_log_small_area(angles, half)))


def _correction(x: Floats, half: float) -> Any:
    """F(x) of the incomplete beta function B(x; h, 1/2) = x^h F(x) / h for x^h tiny.

    F(x) = integral over s > 0 of e^-s (1 - x e^(-s/h))^(-1/2), with B's variable t = x e^(-s/h).
    """
    from numpy.polynomial.laguerre import laggauss

    nodes, weights = laggauss(16)
    inside = np.maximum(1 - x[..., None] * np.exp(-nodes / half), np.finfo(np.float64).tiny)
    return inside**-0.5 @ weights


def _panels(low: float, high: float) -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss and Legendre's rule on sixteen panels of [low, high]."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    edges = np.linspace(low, high, 17)
    middles, halves = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    return (middles[:, None] + halves[:, None] * nodes).ravel(), (halves[:, None] * weights).ravel()


def _axis(axis: Tensor) -> Tensor:
    """The axis as a float64 unit vector."""
    if axis.ndim != 1 or len(axis) < 2:
        raise ValueError(f"axis has shape {tuple(axis.shape)}; it must be (dim,) with dim at least 2")
    pole = axis.detach().double().cpu()
    if not bool(torch.isfinite(pole).all()) or not bool(pole.any()):
        raise ValueError("axis must be finite and not the zero vector")
    return normalize(pole / pole.abs().max(), eps=0.0)


def _cap_angles(quantiles: Tensor, dim: int, angle: float) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the angles to the axis at the given quantiles of the cap's law."""
    from scipy.special import betainc, betainccinv, betaincinv

    half, limit = (dim - 1) / 2, math.sin(angle) ** 2
    part = float(betainc(half, 0.5, limit))
    if angle > math.pi / 2:
        share = quantiles * (1 - part / 2)
        beyond = share > 0.5
        mass = 2 * torch.where(beyond, 1 - share, share).numpy()
    elif part < _UNDERFLOW:
        squared = _small_cap(quantiles, half, limit)
        return (1 - squared).sqrt(), squared.sqrt()
    else:
        beyond = torch.zeros_like(quantiles, dtype=torch.bool)
        mass = quantiles.numpy() * part
    sine = torch.from_numpy(betaincinv(half, 0.5, mass)).sqrt()
    cosine = torch.from_numpy(betainccinv(0.5, half, mass)).sqrt()
    return torch.where(beyond, -cosine, cosine), sine


def _small_cap(quantiles: Tensor, half: float, limit: float) -> Tensor:
    """sin^2 of the angles where the cap's share of the sphere underflows.

    With B(x) = x^h F(x) / h the incomplete beta function of (h, 1/2), solve B(x) = q B(limit) by the iteration
    x = limit (q F(limit) / F(x))^(1/h). It contracts by more than 100 here, since log x is below -400 / h.
    """
    shares = quantiles.numpy()
    full = _correction(np.array(limit), half)
    squared = limit * shares ** (1 / half)
    for _ in range(7):
        squared = limit * (shares * full / _correction(squared, half)) ** (1 / half)
    return torch.from_numpy(squared)
