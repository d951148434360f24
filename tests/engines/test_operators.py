"""The operators that compiled graphs call: the engines' own numbers bit for bit, and what torch asks of operators."""

from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor

from hypersphere.engines import (
    KINDS,
    CircleNegative,
    DividedAngle,
    EngineOptions,
    Kind,
    Modulated,
    Reduced,
    Reduction,
    Riesz,
    ScoreFunction,
    Similarity,
)
from hypersphere.engines.chunked import reduce_chunked
from hypersphere.engines.operators import Arguments, reduce_backward, reduce_forward, reduce_traced
from hypersphere.engines.spec import ReductionInputs
from hypersphere.engines.triton.autograd import reduce_fused

N, C, D = 7, 37, 10
LABELS = torch.tensor([0, 36, 3, -1, 3, 31, 7])
FUNCTIONS: dict[str, ScoreFunction] = {
    "identity": Similarity(),
    "detached": Similarity(power=3, relu=True, detached=True),
    "modulated": Modulated(torch.linspace(-0.3, 0.4, N)[:, None], torch.tensor(0.3)),
    "circle": CircleNegative(0.25),
    "divided": DividedAngle(1.4, detached=False),
    "riesz": Riesz(0),
}
ALL, NO = (True,) * 5, (False,) * 5
interpreted = pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU has tests of its own")


def problem(
    kind: Kind, function: str, needs: tuple[bool, ...], fixed: bool = False, **settings: Any
) -> ReductionInputs:
    """A reduction whose first five tensors need gradients as said; a `fixed` one has no more than two tensors."""
    generator = torch.Generator().manual_seed(3)
    tensors = [torch.randn(shape, generator=generator) for shape in ((N, D), (C, D), (N, 1), (1, 1), (C,))]
    tensors[2] = torch.full((1, 1), 8.0) if fixed else tensors[2].abs() + 1
    for tensor, needed in zip(tensors, needs, strict=True):
        tensor.requires_grad_(needed)
    x, w, scale, offset, bias = tensors
    reduction = Reduction(kind, FUNCTIONS[function], **settings)
    if fixed:
        return ReductionInputs(x, w, scale, None, None, LABELS, reduction, fixed_scale=8.0)
    return ReductionInputs(x, w, scale, offset, bias, LABELS, reduction)


def with_gradients(reduced: Reduced, inputs: ReductionInputs) -> list[Tensor | None]:
    found: list[Tensor | None] = [reduced.target.detach(), reduced.value.detach(), reduced.argmax]
    leaves = [tensor for tensor in inputs.differentiable if tensor is not None and tensor.requires_grad]
    if not leaves:
        return found
    weights = torch.linspace(-1, 2, N)
    loss = (reduced.value * weights).sum() + (reduced.target.sin() * weights).sum()
    return [*found, *torch.autograd.grad(loss, leaves)]


def assert_same(operator: Reduced, eager: Reduced, inputs: ReductionInputs) -> None:
    for ours, theirs in zip(with_gradients(operator, inputs), with_gradients(eager, inputs), strict=True):
        assert (ours is None) == (theirs is None)
        assert ours is None or theirs is None or torch.equal(ours, theirs)


@pytest.mark.parametrize("needs", [ALL, (True, False, False, True, False), NO])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_chunked(kind: Kind, function: str, needs: tuple[bool, ...]) -> None:
    inputs = problem(kind, function, needs)
    options = EngineOptions(engine="chunked", chunk_size=8)
    assert_same(reduce_traced("chunked", inputs, options), reduce_chunked(inputs, 8), inputs)


@interpreted
@pytest.mark.parametrize(
    ("kind", "function"), [("logsumexp", "modulated"), ("max", "detached"), ("hinge_sum", "circle")]
)
def test_fused(kind: Kind, function: str) -> None:
    pytest.importorskip("triton")
    inputs = problem(kind, function, ALL, normalize_embeddings=True)
    options = EngineOptions(engine="triton", precision="bfloat16")
    assert_same(reduce_traced("triton", inputs, options), reduce_fused(inputs, options), inputs)


@interpreted
@pytest.mark.parametrize("budget", [None, 0])
@pytest.mark.parametrize("kind", ["logsumexp", "softplus_sum"])
def test_fused_with_stored_derivatives(kind: Kind, budget: int | None) -> None:
    pytest.importorskip("triton")
    inputs = problem(kind, "identity", (True, True, False, False, False), True, normalize_embeddings=True)
    options = EngineOptions(engine="triton", precision="bfloat16", budget=budget)
    kept = reduce_forward(*Arguments.of("triton", inputs, options))
    assert ((N, 40) in [tuple(tensor.shape) for tensor in kept]) == (budget is None)
    assert_same(reduce_traced("triton", inputs, options), reduce_fused(inputs, options), inputs)


@interpreted
@pytest.mark.parametrize(
    ("engine", "kind", "function", "needs", "fixed"),
    [
        ("chunked", "logsumexp", "modulated", ALL, False),
        ("chunked", "max", "identity", (False, True, False, False, True), False),
        ("triton", "logsumexp", "identity", (True, True, False, False, False), True),
        pytest.param("triton", "max", "detached", ALL, False, marks=pytest.mark.slow),
    ],
)
def test_what_torch_asks_of_an_operator(
    engine: str, kind: Kind, function: str, needs: tuple[bool, ...], fixed: bool
) -> None:
    """Schema, autograd, shapes of the fake kernels, and both passes traced with free sizes."""
    pytest.importorskip("triton")
    inputs = problem(kind, function, needs, fixed, normalize_embeddings=engine == "triton")
    arguments = Arguments.of(engine, inputs, EngineOptions(engine=engine, precision="bfloat16"))
    torch.library.opcheck(reduce_forward, arguments)
    outputs = [tensor.detach() for tensor in reduce_forward(*arguments)]
    detached = [item.detach() if isinstance(item, Tensor) else item for item in arguments]
    torch.library.opcheck(reduce_backward, (outputs, torch.randn(N), torch.randn(N), *detached))


def test_every_setting_reaches_the_engine() -> None:
    settings: dict[str, Any] = {
        "normalize_prototypes": False,
        "eps": 1e-6,
        "normalize_embeddings": True,
        "unit_gradients": True,
    }
    inputs = problem("hinge_sum", "detached", ALL, subcenters=3, **settings)._replace(fixed_scale=3.0, rounded=True)
    options = EngineOptions(engine="chunked", chunk_size=5, precision="tf32", budget=7)
    for given, default in ((inputs.reduction, Reduction("max")), (options, EngineOptions())):
        assert all(getattr(given, field.name) != getattr(default, field.name) for field in fields(given))
    arguments = Arguments.of("chunked", inputs, options)
    assert arguments.options == options
    assert arguments.inputs[5:] == inputs[5:]


def test_gradients_are_laid_out_as_the_compiler_was_told() -> None:
    """Transposed embeddings and prototypes, and every second number of a bias."""
    inputs = problem("logsumexp", "identity", ALL)
    x, w = (tensor.detach().T.contiguous().T.requires_grad_() for tensor in (inputs.embeddings, inputs.prototypes))
    inputs = inputs._replace(embeddings=x, prototypes=w, bias=torch.zeros(2 * C)[::2].requires_grad_())
    arguments = Arguments.of("chunked", inputs, EngineOptions(engine="chunked"))
    torch.library.opcheck(reduce_forward, arguments, test_utils=("test_faketensor", "test_aot_dispatch_dynamic"))
