"""Sampled heads and their optimizers on a CUDA device."""

from typing import Any

import pytest
import torch

import hypersphere as hs

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
OPTIMIZERS: dict[str, tuple[Any, Any, dict[str, float]]] = {
    "sgd": (hs.RowSGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "adamw": (hs.RowAdamW, torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
}


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize(
    ("name", "unbiased"), [("arcface", False), ("arcface", True), ("softmax", False), ("sphereface2", False)]
)
def test_a_step_never_waits_for_the_gpu(name: str, unbiased: bool, kind: str) -> None:
    ours, _, options = OPTIMIZERS[kind]
    head = hs.create_head(name, dim=16, num_classes=997, sample=0.1, unbiased=unbiased, device="cuda")
    head.validate = False
    optimizer = ours(head.parameters(), **options, fused=True)
    x, y = torch.randn(33, 16, device="cuda", requires_grad=True), torch.randint(0, 997, (33,), device="cuda")
    for step in range(3):
        torch.cuda.set_sync_debug_mode("error" if step else "default")
        try:
            optimizer.zero_grad()
            head(x, y).backward()
            optimizer.step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert bool(head.weight.isfinite().all())


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_sample_of_everything_trains_as_without_one(kind: str) -> None:
    ours, theirs, options = OPTIMIZERS[kind]
    heads = [hs.create_head("arcface", dim=16, num_classes=97, scale=8, sample=s, device="cuda") for s in (1.0, None)]
    heads[1].load_state_dict({"weight": heads[0].weight.detach()})
    optimizers = [kind_(head.parameters(), **options) for kind_, head in zip((ours, theirs), heads, strict=True)]
    for step in range(4):
        generator = torch.Generator("cuda").manual_seed(step)
        x = torch.randn(33, 16, device="cuda", generator=generator)
        y = torch.randint(0, 97, (33,), device="cuda", generator=generator)
        for head, optimizer in zip(heads, optimizers, strict=True):
            optimizer.zero_grad()
            head(x, y).backward()
            optimizer.step()
    torch.testing.assert_close(heads[0].weight, heads[1].weight, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_memory_follows_the_sample(kind: str) -> None:
    ours, _, options = OPTIMIZERS[kind]
    head = hs.create_head("arcface", dim=128, num_classes=1_000_000, sample=0.01, device="cuda")
    optimizer = ours(head.parameters(), **options, fused=True)
    x = torch.randn(64, 128, device="cuda", requires_grad=True)
    y = torch.randint(0, 1_000_000, (64,), device="cuda")
    for _ in range(2):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        optimizer.zero_grad()
        head(x, y).backward()
        optimizer.step()
        beyond = torch.cuda.max_memory_allocated() - before
    assert beyond < head.weight.nbytes / 4, "a gradient of all prototypes would take four times as much"
