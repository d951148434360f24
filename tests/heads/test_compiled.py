"""A compiled training step keeps its engine: one graph for every loss, with the operator in it and no N x C tensor."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd

import hypersphere as hs
from hypersphere.engines import EngineOptions, Reduction, reduce_negatives

N, C, D = 9, 150, 6
OPTIONS: dict[str, Any] = {name: {"class_counts": list(range(1, C + 1))} for name in ("ldam", "label_aware_smoothing")}
ADDED = ("sample_margin", "c_contrastive", "zero_centroid", "hyperspherical_energy", "center")
FEW = ("curricularface", "sphereface2")
"""Between them: tensors in a score function, a running mean, a learned offset, two kinds."""

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    torch._dynamo.reset()


def make(name: str, **options: Any) -> hs.Head:
    torch.manual_seed(0)
    head = hs.create_head(name, dim=D, num_classes=C, **OPTIONS.get(name, {}), **options)
    if isinstance(head.weight, nn.Parameter):
        nn.init.normal_(head.weight)
    return head


def batch(rows: int = N) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows)
    labels = torch.randint(0, C, (rows,), generator=generator)
    labels[rows // 2] = -1
    return torch.randn(rows, D, generator=generator), labels


def results(head: hs.Head, call: Any, x: Tensor, labels: Tensor) -> dict[str, Tensor | None]:
    """The loss, all gradients, and the buffers that the call has moved."""
    x = x.clone().requires_grad_()
    loss = call(x, labels)
    leaves = {"x": x, **{key: value for key, value in head.named_parameters() if value.requires_grad}}
    grads = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    moved = {key: value.clone() for key, value in head.named_buffers()}
    return {"loss": loss.detach(), **dict(zip(leaves, grads, strict=True)), **moved}


def both(head: hs.Head, rows: int = N, **options: Any) -> Iterator[tuple[str, Tensor | None, Tensor | None]]:
    """The eager and the compiled result of a training step, by name."""
    other = copy.deepcopy(head)
    eager = results(head, head, *batch(rows))
    compiled = results(other, torch.compile(other, fullgraph=True, **options), *batch(rows))
    assert eager.keys() == compiled.keys()
    return ((key, eager[key], compiled[key]) for key in eager)


def assert_equal(head: hs.Head) -> None:
    """Bit for bit: the operators run the engines' own code, and `aot_eager` runs torch's."""
    for key, eager, compiled in both(head, backend="aot_eager"):
        assert (eager is None) == (compiled is None), key
        assert eager is None or compiled is None or torch.equal(eager, compiled), key


@pytest.mark.parametrize("name", FEW)
def test_one_graph(name: str) -> None:
    assert_equal(make(name, engine="chunked", chunk_size=32))


def test_one_graph_of_a_sum_of_losses() -> None:
    add = {name: {"weight": 0.3} for name in ADDED}
    assert_equal(make("softmax", engine="chunked", chunk_size=32, add=add))


@pytest.mark.slow
@pytest.mark.parametrize("name", hs.list_heads())
def test_one_graph_of_every_loss(name: str) -> None:
    assert_equal(make(name, engine="chunked", chunk_size=32))


@pytest.mark.slow
@pytest.mark.parametrize("name", hs.list_heads())
def test_one_graph_of_every_loss_in_a_sum(name: str) -> None:
    assert_equal(make("normface", engine="chunked", add={name: {"weight": 0.3, **OPTIONS.get(name, {})}}))


@pytest.mark.slow
def test_one_graph_of_sub_centres() -> None:
    assert_equal(make("arcface", engine="chunked", chunk_size=32, subcenters=3))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["arcface", "curricularface", "sample_margin"])
def test_inductor(name: str) -> None:
    for key, eager, compiled in both(make(name, engine="chunked", chunk_size=32)):
        assert (eager is None) == (compiled is None), key
        if eager is not None and compiled is not None:
            torch.testing.assert_close(compiled, eager, rtol=1e-5, atol=1e-5 * float(eager.abs().max()))


class Graphs:
    """A backend that keeps the graphs of both passes."""

    def __init__(self) -> None:
        self.forward: list[torch.fx.Graph] = []
        self.backward: list[torch.fx.Graph] = []

    @property
    def backend(self) -> Any:
        return aot_autograd(fw_compiler=self._keep(self.forward), bw_compiler=self._keep(self.backward))

    @staticmethod
    def _keep(kept: list[torch.fx.Graph]) -> Any:
        def compiler(module: torch.fx.GraphModule, _: Any) -> Any:
            kept.append(module.graph)
            return module

        return compiler

    def operators(self) -> list[str]:
        names = (str(node.target) for graph in self.forward + self.backward for node in graph.nodes)
        return [name for name in names if name.startswith("hypersphere.")]

    def largest(self) -> int:
        """Numbers in the largest tensor of the graphs."""
        values = [node.meta.get("val") for graph in self.forward + self.backward for node in graph.nodes]
        flat = [item for value in values for item in (value if isinstance(value, list | tuple) else [value])]
        return max(item.numel() for item in flat if isinstance(item, Tensor))


@pytest.mark.parametrize("engine", ["auto", "chunked", "dense"])
def test_no_scores_in_the_graph(engine: str) -> None:
    head, graphs = make("arcface", engine=engine), Graphs()
    results(head, torch.compile(head, fullgraph=True, backend=graphs.backend), *batch())
    assert (len(graphs.forward), len(graphs.backward)) == (1, 1)
    if engine == "dense":
        assert graphs.operators() == []
        assert graphs.largest() == N * C
    else:
        names = ["hypersphere.reduce_negatives.default", "hypersphere.reduce_negatives_backward.default"]
        assert graphs.operators() == names
        assert graphs.largest() == C * D


def test_a_changing_batch_needs_one_graph() -> None:
    head = make("arcface", engine="chunked", chunk_size=32)
    compiled = torch.compile(head, fullgraph=True, backend="aot_eager")
    for rows in (N, 5, 31):
        x, labels = batch(rows)
        for tensor in (x, labels):
            torch._dynamo.mark_dynamic(tensor, 0)
        with torch._dynamo.config.patch(error_on_recompile=rows != N):
            loss = compiled(x, labels)
        assert torch.equal(loss, head(x, labels))


def test_no_gradient_is_made_for_what_is_fixed() -> None:
    head, graphs = make("arcface", engine="chunked", prototypes=nn.functional.normalize(torch.randn(C, D))), Graphs()
    results(head, torch.compile(head, fullgraph=True, backend=graphs.backend), *batch())
    (node,) = (node for node in graphs.backward[0].nodes if "reduce_negatives" in str(node.target))
    assert [tuple(gradient.shape) for gradient in node.meta["val"]] == [(N, D)]


def test_prediction_in_one_graph() -> None:
    head, (x, _) = make("arcface", engine="chunked", chunk_size=32), batch()
    compiled = torch.compile(head.predict, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), head.predict(x))


@dataclass(frozen=True)
class Halved:
    """A score function of a user's own."""

    def value(self, score: Tensor) -> Tensor:
        return score / 2

    def derivative(self, score: Tensor) -> float:
        return 0.5


