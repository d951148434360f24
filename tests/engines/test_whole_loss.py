"""Losses whose rows are computed in a kernel, in Triton's interpreter: against the loss's own formula in float64."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import hypersphere as hs
from hypersphere.engines import Recorder, reduce
from hypersphere.losses.margin_softmax import ArcFace

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU has tests of its own")

N, C, D = 37, 53, 10
WHOLE: dict[str, tuple[str, dict[str, Any]]] = {
    "cosface": ("cosface", {}),
    "arcface": ("arcface", {}),
    "arcface detached": ("arcface", {"margin_grad": "detached"}),
    "arcface without margin": ("arcface", {"margin": 0.0}),
    "ampface": ("ampface", {"scale": 30.0}),
    "normface": ("normface", {"scale": 30.0, "learnable_scale": False}),
    "coco": ("coco", {}),
    "sphereface2": ("sphereface2", {}),
    "sphereface2 without bias": ("sphereface2", {"bias": "none"}),
    "sphereface2 detached": ("sphereface2", {"power": 2.0, "adjustment_grad": "detached", "negative_margin": 0.1}),
}
BY_PARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "unbounded terms": ("arcface", {"scale": 90.0}),
    "adjusted": ("cosface", {"power": 2.0}),
    "growing margin": ("arcface", {"margin_steps": 5}),
    "learned scale": ("normface", {}),
    "no norm of embeddings": ("normface", {"normalize": "prototypes"}),
    "bias per class": ("sphereface2", {"bias": "class"}),
    "margin of the angle": ("sphereface2", {"margin_type": "a"}),
    "moving threshold": ("curricularface", {}),
    "weighted sample": ("arcface", {"sample": 0.9, "unbiased": True}),
}


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call was computed whole."""
    calls: list[bool] = []
    real = reduce.reduce_to_loss.__globals__["fused_loss"]

    def count(*args: Any) -> Tensor | None:
        loss: Tensor | None = real(*args)
        calls.append(loss is not None)
        return loss

    monkeypatch.setattr(reduce, "fused_loss", count)
    return calls


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings, labels and prototypes, with a zero vector, unlabelled rows, and rows at both poles."""
    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(N, D, generator=generator), torch.randn(C, D, generator=generator)
    labels = torch.randint(C, (N,), generator=generator)
    labels[3] = labels[20] = -1
    x[5], x[7], x[8] = 0.0, 2 * w[labels[7]], -w[labels[8]]
    return x, labels, w


def results(name: str, options: dict[str, Any], dtype: torch.dtype, **engine: Any) -> dict[str, Tensor]:
    """The loss and its gradients, from a gradient of 1.7 of the loss."""
    x, labels, w = batch()
    torch.manual_seed(0)
    head = hs.create_head(name, dim=D, num_classes=C, **options, **engine).to(dtype)
    head.weight = torch.nn.Parameter(w.to(dtype))
    leaf = x.to(dtype).requires_grad_()
    loss = head(leaf, labels)
    leaves = {"x": leaf, **dict(head.named_parameters())}
    gradients = torch.autograd.grad(1.7 * loss, list(leaves.values()))
    return {"loss": loss.detach(), **dict(zip(leaves, gradients, strict=True))}


@pytest.mark.parametrize("budget", [None, 0])
@pytest.mark.parametrize("case", WHOLE)
def test_whole_losses_are_their_formulas(case: str, budget: int | None, whole: list[bool]) -> None:
    name, options = WHOLE[case]
    ours = results(name, options, torch.float32, engine="triton", precision="float32", budget=budget)
    assert whole == [True]
    # Next to a pole the sine of the angle has half the digits of the cosine, in float32 either way.
    limit = 2e-5 if name == "arcface" else 3e-6
    for key, expected in results(name, options, torch.float64, engine="dense").items():
        assert float((ours[key].double() - expected).norm()) <= limit * float(expected.norm()), key


@pytest.mark.parametrize("case", BY_PARTS)
def test_other_losses_are_computed_by_parts(case: str, whole: list[bool]) -> None:
    name, options = BY_PARTS[case]
    results(name, options, torch.float32, engine="triton", precision="float32")
    assert not any(whole)


def test_no_labelled_row_costs_nothing() -> None:
    head = hs.create_head("arcface", dim=D, num_classes=C, engine="triton", precision="float32")
    x = torch.randn(4, D, requires_grad=True)
    loss = head(x, torch.full((4,), -1))
    loss.backward()
    assert loss.item() == 0
    assert x.grad is not None
    assert not x.grad.any()


def test_a_margin_of_ones_own_is_never_replaced(whole: list[bool]) -> None:
    class Steeper(ArcFace):
        def with_margin(self, cos_y: Tensor) -> Tensor:
            return 2 * cos_y - 1

    x, labels, w = batch()
    head = hs.create_head("arcface", dim=D, num_classes=C, engine="triton", precision="float32")
    head.weight = torch.nn.Parameter(w)
    head.objective = Steeper()
    plain = hs.create_head("arcface", dim=D, num_classes=C, engine="dense")
    plain.weight, plain.objective = head.weight, head.objective
    torch.testing.assert_close(head(x, labels), plain(x, labels), rtol=1e-5, atol=1e-5)
    assert not any(whole)


class Operators(TorchDispatchMode):
    """Counts the operators that launch a kernel on a GPU: not views, nor memory without content."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if not func.is_view and name not in ("empty", "detach", "new_empty", "_reshape_alias"):
            self.names.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("name", "most"), [("arcface", 7), ("cosface", 7), ("sphereface2", 10)])
def test_a_step_launches_little(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of torch's operators; kernels of Triton come on top: 4 forward, 5 backward where products are cuBLAS's."""
    from triton.runtime import interpreter

    launches: list[Any] = []
    # No kernel runs: the interpreter copies its arguments by torch's operators, which would be counted too.
    monkeypatch.setattr(interpreter.GridExecutor, "__call__", lambda self, *a, **k: launches.append(self.fn))
    head = hs.create_head(name, dim=D, num_classes=C, engine="triton", precision="bfloat16", validate=False)
    x, labels, _ = batch()
    x.requires_grad_()
    operators = Operators()
    with operators:
        head(x, labels).backward()
    assert len(launches) <= 9, launches
    assert len(operators.names) <= most, operators.names


def test_a_copied_or_saved_head_records_anew() -> None:
    head = hs.create_head("arcface", dim=D, num_classes=C)
    head.recorder.seen = 7
    for other in (copy.deepcopy(head), pickle.loads(pickle.dumps(head))):
        assert isinstance(other.recorder, Recorder)
        assert other.recorder.seen == 0
