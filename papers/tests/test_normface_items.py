"""NormFace's propositions, and the bound against its own formula and a free minimisation."""

import pytest
import torch

from hypersphere.geometry import uniform_sphere
from hypersphere.theory import softmax_bound
from hypersphere_papers.engine.minimise import minimise
from hypersphere_papers.normface.mathematics import best_probability, check_agents, check_scaling, least_loss


def test_the_papers_numbers() -> None:
    assert float(softmax_bound(10_575, 1.0)) == pytest.approx(8.27, abs=0.005)
    assert best_probability(10, 1.0) == pytest.approx(0.45, abs=0.005)
    assert best_probability(1000, 1.0) == pytest.approx(0.007, abs=0.0005)


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
