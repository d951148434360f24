"""Gradients of unit prototypes, and the step that takes them through the normalisation, train as ordinary ones do."""

from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.geometry import normalize
from hypersphere.heads import Head

N, C, D = 12, 40, 8
SGD: dict[str, Any] = {"momentum": 0.9, "weight_decay": 0.01}
LOSSES = (
    "cosface",
    "arcface",
    "normface",
    "sphereface2",
    "c_contrastive",
    "lm_softmax",
    "curricularface",
    "sample_margin",
)


def batches(dtype: torch.dtype) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(5)
    return [
        (torch.randn(N, D, generator=generator).to(dtype), torch.randint(-1, C, (N,), generator=generator))
        for _ in range(4)
    ]


def train(head: Head, optimizer: torch.optim.Optimizer, dtype: torch.dtype) -> Tensor:
    with torch.no_grad():
        start = torch.randn(C, D, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
        head.weight.copy_(3 * start)
    for x, labels in batches(dtype):
        optimizer.zero_grad()
        head(x, labels).backward()
        optimizer.step()
    return head.weight.detach()


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        *((name, engine) for name in LOSSES for engine in ("dense", "chunked")),
        ("arcface", "triton"),
        ("sphereface2", "triton"),
        *(
            pytest.param(name, "triton", marks=pytest.mark.slow)
            for name in LOSSES
            if name not in ("arcface", "sphereface2")
        ),
    ],
)
def test_training_is_the_same(name: str, engine: str) -> None:
    if engine == "triton":
        pytest.importorskip("triton")
    dtype = torch.float32 if engine == "triton" else torch.float64
    options: dict[str, Any] = {"dim": D, "num_classes": C, "engine": engine, "chunk_size": 7, "dtype": dtype}
    plain, unit = hs.create_head(name, **options), hs.create_head(name, unit_gradients=True, **options)
    expected = train(plain, torch.optim.SGD(plain.parameters(), 0.1, **SGD), dtype)
    groups = [{"params": [unit.weight], "unit_eps": unit.eps}, {"params": list(unit.objective.parameters())}]
    found = train(unit, hs.RowSGD(groups, 0.1, **SGD), dtype)
    close = 1e-4 if engine == "triton" else 1e-11
    torch.testing.assert_close(found, expected, rtol=close, atol=close)


@pytest.mark.parametrize("engine", ["dense", "chunked"])
def test_the_gradient_is_that_of_the_unit_vectors(engine: str) -> None:
    head = hs.create_head(
        "arcface", dim=D, num_classes=C, scale=8, engine=engine, unit_gradients=True, dtype=torch.float64
    )
    (x, labels), *_ = batches(torch.float64)
    head(x, labels).backward()
    unit = normalize(head.weight.detach()).requires_grad_()
    cosines = normalize(x) @ unit.T
    own = labels.clamp(min=0)[:, None]
    with_margin = torch.cos(torch.arccos(cosines.gather(1, own)) + 0.5)
    losses = torch.nn.functional.cross_entropy(8 * cosines.scatter(1, own, with_margin), own[:, 0], reduction="none")
    losses[labels >= 0].mean().backward()
    assert head.weight.grad is not None
    torch.testing.assert_close(head.weight.grad, unit.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["softmax", "l_softmax", "c_triplet", "zero_centroid", "hyperspherical_energy"])
def test_losses_that_see_more_of_the_prototypes_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"unit_gradients=True: {name}"):
        hs.create_head(name, dim=D, num_classes=C, unit_gradients=True)
    if name not in ("softmax", "l_softmax"):
        with pytest.raises(ValueError, match=name):
            hs.create_head("arcface", dim=D, num_classes=C, unit_gradients=True, add={name: {}})


def test_an_optimizer_that_takes_the_gradient_for_another_is_refused() -> None:
    unit, plain = (hs.create_head("sphereface2", dim=D, num_classes=C, unit_gradients=given) for given in (True, False))
    for wrong in (lambda: hs.RowSGD([unit.weight], lr=0.1), lambda: hs.RowAdamW(unit.parameters())):
        with pytest.raises(ValueError, match="needs RowSGD with unit_eps=head.eps"):
            wrong()
    for parameters in (plain.parameters(), unit.parameters(), [torch.nn.Parameter(torch.zeros(D))]):
        with pytest.raises(ValueError, match="unit_eps is set for a parameter of shape"):
            hs.RowSGD(parameters, lr=0.1, unit_eps=unit.eps)
    optimizer = hs.RowSGD([plain.weight], lr=0.1)
    with pytest.raises(ValueError, match="unit_eps=head.eps"):
        optimizer.add_param_group({"params": [unit.weight]})
    assert len(optimizer.param_groups) == 1
    optimizer.add_param_group({"params": [unit.weight], "unit_eps": unit.eps})
