"""Where prototypes start, and how they are kept at a norm."""

from typing import Any

import pytest
import torch
from torch import nn

import hypersphere as hs

C, D = 50, 16
COUNTS: dict[str, Any] = {name: {"class_counts": range(1, C + 1)} for name in ("ldam", "label_aware_smoothing")}
LINEAR = ("softmax", "label_smoothing", "label_aware_smoothing", "focal", "l_softmax")


def make(name: str, seed: int = 0, **options: Any) -> hs.Head:
    torch.manual_seed(seed)
    return hs.create_head(name, dim=D, num_classes=C, **COUNTS.get(name, {}), **options)


@pytest.mark.parametrize("name", [name for name in hs.list_heads() if name not in LINEAR])
def test_losses_of_directions_start_from_insightfaces_normal(name: str) -> None:
    head = make(name)
    torch.manual_seed(0)
    assert torch.equal(head.weight, nn.init.normal_(torch.empty(C, D), std=0.01))


@pytest.mark.parametrize("name", LINEAR)
def test_losses_of_lengths_start_as_a_linear_layer(name: str) -> None:
    head = make(name)
    torch.manual_seed(0)
    linear = nn.Linear(D, C, bias=name != "l_softmax")
    assert torch.equal(head.weight, linear.weight)
    assert name == "l_softmax" or torch.equal(head.objective.get_parameter("bias"), linear.bias)
    assert torch.equal(torch.rand(3), torch.rand(3, generator=after(linear))), "the generators are left alike"


def after(linear: nn.Linear) -> torch.Generator:
    generator = torch.Generator().manual_seed(0)
    nn.init.kaiming_uniform_(torch.empty(C, D), a=5**0.5, generator=generator)
    if linear.bias is not None:
        torch.empty(C).uniform_(-1, 1, generator=generator)
    return generator


def test_features_alone_normalised_start_as_a_linear_layer_too() -> None:
    head = make("normface", normalize="embeddings")
    torch.manual_seed(0)
    assert torch.equal(head.weight, nn.Linear(D, C).weight)
    assert head.objective.scale.item() == 10


