"""The same numbers on a CUDA device."""

from typing import Any

import pytest
import torch
from torch import nn

import hypersphere as hs
from hypersphere.engines import Precision

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
OPTIONS: dict[str, Any] = {name: {"class_counts": list(range(1, 98))} for name in ("ldam", "label_aware_smoothing")}


@pytest.mark.parametrize("engine", ["dense", "chunked", "triton"])
@pytest.mark.parametrize("name", ["softmax", "sphereface", "sphereface2", "arcface"])
def test_predictions_are_the_cpus(name: str, engine: str) -> None:
    torch.manual_seed(0)
    head = hs.create_head(name, dim=16, num_classes=97, engine="dense")
    nn.init.normal_(head.weight)
    x = torch.randn(500, 16)
    other = hs.create_head(name, dim=16, num_classes=97, engine=engine, precision="float32", device="cuda")
    other.load_state_dict(head.state_dict())
    logits = head.logits(x)
    torch.testing.assert_close(other.logits(x.cuda()).cpu(), logits, rtol=1e-4, atol=1e-4)
    assert torch.equal(other.predict(x.cuda()).cpu(), logits.argmax(1))


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", hs.list_heads())
def test_a_gpu_gives_the_cpus_numbers(name: str, dtype: torch.dtype, engine: str) -> None:
    wide = dtype == torch.float64
    torch.manual_seed(0)
    head = hs.create_head(name, dim=16, num_classes=97, engine="dense", **OPTIONS.get(name, {})).eval()
    nn.init.normal_(head.weight)
    x, y = torch.randn(33, 16).to(dtype), torch.randint(-1, 97, (33,))
    reference, leaf = head.double(), x.double().requires_grad_()
    expected = reference(leaf, y)
    grads = torch.autograd.grad(expected, [leaf, reference.weight], allow_unused=True)

    other = hs.create_head(
        name, dim=16, num_classes=97, engine=engine, chunk_size=20, device="cuda", **OPTIONS.get(name, {})
    ).eval()
    other.load_state_dict(head.state_dict())
    if wide:
        other.double()
    leaf = x.cuda().requires_grad_()
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=not wide):
        loss = other(leaf, y.cuda())
    ours = torch.autograd.grad(loss, [leaf, other.weight], allow_unused=True)
    close: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-10} if wide else {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(loss.cpu().double(), expected, **close)
    for mine, theirs in zip(ours, grads, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            size = float(theirs.abs().max()) + 1e-12
            tolerance = 1e-9 if wide else 2e-3 if dtype == torch.float32 else 2e-2
            assert float((mine.cpu().double() - theirs).abs().max()) <= tolerance * size


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("engine", ["dense", "chunked", "triton"])
@pytest.mark.parametrize(
    ("name", "more"), [*((name, {}) for name in hs.list_heads()), ("arcface", {"margin_steps": 9})]
)
def test_an_unchecked_head_never_waits_for_the_gpu(name: str, more: dict[str, Any], engine: str) -> None:
    head = hs.create_head(name, dim=16, num_classes=97, engine=engine, device="cuda", **OPTIONS.get(name, {}), **more)
    head.validate = False
    x, y = torch.randn(33, 16, device="cuda", requires_grad=True), torch.randint(0, 97, (33,), device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        loss = head(x, y)
        if loss.requires_grad:
            loss.backward()
        head.advance()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert bool(loss.isfinite())


@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream does not match")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["softmax", "cosface", "arcface", "sphereface2", "label_smoothing"])
def test_an_unchecked_head_can_be_captured(name: str, precision: Precision) -> None:
    """A CUDA graph replays forward and backward, and follows the margins as they grow."""
    more: dict[str, Any] = {"margin_steps": 2} if name in ("cosface", "arcface") else {}
    head = hs.create_head(name, dim=16, num_classes=97, device="cuda", precision=precision, **more)
    head.validate = False
    x, y = torch.randn(33, 16, device="cuda"), torch.randint(0, 97, (33,), device="cuda")
    parameters = [p for p in head.parameters() if p.requires_grad]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            torch.autograd.grad(head(x, y), parameters)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = head(x, y)
        grads = torch.autograd.grad(loss, parameters)
    for _ in range(3):
        x.normal_()
        graph.replay()
        wanted = head(x, y)
        torch.testing.assert_close(loss, wanted)
        torch.testing.assert_close(grads, torch.autograd.grad(wanted, parameters))
        head.advance()


def test_a_million_classes_in_chunks() -> None:
    head = hs.create_head("arcface", dim=128, num_classes=1_000_000, device="cuda")
    x = torch.randn(256, 128, device="cuda", requires_grad=True)
    y = torch.randint(0, 1_000_000, (256,), device="cuda")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    head(x, y).backward()
    beyond = torch.cuda.max_memory_allocated() - before - head.weight.nbytes
    assert beyond < 256 * 1_000_000 * 4, "the N x C scores alone would take more"
