"""NormFace's propositions, and the bound against its own formula and a free minimisation."""

import math

import numpy as np
import pytest
import torch

from hypersphere.geometry import regular_simplex, uniform_sphere
from hypersphere.theory import (
    best_probability,
    check_agents,
    check_scaling,
    least_loss,
    minimise,
    scale_for_bound,
    softmax_bound,
)


@pytest.mark.parametrize("n", [2, 10, 1000])
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_the_bound_is_the_loss_of_the_simplex(n: int, scale: float) -> None:
    w = regular_simplex(n, n)
    loss = torch.nn.functional.cross_entropy(scale * w @ w.T, torch.arange(n))
    assert float(softmax_bound(n, scale)) == pytest.approx(float(loss), rel=1e-9)


def test_the_papers_numbers() -> None:
    assert float(softmax_bound(10_575, 1.0)) == pytest.approx(8.27, abs=0.005)
    assert best_probability(10, 1.0) == pytest.approx(0.45, abs=0.005)
    assert best_probability(1000, 1.0) == pytest.approx(0.007, abs=0.0005)


def test_the_bound_at_extremes() -> None:
    values = softmax_bound(10**9, np.array([0.0, 1.0, 100.0, 1e4]))
    assert values[0] == pytest.approx(math.log(10**9))
    assert np.isfinite(values).all()
    assert (np.diff(values) <= 0).all()


@pytest.mark.parametrize("n", [2, 100, 10**6])
@pytest.mark.parametrize("loss", [1e-6, 0.1, 0.5])
def test_the_scale_for_a_bound_is_its_inverse(n: int, loss: float) -> None:
    assert float(softmax_bound(n, scale_for_bound(n, loss))) == pytest.approx(loss, rel=1e-9)
    assert scale_for_bound(n, 2 * math.log(n)) == 0


def test_scaling_helps_without_a_bias_only() -> None:
    plain, biased = check_scaling(500)
    assert plain >= 0
    assert biased < -0.1


@pytest.mark.parametrize(("n", "d"), [(3, 2), (5, 8)])
def test_the_bound_is_reached_where_a_simplex_fits(n: int, d: int) -> None:
    assert least_loss(n, d, 3.0) == pytest.approx(float(softmax_bound(n, 3.0)), rel=1e-9)


def test_the_bound_is_not_reached_where_it_does_not() -> None:
    assert least_loss(8, 3, 5.0) > float(softmax_bound(8, 5.0)) + 0.01


def test_agents_distort_less_than_the_bound() -> None:
    worst, bound = check_agents(200)
    assert 0 < worst <= 1
    assert bound > 0


def test_minimise_finds_a_minimum() -> None:
    start = uniform_sphere(1, 4, generator=torch.Generator().manual_seed(0))
    point, value = minimise(lambda x: (x - 2).square().sum() + 1, start)
    assert value == pytest.approx(1.0)
    torch.testing.assert_close(point, torch.full((1, 4), 2.0, dtype=torch.float64))