def test_softmax_trains_as_a_linear_layer_and_cross_entropy_from_the_first_step() -> None:
    head = make("softmax")
    torch.manual_seed(0)
    linear = nn.Linear(D, C)
    ours, theirs = (torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (head, linear))
    generator = torch.Generator().manual_seed(1)
    for _ in range(5):
        x, y = torch.randn(32, D, generator=generator), torch.randint(C, (32,), generator=generator)
        losses = head(x, y), nn.functional.cross_entropy(linear(x), y)
        assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-6)
        for optimizer, loss in zip((ours, theirs), losses, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.testing.assert_close(head.weight, linear.weight)
    torch.testing.assert_close(head.objective.bias, linear.bias)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("norm", [1.0, 0.3, 20])
def test_a_start_norm_is_that_of_every_row(norm: float, dtype: torch.dtype) -> None:
    head = make("sphereface", prototype_norm=norm, dtype=dtype)
    error = {torch.float64: 1e-14, torch.float32: 1e-6, torch.bfloat16: 4e-3}[dtype]
    assert float((head.weight.detach().double().norm(dim=1) / norm - 1).abs().max()) < error
    torch.manual_seed(0)
    plain = nn.init.normal_(torch.empty(C, D, dtype=dtype))
    assert float(nn.functional.cosine_similarity(head.weight.detach().double(), plain.double()).min()) > 1 - error


def test_started_rows_are_uniform_on_the_sphere() -> None:
    torch.manual_seed(0)
    rows = hs.create_head("normface", dim=3, num_classes=20_000, prototype_norm=1.0).weight.detach()
    assert float(rows.mean(0).norm()) < 0.02
    shares = torch.histc(rows[:, 0], bins=10, min=-1, max=1) / len(rows)  # Archimedes: each coordinate is uniform
    assert float((shares - 0.1).abs().max()) < 0.01


@pytest.mark.parametrize("name", ["sphereface", "sphereface2", "normface", "arcface", "c_triplet", "modified_softmax"])
def test_renormalising_changes_no_loss_and_keeps_the_norm(name: str) -> None:
    head = make(name, prototype_norm=1.0, renormalize=True, dtype=torch.float64).double()
    plain = make(name, prototype_norm=1.0, dtype=torch.float64).double()
    generator = torch.Generator().manual_seed(1)
    x, y = (
        torch.randn(32, D, generator=generator, dtype=torch.float64),
        torch.randint(C, (32,), generator=generator),
    )
    for each in (head, plain):
        torch.optim.SGD(each.parameters(), lr=10.0, weight_decay=0.01).zero_grad()
        each(x, y).backward()
        torch.optim.SGD(each.parameters(), lr=10.0, weight_decay=0.01).step()
    moved = head.weight.detach().clone()
    assert float((moved.norm(dim=1) - 1).abs().max()) > 1e-4
    for each in (head, plain):
        each.advance()
    assert torch.equal(plain.weight, moved)
    torch.testing.assert_close(head.weight, moved / moved.norm(dim=1, keepdim=True), rtol=1e-14, atol=1e-14)
    torch.testing.assert_close(head(x, y), plain(x, y), rtol=1e-10, atol=0.0)
    before = head.weight.detach().clone()
    head.advance()
    assert torch.equal(head.weight, before), "rows that are where they belong keep their bits"


def test_a_prototype_of_no_direction_stays_finite() -> None:
    head = make("arcface", prototype_norm=1.0, renormalize=True)
    with torch.no_grad():
        head.weight[3] = 0
    head.advance()
    assert not bool(head.weight[3].any())
    assert bool(head.weight.isfinite().all())


def test_a_sampled_head_keeps_the_rows_it_did_not_see() -> None:
    head = make("arcface", prototype_norm=1.0, renormalize=True, sample=0.2)
    start = head.weight.detach().clone()
    optimizer = hs.RowSGD(head.parameters(), lr=1.0, momentum=0.9, weight_decay=0.1)
    head(torch.randn(4, D), torch.arange(4)).backward()
    seen = torch.zeros(C, dtype=torch.bool)
    grad = head.weight.grad
    assert grad is not None
    seen[grad.coalesce().indices()[0]] = True
    optimizer.step()
    head.advance()
    assert 4 < int(seen.sum()) < C
    assert torch.equal(head.weight[~seen], start[~seen])
    assert not torch.equal(head.weight[seen], start[seen])
    assert float((head.weight.detach().norm(dim=1) - 1).abs().max()) < 1e-6


def test_a_norm_is_no_part_of_the_state() -> None:
    head, other = make("arcface", prototype_norm=1.0, renormalize=True), make("arcface", seed=1)
    other.load_state_dict(head.state_dict())
    assert torch.equal(other.weight, head.weight)
    assert set(head.state_dict()) == set(other.state_dict())


@pytest.mark.parametrize(("warmup", "shortest", "longest"), [(1, 30.0, 100.0), (500, 1.0, 6.0)])
def test_a_stiff_regulariser_throws_short_prototypes_out_unless_the_rate_warms_up(
    warmup: int, shortest: float, longest: float
) -> None:
    """R_w with lambda = 5 at SGD's rate of 0.1, from torch's start: docs/results/cifar.md."""
    torch.manual_seed(0)
    added = {"zero_centroid": {"weight": 5.0}}
    head = hs.create_head(
        "cosface", dim=256, num_classes=10, scale=5.0, margin=0.35, prototype_norm=0.577, add=added, engine="dense"
    )
    optimizer = torch.optim.SGD([head.weight], lr=0.1, momentum=0.9, weight_decay=2e-4)
    embeddings, labels = torch.randn(128, 256), torch.randint(10, (128,))
    for step in range(60):
        optimizer.param_groups[0]["lr"] = 0.1 * min(1.0, (step + 1) / warmup)
        optimizer.zero_grad()
        head(embeddings, labels).backward()
        optimizer.step()
    assert shortest < float(head.weight.detach().norm(dim=1).mean()) < longest
