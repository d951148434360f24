"""Compiled training steps on a CUDA device: one graph for every loss, the fused engine's numbers and its memory."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hypersphere as hs

pytest.importorskip("triton")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),
]
N, C, D = 64, 1003, 32
OPTIONS: dict[str, Any] = {name: {"class_counts": list(range(1, C + 1))} for name in ("ldam", "label_aware_smoothing")}
ADDED = ("sample_margin", "c_contrastive", "zero_centroid", "hyperspherical_energy", "center")
OPERATORS = ("hypersphere::reduce_negatives", "hypersphere::reduce_negatives_backward")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    torch._dynamo.reset()


def make(name: str, **options: Any) -> hs.Head:
    torch.manual_seed(0)
    return hs.create_head(name, dim=D, num_classes=C, device="cuda", **OPTIONS.get(name, {}), **options)


def batch(head: hs.Head, rows: int = N) -> tuple[Tensor, Tensor]:
    """Rows that are near their own prototypes, some of no class."""
    generator = torch.Generator("cuda").manual_seed(rows)
    labels = torch.randint(-1, C, (rows,), generator=generator, device="cuda")
    noise = torch.randn(rows, D, generator=generator, device="cuda")
    near = nn.functional.normalize(head.weight.detach()[labels.clamp(min=0)]) + 1.2 * nn.functional.normalize(noise)
    return near, labels


def results(head: hs.Head, call: Any, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
    x = x.clone().requires_grad_()
    loss = call(x, labels)
    leaves = {"x": x, **{key: value for key, value in head.named_parameters() if value.requires_grad}}
    grads = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    found = {key: value for key, value in zip(leaves, grads, strict=True) if value is not None}
    return {"loss": loss.detach().clone(), **found, **{key: value.clone() for key, value in head.named_buffers()}}


def assert_near(compiled: dict[str, Tensor], eager: dict[str, Tensor]) -> None:
    """The operators give equal bits; what Inductor fuses around them is rounded otherwise."""
    assert compiled.keys() == eager.keys()
    for key, value in eager.items():
        gap = float((compiled[key].double() - value.double()).norm())
        assert gap <= 1e-4 * float(value.double().norm()), key


def assert_same_step(head: hs.Head, **compile_options: Any) -> None:
    other = copy.deepcopy(head)
    compiled = torch.compile(other, fullgraph=True, **compile_options)
    assert_near(results(other, compiled, *batch(head)), results(head, head, *batch(head)))


@pytest.mark.parametrize("name", hs.list_heads())
def test_one_graph_of_every_loss(name: str) -> None:
    assert_same_step(make(name, engine="triton", precision="bfloat16"))


def test_one_graph_of_a_sum_of_losses() -> None:
    add = {name: {"weight": 0.3} for name in ADDED}
    assert_same_step(make("normface", engine="triton", precision="bfloat16", add=add))


@pytest.mark.parametrize("budget", [None, 2 * N * 300])
@pytest.mark.parametrize("precision", ["bfloat16", "float16", "tf32", "float32"])
def test_precisions_and_budgets(precision: str, budget: int | None) -> None:
    assert_same_step(make("arcface", engine="triton", precision=precision, budget=budget))


@pytest.mark.parametrize("name", ["arcface", "sphereface2"])
def test_the_whole_graph_as_torch_runs_it_is_equal_bit_for_bit(name: str) -> None:
    head = make(name, engine="triton", precision="bfloat16")
    other = copy.deepcopy(head)
    compiled = results(other, torch.compile(other, fullgraph=True, backend="aot_eager"), *batch(head))
    for key, value in results(head, head, *batch(head)).items():
        assert torch.equal(compiled[key], value), key


def engines_called(call: Any) -> list[str]:
    """The kernels of the fused engine that a call launches, and the operators around them."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        call()
        torch.cuda.synchronize()
    return [event.key for event in profile.key_averages()]


def test_auto_stays_fused_under_autocast() -> None:
    head = make("arcface")
    x, labels = batch(head)
    compiled = torch.compile(head, fullgraph=True)

    def step(call: Any) -> dict[str, Tensor]:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return results(head, call, x, labels)

    assert_near(step(compiled), step(head))
    called = engines_called(lambda: step(compiled))
    assert set(OPERATORS) <= set(called)
    assert any(key == "scores" or key.startswith("scores_") for key in called), "the fused engine's kernel"
    called = engines_called(lambda: results(head, compiled, x, labels))
    assert not any(key == "scores" or key.startswith("scores_") for key in called), "float32 products go to chunked"


def test_a_changing_batch() -> None:
    head = make("arcface", engine="triton", precision="bfloat16")
    compiled = torch.compile(head, fullgraph=True, dynamic=True)
    for rows in (N, 17, 200):
        assert_near(results(head, compiled, *batch(head, rows)), results(head, head, *batch(head, rows)))


def test_cuda_graphs() -> None:
    head = make("arcface", engine="triton", precision="bfloat16")
    compiled = torch.compile(head, fullgraph=True, mode="reduce-overhead")
    x, labels = batch(head)
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        ours = {key: value.clone() for key, value in results(head, compiled, x, labels).items()}
    assert_near(ours, results(head, head, x, labels))


def test_a_million_classes_without_their_scores() -> None:
    rows, classes, dim = 256, 1_000_000, 128
    head = hs.create_head("arcface", dim=dim, num_classes=classes, precision="bfloat16", budget=2**26, device="cuda")
    compiled = torch.compile(head, fullgraph=True)
    x = torch.randn(rows, dim, device="cuda", requires_grad=True)
    labels = torch.randint(classes, (rows,), device="cuda")
    compiled(x, labels).backward()
    head.zero_grad(set_to_none=True)
    x.grad = None
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    compiled(x, labels).backward()
    beyond = torch.cuda.max_memory_allocated() - before - head.weight.nbytes * 3 // 2
    assert beyond < 2**27 + 2**22, "as in eager mode"
