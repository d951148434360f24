"""Unit vectors and angles, close to the poles and far out."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersphere.geometry import angle_between, angle_from_cosine, norm, normalize, sine_from_cosine, with_derivative

D = torch.float64


def test_norm_is_normface_equation_3() -> None:
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1e-7, 0.0]], dtype=D)
    expected = [math.sqrt(25 + 1e-12), 1e-6, math.sqrt(1e-14 + 1e-12)]
    assert norm(x)[:, 0].tolist() == pytest.approx(expected, rel=1e-14)
    assert norm(x, 1e-6)[1].item() == pytest.approx(1e-3)
    torch.testing.assert_close(normalize(x) * norm(x), x)


def test_gradient_is_equation_4_and_orthogonal() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 4, dtype=D, requires_grad=True)
    g = torch.randn(5, 4, dtype=D)
    (grad,) = torch.autograd.grad(normalize(x), x, g)
    unit, length = normalize(x).detach(), norm(x).detach()
    torch.testing.assert_close(grad, (g - unit * (unit * g).sum(1, keepdim=True)) / length, rtol=1e-12, atol=1e-14)
    assert (grad * x).sum(1).abs().max().item() < 1e-10
    assert torch.autograd.gradcheck(normalize, (x,))
    assert torch.autograd.gradcheck(norm, (x,))


@pytest.mark.parametrize("size", [1e-30, 1e-10, 1.0, 1e10, 1e25, 1e38])
def test_no_length_overflows_float32(size: float) -> None:
    x = torch.full((1, 8), size, requires_grad=True)
    y = normalize(x)
    y.sum().backward()
    assert bool(y.isfinite().all())
    assert x.grad is not None
    assert bool(x.grad.isfinite().all())
    if size >= 1:
        assert y.norm().item() == pytest.approx(1, rel=1e-5)


def test_zero_maps_to_zero_with_a_finite_gradient() -> None:
    x = torch.zeros(1, 3, requires_grad=True)
    normalize(x)[0, 0].backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[pytest.approx(1e6), 0.0, 0.0]]


def test_with_slope_has_the_value_to_the_last_bit() -> None:
    x = torch.tensor([0.1, 1e8, -3.7], requires_grad=True)
    value, derivative = torch.tensor([1 / 3, 2 / 7, 1e-20]), torch.tensor([5.0, -1e12, 0.0])
    y = with_derivative(x, value, derivative)
    assert torch.equal(y, value)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, derivative)


def test_arccos_and_its_subgradient() -> None:
    c = torch.tensor([-1.1, -1.0, -0.5, 0.0, 0.9, 1.0, 1.0001], dtype=D, requires_grad=True)
    angle = angle_from_cosine(c)
    angle.sum().backward()
    assert angle.tolist() == pytest.approx([math.pi, math.pi, 2 * math.pi / 3, math.pi / 2, math.acos(0.9), 0, 0])
    assert c.grad is not None
    inside = [-1 / math.sqrt(1 - value * value) for value in (-0.5, 0.0, 0.9)]
    assert c.grad.tolist() == pytest.approx([0, 0, *inside, 0, 0])


def test_sine_keeps_its_digits_near_the_pole() -> None:
    for angle in (1e-3, 1e-5, 1e-7):
        cosine = torch.tensor(math.cos(angle), dtype=D)
        exact = math.sqrt(2 * (1 - cosine.item()) - (1 - cosine.item()) ** 2)
        assert sine_from_cosine(cosine).item() == pytest.approx(exact, rel=1e-12)
    assert sine_from_cosine(torch.tensor([1.0, -1.0, 1.1])).tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, D])
@pytest.mark.parametrize("angle", [1e-6, 1e-4, 0.3, 1.0, math.pi / 2, 3.0, math.pi - 1e-4])
def test_angle_between_is_accurate_with_a_gradient_of_norm_one(angle: float, dtype: torch.dtype) -> None:
    x = torch.tensor([1.0, 0.0, 0.0], dtype=dtype)
    y = torch.tensor([math.cos(angle), math.sin(angle), 0.0], dtype=dtype, requires_grad=True)
    measured = angle_between(x, y)
    measured.backward()
    close = 1e-9 if dtype == D else 1e-4
    assert measured.item() == pytest.approx(angle, rel=close, abs=1e-7 if dtype == D else 2e-7)
    assert y.grad is not None
    assert y.grad.norm().item() == pytest.approx(1, rel=1e-3)


def test_angle_between_at_the_poles() -> None:
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]], dtype=D)
    y = torch.tensor([[2.0, 0.0], [-3.0, 0.0], [1.0, 0.0]], dtype=D, requires_grad=True)
    angle = angle_between(x, y)
    angle.sum().backward()
    assert angle[:2].tolist() == pytest.approx([0, math.pi])
    assert y.grad is not None
    assert bool(y.grad.isfinite().all())
    assert y.grad[:2].abs().max().item() < 1e-12


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3), st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3))
def test_angle_between_agrees_with_arccos(a: list[float], b: list[float]) -> None:
    x, y = torch.tensor(a, dtype=D), torch.tensor(b, dtype=D)
    if min(x.norm().item(), y.norm().item()) < 1:  # shorter ones feel the epsilon of the norm near the poles
        return
    cosine = (normalize(x) * normalize(y)).sum()
    assert angle_between(x, y).item() == pytest.approx(angle_from_cosine(cosine).item(), abs=1e-5)
    assert angle_between(x, y).item() == pytest.approx(angle_between(y, 7 * x).item(), abs=1e-6)
