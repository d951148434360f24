"""Largest Margins, eqs. 2.7 and 3.6, against loops in float64 written from the paper."""

import math

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.geometry import regular_simplex, sample_margins, uniform_sphere
from hypersphere.theory import balanced_error_bound, smooth_margin_bound

K, D, N = 5, 4, 60


def problem(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings, prototypes and labels of every class, more of the first."""
    g = torch.Generator().manual_seed(seed)
    drawn = torch.multinomial(torch.tensor([0.6, 0.2, 0.1, 0.05, 0.05]), N - K, True, generator=g)
    labels = torch.cat([torch.arange(K), drawn])
    return uniform_sphere(N, D, generator=g), uniform_sphere(K, D, generator=g), labels


def lm_losses(z: Tensor, w: Tensor, y: Tensor, s: float) -> Tensor:
    head = hs.create_head("lm_softmax", dim=D, num_classes=len(w), scale=s, reduction="none", engine="dense").double()
    with torch.no_grad():
        head.weight.copy_(w)
        return head(z, y)


@pytest.mark.parametrize("s", [1.0, 20.0, 64.0])
def test_the_left_side_of_3_6_is_the_double_sum_of_the_paper(s: float) -> None:
    z, w, y = problem()
    total = 0.0
    for i in range(N):
        for j in range(K):
            if j != y[i]:
                total += math.exp(s * float(w[j] @ z[i] - w[y[i]] @ z[i]))
    losses = lm_losses(z, w, y, s)
    bound = smooth_margin_bound(losses, s)
    assert float(bound) == pytest.approx(math.log(total) / s, rel=1e-10)
    right = float(losses.mean()) + math.log(N) / s
    assert float(bound) > right
    smallest = float(sample_margins(z, w, y).min())
    assert -smallest <= float(bound) <= -smallest + math.log(N * (K - 1)) / s


def test_3_6_is_an_equality_where_all_losses_are_equal() -> None:
    w = regular_simplex(K, D)
    losses = lm_losses(w, w, torch.arange(K), 10.0)
    assert float(smooth_margin_bound(losses, 10.0)) == pytest.approx(float(losses.mean()) + math.log(K) / 10, rel=1e-12)


def test_a_large_scale_gives_the_smallest_margin_and_its_sample_the_gradient() -> None:
    z, w, y = problem(1)
    losses = lm_losses(z, w, y, 1e5).detach().requires_grad_()
    bound = smooth_margin_bound(losses, 1e5)
    margins = sample_margins(z, w, y)
    assert -float(bound.detach()) == pytest.approx(float(margins.min()), abs=1e-4)
    bound.backward()
    assert losses.grad is not None
    assert int(losses.grad.argmax()) == int(margins.argmin())
    assert float(losses.grad.sum()) == pytest.approx(1.0)


def test_2_7_is_the_loop_of_the_paper() -> None:
    z, w, y = problem(2)
    margins = sample_margins(z, w, y)
    gamma, complexity = torch.linspace(0.05, 0.6, K, dtype=torch.float64), torch.rand(K, dtype=torch.float64)
    slack = torch.rand(K, dtype=torch.float64) / 10
    total = 0.0
    for j in range(K):
        own = [i for i in range(N) if y[i] == j]
        scores = [w @ z[i] for i in own]
        hard = sum(max(float(f[m]) for m in range(K) if m != j) > float(f[j]) - float(gamma[j]) for f in scores)
        total += (hard / len(own) + 4 / float(gamma[j]) * float(complexity[j]) + float(slack[j])) / K
    found = balanced_error_bound(margins, y, complexity, thresholds=gamma, slacks=slack)
    assert found.value == pytest.approx(total, rel=1e-12)
    assert float(found.by_class.mean()) == found.value


def test_by_default_gamma_is_the_smallest_margin_of_each_class() -> None:
    _, w, y = problem(3)
    z = w[y] + 0.05 * torch.randn(N, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    margins, counts = sample_margins(z, w, y), torch.bincount(y)
    found = balanced_error_bound(margins, y, counts**-0.5)
    assert found.margins.tolist() == [float(margins[y == j].min()) for j in range(K)]  # eq. 2.6
    assert not found.margin_losses.any()
    assert found.complexities.tolist() == pytest.approx((4 / found.margins / counts**0.5).tolist())


def test_what_is_wrong_is_said() -> None:
    margins, labels = torch.tensor([0.5, -0.2, 0.3]), torch.tensor([0, 1, 1])
    with pytest.raises(ValueError, match="class 1 has gamma = -0.2: its samples are not separated; give thresholds"):
        balanced_error_bound(margins, labels, torch.ones(2))
    with pytest.raises(ValueError, match="class 0 has gamma = 0: thresholds must be positive"):
        balanced_error_bound(margins, labels, torch.ones(2), thresholds=torch.tensor([0.0, 1.0]))
    with pytest.raises(ValueError, match=r"labels must hold every class of \[0, 3\)"):
        balanced_error_bound(margins, labels, torch.ones(3))
    with pytest.raises(ValueError, match=r"margins \(3,\) and labels \(2,\) must both be"):
        balanced_error_bound(margins, labels[:2], torch.ones(2))
    with pytest.raises(ValueError, match=r"slacks has shape \(3,\); expected one number for each class, \(2,\)"):
        balanced_error_bound(margins.abs(), labels, torch.ones(2), slacks=torch.ones(3))
    with pytest.raises(ValueError, match="scale=0"):
        smooth_margin_bound(margins, 0)
    with pytest.raises(ValueError, match=r"losses has shape \(\); expected one loss for each sample"):
        smooth_margin_bound(torch.tensor(1.0), 1.0)
