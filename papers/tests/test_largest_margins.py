"""The theorems of Learning Towards the Largest Margins: bounds reached, and never undercut."""

import math
from typing import Any

import pytest
import torch

import hypersphere as hs
from hypersphere.geometry import regular_simplex, riesz_energy, tammes, uniform_sphere
from hypersphere_papers.largest_margins.mathematics import (
    best_of,
    collapsed_softmax,
    descend_sample_margin,
    gm_bound,
    largest_sample_margin,
    least_energy,
    least_risk,
    simplex_energy,
    simplex_margin_degrees,
)

GM: dict[str, Any] = {"scale": 4.0, "alpha1": 1.0, "beta1": 0.2, "alpha2": 0.4, "beta2": 0.0}
LABELS = torch.arange(4).repeat_interleave(2)


@pytest.mark.parametrize(("count", "dim"), [(2, 2), (3, 2), (5, 7)])
@pytest.mark.parametrize("exponent", [0.0, 2.0])
def test_lemma_2_1(count: int, dim: int, exponent: float) -> None:
    found = least_energy(count, dim, exponent)
    assert found.value == pytest.approx(simplex_energy(count, exponent), rel=1e-9)
    gram = found.prototypes @ found.prototypes.T
    off = gram[~torch.eye(count, dtype=torch.bool)]
    assert off.tolist() == pytest.approx([-1 / (count - 1)] * len(off), abs=1e-4)
    for seed in range(5):
        random = uniform_sphere(count, dim, generator=torch.Generator().manual_seed(seed))
        assert float(riesz_energy(random, exponent)) >= found.value - 1e-9


def test_proposition_2_3() -> None:
    found = best_of(lambda seed: largest_sample_margin(torch.arange(4), 3, seed=seed), 2)
    assert found.sample_margin == pytest.approx(4 / 3, abs=1e-4)
    assert found.class_margin_degrees == pytest.approx(simplex_margin_degrees(4), abs=0.01)
    assert found.value == -found.sample_margin


def test_theorem_2_2_beyond_the_simplex() -> None:
    found = best_of(lambda seed: largest_sample_margin(torch.arange(6), 3, seed=seed), 2)
    assert found.class_margin_degrees == pytest.approx(90.0, abs=0.05)


def test_theorem_3_1() -> None:
    losses = []
    for length in (1.0, 5.0, 30.0):
        loss, degrees = collapsed_softmax(5, 6, math.radians(8), length)
        assert degrees == pytest.approx(8.0, abs=1e-6)
        losses.append(loss)
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 1e-3
    with pytest.raises(ValueError, match="num_classes=7 must be at most dim=6"):
        collapsed_softmax(7, 6, 0.1, 1.0)


def test_theorem_3_2() -> None:
    found = best_of(lambda seed: least_risk("gm_softmax", LABELS, 3, options=GM, seed=seed), 3)
    assert found.value == pytest.approx(gm_bound(4, **GM), abs=1e-9)
    assert found.class_margin_degrees == pytest.approx(simplex_margin_degrees(4), abs=0.01)
    assert found.sample_margin == pytest.approx(4 / 3, abs=1e-4)


def test_the_bound_is_the_risk_of_the_simplex() -> None:
    for scale in (0.5, 4.0, 200.0):
        options: dict[str, Any] = {**GM, "scale": scale}
        simplex = regular_simplex(5, 5)
        head = hs.create_head("gm_softmax", dim=5, num_classes=5, **options).double()
        with torch.no_grad():
            head.weight.copy_(simplex)
        assert float(head(simplex, torch.arange(5)).detach()) == pytest.approx(gm_bound(5, **options), rel=1e-9)


@pytest.mark.parametrize(
    ("loss", "options"),
    [
        ("normface", {"scale": 5.0, "learnable_scale": False}),
        ("cosface", {"scale": 5.0, "margin": 0.2}),
        ("sphereface", {"scale": 5.0, "margin": 2, "anneal": None}),
        ("lm_softmax", {"scale": 5.0}),
    ],
)
def test_proposition_3_3(loss: str, options: dict[str, Any]) -> None:
    found = best_of(lambda seed: least_risk(loss, LABELS, 3, options=options, seed=seed), 2)
    assert found.class_margin_degrees == pytest.approx(simplex_margin_degrees(4), abs=0.05)
    assert found.sample_margin == pytest.approx(4 / 3, abs=1e-3)


def test_theorem_3_4() -> None:
    found = best_of(lambda seed: descend_sample_margin(LABELS, 3, steps=400, seed=seed), 2)
    assert -4 / 3 - 1e-9 <= found.value == pytest.approx(-4 / 3, abs=1e-3)
    assert found.class_margin_degrees == pytest.approx(simplex_margin_degrees(4), abs=0.5)


def test_theorem_3_5() -> None:
    uneven = torch.tensor([0] * 10 + [1] * 3 + [2])
    free = least_risk("gm_softmax", uneven, 3, options=GM)
    centred = best_of(lambda seed: least_risk("gm_softmax", uneven, 3, options=GM, centroid=100.0, seed=seed), 2)
    assert centred.prototypes.sum(0).norm() < 1e-2
    assert centred.value == pytest.approx(gm_bound(3, **GM), abs=1e-3)
    assert centred.class_margin_degrees == pytest.approx(120.0, abs=0.3)
    assert free.class_margin_degrees < 118


def test_lm_softmax_reaches_the_tammes_margin_of_the_toy_problem() -> None:
    found = best_of(lambda seed: least_risk("lm_softmax", torch.arange(8), 3, options={"scale": 30.0}, seed=seed), 3)
    assert 74 < found.class_margin_degrees < 74.8585
    assert math.degrees(float(hs.geometry.class_margin(tammes(8, 3, restarts=6)))) == pytest.approx(74.8585, abs=1e-3)