class Quartered(Halved):
    """One that is no dataclass itself: nobody knows what else is in it."""

    def __init__(self, more: float = 2.0) -> None:
        object.__setattr__(self, "more", more)

    def value(self, score: Tensor) -> Tensor:
        return score / 2 / self.more  # type: ignore[attr-defined]


def own(function: Any, engine: str) -> Any:
    """The reduction of an own score function, as a function of embeddings and prototypes."""
    reduction, labels, options = Reduction("logsumexp", function), batch()[1], EngineOptions(engine=engine)
    return lambda x, w: reduce_negatives(x, w, labels, reduction, options=options).value


def test_own_score_functions() -> None:
    x, w = batch()[0], make("arcface").weight.detach()
    call = own(Halved(), "chunked")
    assert torch.equal(torch.compile(call, fullgraph=True, backend="aot_eager")(x, w), call(x, w))


def test_a_score_function_with_more_than_its_fields_is_traced_through() -> None:
    x, w = batch()[0], make("arcface").weight.detach()
    call = own(Quartered(3.0), "auto")
    torch.testing.assert_close(torch.compile(call, fullgraph=True, backend="aot_eager")(x, w), call(x, w))


def test_a_score_function_that_no_operator_takes() -> None:
    @dataclass(frozen=True)
    class Inside(Halved):
        """A class that no module has."""

    x, w = batch()[0], make("arcface").weight.detach()
    call = own(Inside(), "chunked")
    torch.testing.assert_close(
        torch.compile(own(Inside(), "auto"), fullgraph=True, backend="aot_eager")(x, w), call(x, w)
    )
    with pytest.raises(Exception, match="Inside cannot enter a compiled graph: .* or engine='dense'"):
        torch.compile(call, fullgraph=True, backend="aot_eager")(x, w)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(call, backend="aot_eager")(x, w), call(x, w)), "without fullgraph it runs eagerly"
