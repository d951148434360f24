"""SphereFace2: curves, planes, bias and Table 13 against the real loss and autograd."""

import math

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere_papers.sphereface2.mathematics import (
    adjusted,
    adjusted_inverse,
    bias_slope,
    decision_planes,
    gradient_table,
    positive_loss,
    softmax_example,
    start_bias,
)


@pytest.mark.parametrize("scale", [1.0, 10.0, 64.0])
def test_fig_3(scale: float) -> None:
    for cosine in (-1.0, 0.1, 0.9):
        logits = torch.tensor([scale * cosine] + [0.2 * scale] * 3, dtype=torch.float64)
        wanted = float(torch.nn.functional.cross_entropy(logits[None], torch.tensor([0])))
        assert float(softmax_example(cosine, scale)) == pytest.approx(wanted, rel=1e-9)
        binary = math.log(1 + math.exp(-scale * cosine)) / scale
        assert float(positive_loss(cosine, scale)) == pytest.approx(binary, rel=1e-9, abs=1e-12)


def test_a_larger_scale_leaves_the_hard_samples() -> None:
    easy, hard = (positive_loss(0.8, r) / positive_loss(-0.8, r) for r in (1.0, 30.0))
    assert hard < 1e-9 < easy


@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
def test_fig_6(power: float) -> None:
    cosines = np.linspace(-1, 1, 21)
    np.testing.assert_allclose(adjusted_inverse(adjusted(cosines, power), power), cosines, atol=1e-7)
    assert adjusted([-1.0, 1.0], power).tolist() == [-1, 1]
    assert (np.diff(adjusted(cosines, power)) > 0).all()
    assert math.isnan(float(adjusted_inverse(1.2, power)))


@pytest.mark.parametrize("power", [1.0, 3.0])
def test_the_planes_are_where_the_logits_vanish(power: float) -> None:
    planes = decision_planes(scale=30.0, margin=0.2, bias=3.0, power=power)
    logits = {name: 30 * float(adjusted(cosine, power)) + 3 for name, cosine in planes.items()}
    assert logits == pytest.approx({"positive": 6.0, "baseline": 0.0, "negative": -6.0}, abs=1e-9)
    assert math.isnan(decision_planes(scale=1.0, margin=0.2, bias=3.0)["baseline"])


@pytest.mark.parametrize("num_classes", [2, 6, 8631, 10**6])
@pytest.mark.parametrize("balance", [0.3, 0.7, 0.99])
@pytest.mark.parametrize("power", [1.0, 3.0])
def test_the_bias_starts_where_its_gradient_vanishes(num_classes: int, balance: float, power: float) -> None:
    options = {"balance": balance, "scale": 30.0, "margin": 0.3, "power": power}
    bias = start_bias(num_classes, **options)
    assert bias_slope(bias, num_classes, **options) == pytest.approx(0.0, abs=1e-9)
    assert bias_slope(bias + 0.1, num_classes, **options) > 0 > bias_slope(bias - 0.1, num_classes, **options)


def test_the_head_starts_there_too() -> None:
    head = hs.create_head("sphereface2", dim=8, num_classes=50, balance=0.7, scale=40, margin=0.4, power=3)
    wanted = start_bias(50, balance=0.7, scale=40, margin=0.4, power=3)
    found = [float(p.detach()) for name, p in head.named_parameters() if name.endswith("bias")]
    assert found == pytest.approx([wanted], rel=1e-6)


def test_table_13() -> None:
    for name, (true, printed, right) in gradient_table().items():
        torch.testing.assert_close(true, right)
        assert torch.allclose(true, printed) == name.endswith("i != y")
