"""Steps of a head that are replayed as CUDA graphs: bit for bit those that are launched, whatever is done with them."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hypersphere as hs
from hypersphere.engines.triton import whole_loss

pytest.importorskip("triton")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
ROWS, CLASSES, DIM = 64, 1003, 128
HEADS: dict[str, tuple[str, dict[str, Any]]] = {
    "arcface": ("arcface", {}),
    "normface": ("normface", {"scale": 30.0, "learnable_scale": False}),
    "sphereface2": ("sphereface2", {}),
    "sampled": ("cosface", {"sample": 0.2}),
    "unit gradients": ("cosface", {"unit_gradients": True}),
}


def make(name: str = "arcface", *, records: bool = True, **options: Any) -> hs.Head:
    torch.manual_seed(0)
    head = hs.create_head(name, dim=DIM, num_classes=CLASSES, precision="bfloat16", device="cuda", **options)
    if not records:
        head.recorder.find = lambda *_: None  # type: ignore[method-assign]
    return head


def batches(count: int, rows: int = ROWS) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator("cuda").manual_seed(1)
    return [
        (
            torch.randn(rows, DIM, device="cuda", generator=generator),
            torch.randint(-1, CLASSES, (rows,), device="cuda", generator=generator),
        )
        for _ in range(count)
    ]


def same(run: Callable[[hs.Head], list[Tensor]], name: str = "arcface", **options: Any) -> hs.Head:
    """Assert that a head which records gives what one that does not gives; return the first."""
    recording = make(name, **options)
    ours, theirs = run(recording), run(make(name, records=False, **options))
    for mine, expected in zip(ours, theirs, strict=True):
        assert torch.equal(mine, expected)
    return recording


def dense(gradient: Tensor | None) -> Tensor:
    assert gradient is not None
    return gradient.to_dense().clone()


@pytest.mark.parametrize("case", HEADS)
def test_training_is_the_same(case: str) -> None:
    name, options = HEADS[case]

    def run(head: hs.Head) -> list[Tensor]:
        optimizer = torch.optim.SGD(head.parameters(), 0.1)
        seen = []
        for x, labels in batches(9):
            leaf = x.requires_grad_()
            optimizer.zero_grad(set_to_none=True)
            loss = head(leaf, labels)
            loss.backward()
            seen += [loss.detach(), dense(leaf.grad), dense(head.weight.grad)]
            optimizer.step()
        return [*seen, head.weight.detach()]

    assert same(run, name, **options).recorder.recording is not None


def test_several_forwards_before_a_backward() -> None:
    def run(head: hs.Head) -> list[Tensor]:
        leaves = [(x.requires_grad_(), labels) for x, labels in batches(8)]
        losses = [head(x, labels) for x, labels in leaves]
        for loss in reversed(losses):
            loss.backward()
        return [*losses, *(dense(x.grad) for x, _ in leaves), dense(head.weight.grad)]

    assert same(run).recorder.recording is not None


def test_gradients_accumulate_and_outlive_the_next_step() -> None:
    def run(head: hs.Head) -> list[Tensor]:
        kept = []
        for x, labels in batches(8):
            loss = head(x.requires_grad_(), labels)
            kept.append(torch.autograd.grad(loss, head.weight, retain_graph=True)[0])
            loss.backward()  # again, into what has accumulated
        return [*kept, dense(head.weight.grad)]

    same(run)


def test_other_shapes_and_no_gradient_between() -> None:
    def run(head: hs.Head) -> list[Tensor]:
        seen = []
        for step, (x, labels) in enumerate(batches(12)):
            rows = 17 if step % 5 == 4 else ROWS
            with torch.set_grad_enabled(step % 3 != 2):
                loss = head(x[:rows].requires_grad_(step % 3 != 2), labels[:rows])
            seen.append(loss.detach())
            if loss.requires_grad:
                loss.backward()
        return [*seen, dense(head.weight.grad)]

    same(run)


def test_weights_and_settings_that_change_are_seen() -> None:
    def run(head: hs.Head) -> list[Tensor]:
        seen = []
        for step, (x, labels) in enumerate(batches(16)):
            if step == 6:
                head.weight = nn.Parameter(head.weight.detach() * -1)
            if step == 11:
                head.objective.margin = 0.1  # type: ignore[assignment]
            if step == 13:
                head.load_state_dict({name: value + 1 for name, value in head.state_dict().items()})
            loss = head(x.requires_grad_(), labels)
            loss.backward()
            seen.append(loss.detach())
        return [*seen, dense(head.weight.grad)]

    same(run)


def test_changed_weights_between_forward_and_backward_are_refused() -> None:
    head = make()
    for x, labels in batches(6):
        loss = head(x.requires_grad_(), labels)
    assert head.recorder.recording is not None
    with torch.no_grad():
        head.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_copies_streams_and_a_graph_around() -> None:
    (x, labels), *_ = batches(1)
    head = make()
    for _ in range(6):
        head(x.requires_grad_(), labels).backward()
    expected = dense(x.grad) / 6
    copied = copy.deepcopy(head)
    assert copied.recorder.recording is None
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    for other in (head, copied):
        x.grad = None
        with torch.cuda.stream(stream):
            other(x, labels).backward()
        torch.cuda.synchronize()
        torch.testing.assert_close(dense(x.grad), expected)
    head.validate = False
    graphed = torch.cuda.make_graphed_callables(head, (x.detach().clone().requires_grad_(), labels))
    x.grad = None
    graphed(x, labels).backward()
    torch.testing.assert_close(dense(x.grad), expected)


def test_a_recorded_step_launches_little() -> None:
    """Two replays and some copies: what a step costs must not creep back."""
    from torch.profiler import ProfilerActivity, profile

    head = make(validate=False)
    batch = batches(8)
    for x, labels in batch:
        head(x.requires_grad_(), labels).backward()
    x, labels = batch[0]
    x.grad = head.weight.grad = None
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU], acc_events=True) as seen:
        head(x, labels).backward()
        torch.cuda.synchronize()
    names = [event.name for event in seen.events()]
    host = sum(name.startswith(("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cudaMemcpyAsync")) for name in names)
    assert names.count("cudaGraphLaunch") == 2
    assert host <= 12, names
    assert torch.cuda.memory_stats()["allocation.all.allocated"] - before <= 6


def test_large_calls_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_loss, "LARGEST", ROWS * CLASSES)
    head = make()
    for x, labels in batches(6):
        head(x.requires_grad_(), labels).backward()
    assert head.recorder.recording is None
