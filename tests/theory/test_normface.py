"""NormFace's bound of the softmax loss against its own formula, and its inverse."""

import math

import numpy as np
import pytest
import torch

from hypersphere.geometry import regular_simplex
from hypersphere.theory import scale_for_bound, softmax_bound


@pytest.mark.parametrize("n", [2, 10, 1000])
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_the_bound_is_the_loss_of_the_simplex(n: int, scale: float) -> None:
    w = regular_simplex(n, n)
    loss = torch.nn.functional.cross_entropy(scale * w @ w.T, torch.arange(n))
    assert float(softmax_bound(n, scale)) == pytest.approx(float(loss), rel=1e-9)


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
