"""The engines against a plain float64 loop, and against each other."""

import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from hypersphere.engines import (
    KINDS,
    CircleNegative,
    DividedAngle,
    EngineOptions,
    Modulated,
    Reduction,
    Riesz,
    ScoreFunction,
    Similarity,
    reduce_negatives,
)

N, C, D = 5, 11, 4


def problem(seed: int = 0, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=dtype)

    return {
        "embeddings": torch.nn.functional.normalize(random(N, D), dim=1),
        "prototypes": random(C, D) * 3,
        "scale": random(N).abs() + 1,
        "offset": random(N),
        "bias": random(C),
    }


LABELS = torch.tensor([0, 10, 3, -1, 3])


@dataclass(frozen=True)
class Halved:
    """A score function of a user's own, with a plain number as its derivative."""

    def value(self, score: Tensor) -> Tensor:
        return score / 2

    def derivative(self, score: Tensor) -> float:
        return 0.5


FUNCTIONS = {
    "halved": Halved(),
    "identity": Similarity(),
    "relu": Similarity(relu=True),
    "power": Similarity(power=3),
    "power-relu": Similarity(power=2, relu=True),
    "small-power": Similarity(power=0.5),
    "divided": DividedAngle(1.4, detached=False),
    "modulated": Modulated(torch.full((N, 1), 0.1, dtype=torch.float64), torch.tensor(0.3, dtype=torch.float64)),
    "riesz": Riesz(2),
    "riesz-log": Riesz(0),
}


def loop(kind: str, function: ScoreFunction, tensors: dict[str, Tensor], labels: Tensor) -> list[float]:
    """The reduction, number by number."""
    values = []
    for i, label in enumerate(labels.tolist()):
        terms = []
        for j in range(C):
            if j == label:
                continue
            w = tensors["prototypes"][j]
            score = float(tensors["embeddings"][i] @ w / math.sqrt(float(w @ w) + 1e-12))
            if isinstance(function, Modulated):
                value = score * (0.3 + score) if score > 0.1 else score
            else:
                value = float(function.value(torch.tensor(score, dtype=torch.float64)))
            term = float(tensors["scale"][i]) * value + float(tensors["offset"][i]) + float(tensors["bias"][j])
            terms.append(term)
        if kind == "logsumexp":
            top = max(terms)
            values.append(top + math.log(sum(math.exp(t - top) for t in terms)))
        elif kind == "max":
            values.append(max(terms))
        elif kind == "sum":
            values.append(math.fsum(terms))
        elif kind == "softplus_sum":
            values.append(math.fsum(max(t, 0) + math.log1p(math.exp(-abs(t))) for t in terms))
        else:
            values.append(math.fsum(max(t, 0.0) for t in terms))
    return values


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_value_against_a_plain_loop(engine: str, kind: str, function: ScoreFunction) -> None:
    tensors = problem()
    result = reduce_negatives(
        **tensors,
        labels=LABELS,
        reduction=Reduction(kind, function),  # type: ignore[arg-type]
        options=EngineOptions(engine=engine, chunk_size=4),
    )
    torch.testing.assert_close(
        result.value, torch.tensor(loop(kind, function, tensors, LABELS), dtype=torch.float64), rtol=1e-12, atol=1e-12
    )


def gradients(
    kind: str, function: ScoreFunction, engine: str, chunk: int | None, scalar: bool, raw: bool
) -> list[Tensor]:
    tensors = problem(1)
    if scalar:
        tensors["scale"], tensors["offset"] = tensors["scale"][0], tensors["offset"][0]
    if raw:
        tensors["prototypes"] = tensors["prototypes"] / 10
    leaves = {name: value.requires_grad_() for name, value in tensors.items()}
    reduction = Reduction(kind, function, normalize_prototypes=not raw)  # type: ignore[arg-type]
    result = reduce_negatives(
        **leaves, labels=LABELS, reduction=reduction, options=EngineOptions(engine=engine, chunk_size=chunk)
    )
    weights = torch.linspace(-1, 2, N, dtype=torch.float64)
    loss = (result.value * weights).sum() + (result.target.sin() * weights).sum()
    return [result.value.detach(), result.target.detach(), *torch.autograd.grad(loss, list(leaves.values()))]


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_chunked_is_dense(kind: str, function: ScoreFunction, scalar: bool, raw: bool) -> None:
    expected = gradients(kind, function, "dense", None, scalar, raw)
    for chunk in (1, 3, 4, C, 100):
        for ours, theirs in zip(gradients(kind, function, "chunked", chunk, scalar, raw), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


WHOLE = [pytest.param(engine, False, marks=pytest.mark.slow) for engine in ("dense", "chunked")]


@pytest.mark.parametrize(("engine", "random_direction"), [("dense", True), ("chunked", True), *WHOLE])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_gradcheck(engine: str, random_direction: bool, kind: str, function: ScoreFunction) -> None:
    """Along a random direction of each input; in the slow tests by every number of it."""
    torch.manual_seed(0)
    tensors = problem(2)
    inputs = tuple(value.requires_grad_() for value in tensors.values())

    def reduced(*values: Tensor) -> tuple[Tensor, Tensor]:
        leaves = dict(zip(tensors, values, strict=True))
        result = reduce_negatives(
            **leaves,
            labels=LABELS,
            reduction=Reduction(kind, function),  # type: ignore[arg-type]
            options=EngineOptions(engine=engine, chunk_size=3),
        )
        return result.value, result.target

    assert torch.autograd.gradcheck(reduced, inputs, fast_mode=random_direction)


def test_detached_functions_have_the_derivative_of_the_weight_held_constant() -> None:
    score = torch.linspace(-0.9, 0.9, 7, dtype=torch.float64)
    assert Similarity(power=3, detached=True).derivative(score) == 1.0
    assert DividedAngle(1.4).derivative(score) == 1.0
    torch.testing.assert_close(CircleNegative(0.25).derivative(score), (score + 0.25).clamp(min=0))


@pytest.mark.parametrize("engine", ["dense", "chunked"])
def test_ties_go_to_the_lowest_class(engine: str) -> None:
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    w = torch.tensor([[0.0, 1.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0], [0.0, 5.0]])
    labels = torch.tensor([0, 1, -1])
    for chunk in (1, 2, 3, 5):
        result = reduce_negatives(
            x, w, labels, Reduction("max"), options=EngineOptions(engine=engine, chunk_size=chunk)
        )
        assert result.argmax is not None
        assert result.argmax.tolist() == [1, 2, 0]


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [0, 1])
def test_an_empty_shard_reduces_without_nan(engine: str, kind: str, classes: int) -> None:
    x = torch.eye(3, 4).requires_grad_()
    w = torch.ones(classes, 4, requires_grad=True)
    labels = torch.full((3,), classes - 1)
    result = reduce_negatives(x, w, labels, Reduction(kind), options=EngineOptions(engine=engine))  # type: ignore[arg-type]
    nothing = float("-inf") if kind in ("logsumexp", "max") else 0.0
    assert result.value.tolist() == [nothing] * 3
    if kind == "max":
        assert result.argmax is not None
        assert result.argmax.tolist() == [-1] * 3
    (torch.where(result.value.isinf(), 0.0, result.value).sum() + result.target.sum()).backward()
    assert x.grad is not None
    assert w.grad is not None
    assert bool(x.grad.isfinite().all())
    assert bool(w.grad.isfinite().all())


