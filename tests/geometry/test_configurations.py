"""Configurations of points: exact ones, random ones, and the best packings."""

import math

import pytest
import torch
from scipy import special, stats
from torch import Tensor

from hypersphere.geometry import (
    angle_between,
    class_margin,
    regular_simplex,
    riesz_energy,
    tammes,
    uniform_cap,
    uniform_sphere,
)
from hypersphere.geometry.configurations import _small_cap

D = torch.float64


def degrees(points: Tensor) -> float:
    return math.degrees(class_margin(points).item())


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("count", "dim"), [(2, 1), (2, 5), (3, 2), (4, 3), (10, 9), (10, 64), (101, 100)])
def test_simplex(count: int, dim: int) -> None:
    points = regular_simplex(count, dim)
    gram = points @ points.T
    expected = torch.full((count, count), -1 / (count - 1), dtype=D).fill_diagonal_(1)
    torch.testing.assert_close(gram, expected, rtol=0, atol=1e-14)
    assert points.sum(0).abs().max().item() < 1e-13
    assert regular_simplex(count, dim, dtype=torch.float32).dtype == torch.float32


OPTIMA_3D = {
    4: 109.4712,
    5: 90.0,
    6: 90.0,
    7: 77.8695,
    8: 74.8585,
    9: 70.5288,
    10: 66.1468,
    11: 63.4349,
    12: 63.4349,
    13: 57.1367,
    14: 55.6706,
    24: 43.6908,
}


@pytest.mark.parametrize(
    "count", [pytest.param(k, marks=pytest.mark.slow if k in (11, 12, 14) else ()) for k in OPTIMA_3D]
)
def test_tammes_reaches_the_known_optima_in_three_dimensions(count: int) -> None:
    points = tammes(count, 3)
    assert points.norm(dim=1).tolist() == pytest.approx([1] * count, abs=1e-12)
    assert degrees(points) == pytest.approx(OPTIMA_3D[count], abs=0.01)


@pytest.mark.parametrize(
    ("count", "dim", "optimum"), [(7, 2, 360 / 7), (5, 4, math.degrees(math.acos(-1 / 4))), (8, 4, 90.0), (10, 6, 90.0)]
)
def test_tammes_closed_forms(count: int, dim: int, optimum: float) -> None:
    assert degrees(tammes(count, dim)) == pytest.approx(optimum, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "dim", "optimum"), [(24, 4, 60.0), (10, 4, 80.406)])
def test_tammes_in_four_dimensions(count: int, dim: int, optimum: float) -> None:
    assert degrees(tammes(count, dim)) == pytest.approx(optimum, abs=0.01)


def test_tammes_is_deterministic() -> None:
    assert torch.equal(tammes(9, 3, seed=3, restarts=1), tammes(9, 3, seed=3, restarts=1))


def test_uniform_sphere() -> None:
    points = uniform_sphere(20_000, 5, generator=generator())
    assert points.norm(dim=1).tolist() == pytest.approx([1] * 20_000)
    assert points.mean(0).abs().max().item() < 4 / math.sqrt(5 * 20_000)
    covariance = points.T @ points / 20_000
    torch.testing.assert_close(covariance, torch.eye(5, dtype=D) / 5, rtol=0, atol=0.01)


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


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 7.5])
def test_riesz_energy_against_a_loop(exponent: float) -> None:
    points = uniform_sphere(6, 3, generator=generator(4)).requires_grad_()
    rows = [points[i] for i in range(6)]
    lengths = [(rows[i] - rows[j]).norm() for i in range(6) for j in range(6) if i != j]
    expected = sum(-d.log() if exponent == 0 else d**-exponent for d in lengths)
    torch.testing.assert_close(riesz_energy(points, exponent), expected)
    ours, theirs = (torch.autograd.grad(value, points)[0] for value in (riesz_energy(points, exponent), expected))
    torch.testing.assert_close(ours, theirs)


def test_the_simplex_has_the_least_energy() -> None:
    best = riesz_energy(regular_simplex(4, 3), 2).item()
    for seed in range(20):
        assert riesz_energy(uniform_sphere(4, 3, generator=generator(seed)), 2).item() > best


def test_bad_configurations() -> None:
    for call, message in (
        (lambda: regular_simplex(5, 3), "num_points=5 is too many for a simplex in dim=3: at most 4"),
        (lambda: regular_simplex(1, 3), "num_points=1"),
        (lambda: tammes(1, 3), "num_points=1"),
        (lambda: tammes(3, 0), "dim=0"),
        (lambda: uniform_sphere(-1, 3), "n=-1"),
        (lambda: riesz_energy(torch.ones(1, 3), 1), r"points has shape \(1, 3\)"),
        (lambda: riesz_energy(torch.eye(3), -1), "exponent=-1"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "dim", "optimum"),
    [(16, 5, math.acos(1 / 5)), (27, 6, math.acos(1 / 4)), (72, 6, math.pi / 3), (120, 4, math.pi / 5)],
)
def test_tammes_finds_the_symmetric_optima(count: int, dim: int, optimum: float) -> None:
    assert degrees(tammes(count, dim)) == pytest.approx(math.degrees(optimum), abs=0.001)


def test_tammes_too_large_to_polish_still_spreads_the_points() -> None:
    points = tammes(130, 5, restarts=1)
    assert torch.equal(points, tammes(130, 5, restarts=1))
    assert points.norm(dim=1).tolist() == pytest.approx([1] * 130, abs=1e-12)
    assert degrees(points) > 41
    assert degrees(uniform_sphere(130, 5, generator=generator())) < 20


def test_tammes_needs_a_plane_and_a_start() -> None:
    with pytest.raises(ValueError, match="num_points=3 cannot be told apart in dim=1"):
        tammes(3, 1)
    with pytest.raises(ValueError, match="restarts=0 must be an integer of at least 1"):
        tammes(9, 3, restarts=0)
    with pytest.raises(ValueError, match=r"num_points=7\.5 must be an integer"):
        tammes(7.5, 3)


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


def test_coincident_points_have_infinite_energy() -> None:
    for exponent in (0, 1, 2):
        assert riesz_energy(torch.ones(2, 3), exponent).item() == math.inf
