"""Caps: area, angles, uniform points, against mpmath, closed forms and the exact law."""

import math

import mpmath
import pytest
import torch
from scipy import integrate, special, stats

from hypersphere.geometry import (
    angle_between,
    cap_angle,
    cap_angle_statistics,
    log_angle_density,
    log_cap_area,
    uniform_cap,
)
from hypersphere.geometry.caps import _small_cap

D = torch.float64


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def exact_log_area(angle: float, dim: int) -> float:
    """The paper's formula with 60 digits."""
    with mpmath.workdps(60):
        theta = mpmath.mpf(angle)
        small = theta if theta <= mpmath.pi / 2 else mpmath.pi - theta
        a = mpmath.mpf(dim - 1) / 2
        share = mpmath.betainc(a, mpmath.mpf(1) / 2, 0, mpmath.sin(small) ** 2, regularized=True) / 2
        return float(mpmath.log(share) if small is theta else mpmath.log1p(-share))


@pytest.mark.parametrize("dim", [2, 3, 8, 128, 512, 4096])
@pytest.mark.parametrize("angle", [1e-6, 0.01, 0.3, 0.9, 1.2, 1.5, 1.5707963, 1.5708, 2.0, 3.0])
def test_log_cap_area_against_many_digits(dim: int, angle: float) -> None:
    wanted = exact_log_area(angle, dim)
    assert float(log_cap_area(angle, dim)) == pytest.approx(wanted, rel=1e-11, abs=1e-300)


def test_a_cap_far_below_the_smallest_float() -> None:
    assert float(log_cap_area(0.1, 512)) == pytest.approx(exact_log_area(0.1, 512), rel=1e-12)
    assert float(log_cap_area(0.1, 512)) < math.log(1e-300)
    assert float(log_cap_area(1e-200, 3)) == pytest.approx(2 * math.log(1e-200) - math.log(4), rel=1e-12)
    assert float(log_cap_area(0.01, 100_000)) == pytest.approx(99_999 * math.log(math.sin(0.01)), rel=1e-4)


@pytest.mark.parametrize("angle", [0.0, 0.2, 1.0, math.pi / 2, 2.5, math.pi])
def test_areas_in_the_plane_and_in_space(angle: float) -> None:
    assert math.exp(log_cap_area(angle, 2)) == pytest.approx(angle / math.pi, abs=1e-15)
    assert math.exp(log_cap_area(angle, 3)) == pytest.approx((1 - math.cos(angle)) / 2, abs=1e-15)