@pytest.mark.parametrize("engine", ["dense", "chunked"])
def test_a_logsumexp_far_above_and_below_zero(engine: str) -> None:
    x, w = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    for scale in (1e4, -1e4):
        result = reduce_negatives(
            x,
            w,
            torch.tensor([0]),
            Reduction("logsumexp"),
            scale=scale,
            options=EngineOptions(engine=engine, chunk_size=1),
        )
        assert result.value.item() == pytest.approx(scale + math.log(2))


class LargestTensor(TorchDispatchMode):
    """Remembers the largest result of any operation."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else [result]:
            if isinstance(value, Tensor):
                self.largest = max(self.largest, value.numel())
        return result


@pytest.mark.parametrize("kind", KINDS)
def test_chunked_holds_no_more_than_a_chunk_of_scores(kind: str) -> None:
    rows, classes, dim, chunk = 64, 1000, 2, 50
    x = torch.randn(rows, dim, requires_grad=True)
    w = torch.randn(classes, dim, requires_grad=True)
    labels = torch.arange(rows)
    with LargestTensor() as watch:
        reduce_negatives(
            x,
            w,
            labels,
            Reduction(kind, Similarity(power=2)),  # type: ignore[arg-type]
            scale=8.0,
            options=EngineOptions(engine="chunked", chunk_size=chunk),
        ).value.sum().backward()
    assert watch.largest <= rows * chunk


def test_default_chunks_are_bounded() -> None:
    x, w = torch.randn(512, 2, requires_grad=True), torch.randn(100_000, 2, requires_grad=True)
    with LargestTensor() as watch:
        reduce_negatives(x, w, torch.arange(512), Reduction("logsumexp")).value.sum().backward()
    assert watch.largest <= 2**20


@settings(deadline=None, max_examples=60)
@given(
    rows=st.integers(0, 6),
    classes=st.integers(1, 9),
    dim=st.integers(1, 5),
    chunk=st.integers(1, 10),
    kind=st.sampled_from(KINDS),
    wide=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_any_shape(rows: int, classes: int, dim: int, chunk: int, kind: str, wide: bool, seed: int) -> None:
    torch.manual_seed(seed)
    dtype = torch.float64 if wide else torch.float32
    labels = torch.randint(-1, classes, (rows,))
    results = []
    for engine in ("dense", "chunked"):
        torch.manual_seed(seed)
        x = torch.randn(rows, dim, dtype=dtype, requires_grad=True)
        w = torch.randn(classes, dim, dtype=dtype, requires_grad=True)
        reduced = reduce_negatives(
            x,
            w,
            labels,
            Reduction(kind),  # type: ignore[arg-type]
            scale=2.0,
            options=EngineOptions(engine=engine, chunk_size=chunk),
        )
        assert reduced.value.dtype == dtype
        assert not bool(reduced.value.isnan().any())
        finite = torch.where(reduced.value.isinf(), 0.0, reduced.value)
        gx, gw = torch.autograd.grad(finite.sum() + reduced.target.sum(), (x, w))
        results.append((reduced.value.detach(), gx, gw))
    tolerance = 1e-10 if wide else 2e-4
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def test_half_precision_prototypes_get_gradients_of_their_dtype() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        for engine in ("dense", "chunked"):
            x, w = torch.randn(4, 8), torch.randn(6, 8).to(dtype).requires_grad_()
            result = reduce_negatives(
                x, w, torch.arange(4), Reduction("logsumexp"), options=EngineOptions(engine=engine)
            )
            assert result.value.dtype == torch.float32
            result.value.sum().backward()
            assert w.grad is not None
            assert w.grad.dtype == dtype


def test_unknown_engine() -> None:
    with pytest.raises(ValueError, match="engine='chunk' is unknown; did you mean 'chunked'"):
        reduce_negatives(
            torch.eye(2), torch.eye(2), torch.tensor([0, 1]), Reduction("max"), options=EngineOptions(engine="chunk")
        )
