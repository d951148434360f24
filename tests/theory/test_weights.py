"""The total wrong-class weight: exact against mpmath, quadrature and vectors on the sphere."""

import math

import mpmath
import pytest
import torch
from scipy import integrate

from hypersphere.geometry import log_angle_density, uniform_sphere
from hypersphere.theory import (
    error_bound,
    log_mean_weight,
    log_negative_weight,
    log_negative_weight_approximation,
    relative_deviation,
    sample_negative_weights,
)


@pytest.mark.parametrize("dim", [2, 3, 64, 512, 4096])
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0, 64.0, 1000.0])
def test_the_mean_weight_against_the_bessel_function(dim: int, scale: float) -> None:
    with mpmath.workdps(50):
        order, s = mpmath.mpf(dim) / 2 - 1, mpmath.mpf(scale)
        exact = mpmath.log(mpmath.gamma(order + 1) * (2 / s) ** order * mpmath.besseli(order, s))
    assert log_mean_weight(dim, scale) == pytest.approx(float(exact), rel=1e-10)


def test_the_mean_weight_is_the_integral_over_angles() -> None:
    for dim, scale in ((3, 5.0), (512, 64.0)):
        value, _ = integrate.quad(
            lambda t, d=dim, s=scale: math.exp(s * math.cos(t) + log_angle_density(t, d)),
            0,
            math.pi,
            points=[1.2, 1.4, 1.6],
        )
        assert log_mean_weight(dim, scale) == pytest.approx(math.log(value), rel=1e-9)


def test_the_papers_numbers() -> None:
    assert math.exp(log_negative_weight_approximation(85_742, 512, 64)) == pytest.approx(4.681e6, rel=2e-4)
    assert math.exp(log_negative_weight(85_742, 512, 64)) == pytest.approx(4.541e6, rel=2e-4)
    assert math.exp(64**2 / 512) / 85_742 == pytest.approx(0.0348, abs=5e-5)  # the printed error
    within = abs(4.4562e6 / math.exp(log_negative_weight(85_742, 512, 64)) - 1)
    assert within < relative_deviation(85_742, 512, 64)


@pytest.mark.parametrize("dim", [2, 64, 4096])
@pytest.mark.parametrize("scale", [1.0, 64.0, 500.0])
def test_the_approximation_is_above(dim: int, scale: float) -> None:
    assert log_negative_weight_approximation(10**9, dim, scale) > log_negative_weight(10**9, dim, scale)


def test_sampling_agrees_with_the_mean_and_the_deviation() -> None:
    sampled = sample_negative_weights(500, 16, 8.0, draws=400, seed=3)
    exact, relative = math.exp(log_negative_weight(500, 16, 8.0)), relative_deviation(500, 16, 8.0)
    assert sampled.mean == pytest.approx(exact, abs=4 * sampled.standard_error)
    assert sampled.standard_error * 20 / exact == pytest.approx(relative, rel=0.25)
    assert error_bound(500, 16, 8.0, 0.5) == pytest.approx((relative / 0.5) ** 2)
    far = float(((sampled.logs.exp() / exact - 1).abs() > 0.5).double().mean())
    assert far <= error_bound(500, 16, 8.0, 0.5)


def test_cosines_have_the_law_of_vectors_on_the_sphere() -> None:
    s, dim, others = 6.0, 5, 200
    points = uniform_sphere(others * 300, dim, generator=torch.Generator().manual_seed(0))
    sums = (s * points[:, 0]).exp().view(300, others).sum(1)
    sampled = sample_negative_weights(others + 1, dim, s, draws=300)
    spread = math.hypot(sampled.standard_error, float(sums.std()) / math.sqrt(300))
    assert sampled.mean == pytest.approx(float(sums.mean()), abs=4 * spread)


def test_bad_arguments() -> None:
    for call, message in (
        (lambda: log_negative_weight(1, 3, 1.0), "num_classes=1"),
        (lambda: log_mean_weight(1, 1.0), "dim=1"),
        (lambda: log_mean_weight(2, 16_777_217.0), "must be at most 100000"),
        (lambda: log_mean_weight(3, 0.0), "scale=0"),
        (lambda: error_bound(10, 3, 1.0, 0.0), "error=0"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