@pytest.mark.parametrize("dim", [2, 3, 8, 512])
def test_the_density_is_the_areas_slope(dim: int) -> None:
    for low, high in ((0.0, 0.4), (0.4, 1.5), (1.5, 3.1)):
        part, _ = integrate.quad(lambda t: math.exp(log_angle_density(t, dim)), low, high, epsabs=1e-13)
        difference = math.exp(log_cap_area(high, dim)) - math.exp(log_cap_area(low, dim))
        assert part == pytest.approx(difference, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("dim", [2, 3, 512, 4096])
@pytest.mark.parametrize("log_area", [-5000.0, -700.0, -20.0, -0.7, math.log(0.5), -0.1, -1e-12])
def test_cap_angle_is_the_inverse(dim: int, log_area: float) -> None:
    if (dim - 1) * -740 > log_area:
        assert cap_angle(log_area, dim) == 0  # shorter than the smallest float
        return
    assert float(log_cap_area(cap_angle(log_area, dim), dim)) == pytest.approx(log_area, rel=1e-9, abs=1e-15)


def test_cap_angle_edges() -> None:
    assert cap_angle(0.0, 5) == math.pi
    with pytest.raises(ValueError, match="log_area=1"):
        cap_angle(1.0, 5)
    with pytest.raises(ValueError, match="angle must be in radians, from 0 to pi"):
        log_cap_area([0.1, 4.0], 3)
    with pytest.raises(ValueError, match="dim=1"):
        log_cap_area(0.1, 1)
    assert log_cap_area(0.0, 3) == -math.inf
    assert log_cap_area([[0.1, 0.2]], 3).shape == (1, 2)


def test_statistics_in_space_have_a_closed_form() -> None:
    for t in (0.05, 0.5, 1.1, 2.0, math.pi):
        mean = (math.sin(t) - t * math.cos(t)) / (1 - math.cos(t))
        square = (2 * t * math.sin(t) - (t * t - 2) * math.cos(t) - 2) / (1 - math.cos(t))
        ours = cap_angle_statistics(t, 3)
        assert ours[0] == pytest.approx(mean, rel=1e-8)
        assert ours[1] == pytest.approx(math.sqrt(square - mean**2), rel=1e-5)


@pytest.mark.parametrize(("angle", "dim"), [(0.3, 8), (1.4, 8), (0.3, 512), (1.4, 512), (1.2, 4096)])
def test_statistics_against_quadrature_of_the_density(angle: float, dim: int) -> None:
    def moment(power: int) -> float:
        top = float(log_angle_density(angle, dim))
        weight = lambda t: math.exp(log_angle_density(t, dim) - top) if t else 0.0  # noqa: E731
        points = [angle * (1 - 2.0**-k) for k in range(1, 14)]
        return integrate.quad(lambda t: t**power * weight(t), 0, angle, points=points, limit=400, epsabs=0)[0]

    mean, square = moment(1) / moment(0), moment(2) / moment(0)
    ours = cap_angle_statistics(angle, dim)
    assert ours[0] == pytest.approx(mean, rel=1e-8)
    assert ours[1] == pytest.approx(math.sqrt(square - mean**2), rel=1e-4)


def test_sampled_caps_have_these_statistics() -> None:
    for dim in (8, 512):
        axis = torch.zeros(dim, dtype=D).index_fill_(0, torch.tensor([0]), 1.0)
        angles = angle_between(uniform_cap(4000, axis, 0.8, generator=generator(dim)), axis)
        mean, deviation = cap_angle_statistics(0.8, dim)
        assert angles.mean().item() == pytest.approx(mean, abs=5 * deviation / math.sqrt(4000))
        assert angles.std().item() == pytest.approx(deviation, rel=0.1)


@pytest.mark.parametrize("dim", [2, 3, 8, 512])
@pytest.mark.parametrize("angle", [0.05, 0.7, 1.5, 2.5])
def test_cap_angles_follow_the_exact_law(dim: int, angle: float) -> None:
    axis = torch.randn(dim, generator=generator(1), dtype=D)
    points = uniform_cap(3000, axis, angle, generator=generator(2))
    assert points.norm(dim=1).tolist() == pytest.approx([1] * 3000, abs=1e-12)
    angles = torch.arccos((points @ axis / axis.norm()).clamp(-1, 1)).numpy()
    assert angles.max() <= angle + 1e-7

    def share(theta: float) -> float:
        half = special.betainc((dim - 1) / 2, 0.5, math.sin(theta) ** 2) / 2
        return float(half if theta <= math.pi / 2 else 1 - half)

    if share(angle) > 1e-250:
        law = [share(float(theta)) / share(angle) for theta in angles]
    else:
        law = [math.exp((dim - 1) * math.log(math.sin(theta) / math.sin(angle))) for theta in angles]
    assert stats.kstest(law, "uniform").pvalue > 1e-3


def test_cap_is_symmetric_about_its_axis() -> None:
    axis = torch.tensor([0.0, -2.0, 0.0], dtype=D)
    points = uniform_cap(20_000, axis, 0.8, generator=generator(3))
    around = points - (points @ axis)[:, None] * axis / 4
    assert around.mean(0).abs().max().item() < 0.02
    assert bool((points @ axis > 0).all())


def test_cap_edges() -> None:
    axis = torch.tensor([1.0, 0.0, 0.0])
    assert uniform_cap(0, axis, 1.0).shape == (0, 3)
    torch.testing.assert_close(uniform_cap(3, axis, 0.0), axis.expand(3, 3))
    assert uniform_cap(3, axis, math.pi).dtype == torch.float32
    for wrong, message in ((-0.1, "angle=-0.1"), (4.0, "angle=4")):
        with pytest.raises(ValueError, match=message):
            uniform_cap(3, axis, wrong)
    with pytest.raises(ValueError, match="axis"):
        uniform_cap(3, torch.zeros(3), 1.0)


@pytest.mark.parametrize("half", [1.0, 3.5, 255.5, 5e4])
@pytest.mark.parametrize("share", [1e-190, 1e-250])
def test_small_caps_agree_with_the_beta_function_where_both_hold(half: float, share: float) -> None:
    limit = float(special.betaincinv(half, 0.5, share))
    quantiles = torch.linspace(0.001, 1, 50, dtype=D)
    expected = special.betaincinv(half, 0.5, quantiles.numpy() * special.betainc(half, 0.5, limit))
    torch.testing.assert_close(_small_cap(quantiles, half, limit), torch.from_numpy(expected), rtol=1e-12, atol=0)


@pytest.mark.parametrize("angle", [1e-12, 1e-3, 0.05, 0.3])
def test_tiny_caps_in_many_dimensions_are_neither_empty_nor_a_point(angle: float) -> None:
    axis = torch.randn(512, generator=generator(5), dtype=D)
    angles = angle_between(uniform_cap(500, axis, angle, generator=generator(6)), axis, eps=0.0)
    assert angles.max().item() <= angle * (1 + 1e-9) + 1e-15
    assert angles.mean().item() == pytest.approx(angle * (1 - 1 / 512), rel=1e-3)


def test_cap_mean_angle_in_three_dimensions() -> None:
    limit = 1.1
    expected = (math.sin(limit) - limit * math.cos(limit)) / (1 - math.cos(limit))
    axis = torch.tensor([0.3, -0.2, 0.9], dtype=D)
    angles = angle_between(uniform_cap(40_000, axis, limit, generator=generator(7)), axis)
    assert angles.mean().item() == pytest.approx(expected, abs=5 * angles.std().item() / 200)
