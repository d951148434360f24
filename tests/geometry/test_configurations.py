"""Configurations of points: exact ones, random ones, and the best packings."""

import math

import pytest
import torch
from torch import Tensor

from hypersphere.geometry import (
    class_margin,
    regular_simplex,
    riesz_energy,
    tammes,
    uniform_sphere,
)

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
        tammes(7.5, 3)  # type: ignore[arg-type]


def test_coincident_points_have_infinite_energy() -> None:
    for exponent in (0, 1, 2):
        assert riesz_energy(torch.ones(2, 3), exponent).item() == math.inf
