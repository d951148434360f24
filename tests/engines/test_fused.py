"""The fused engine in Triton's interpreter, against the dense one in float64."""

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.engines import (
    KINDS,
    PRECISIONS,
    CircleNegative,
    DividedAngle,
    EngineOptions,
    Kind,
    Modulated,
    Reduction,
    Riesz,
    ScoreFunction,
    Similarity,
    reduce,
    reduce_negatives,
    use_triton,
)
from hypersphere.engines.options import ambient_precision
from hypersphere.engines.triton import autograd, available
from tests.engines.rounding import rounding_dense

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU has tests of its own")

N, C, D = 18, 37, 10
LABELS = torch.tensor([0, 36, 3, -1, 3, 31, 32, 7, 7, 7, 35, -1, 1, 2, 16, 15, 0, 36])


def functions(dtype: torch.dtype) -> dict[str, ScoreFunction]:
    threshold = torch.linspace(-0.3, 0.4, N, dtype=dtype)[:, None]
    return {
        "identity": Similarity(),
        "relu": Similarity(relu=True),
        "power": Similarity(power=3),
        "power-relu": Similarity(power=2.5, relu=True),
        "small-power": Similarity(power=0.5),
        "detached": Similarity(power=4, detached=True),
        "circle": CircleNegative(0.25),
        "modulated": Modulated(threshold, torch.tensor(0.3, dtype=dtype)),
    }


def tensors(dtype: torch.dtype, *names: str) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)
    made = {
        "embeddings": torch.randn(N, D, generator=generator) * 2,
        "prototypes": torch.randn(C, D, generator=generator),
        "scale": torch.rand(N, generator=generator) * 4 + 2,
        "offset": torch.randn(N, generator=generator),
        "bias": torch.randn(C, generator=generator),
    }
    wanted = ("embeddings", "prototypes", *names)
    return {name: value.to(dtype).requires_grad_() for name, value in made.items() if name in wanted}


def results(
    engine: str, kind: Kind, function: str, *names: str, normalize: bool = True, scale: float = 8.0, **options: Any
) -> dict[str, Tensor]:
    """Value, target and gradients, in float64 of the dense engine and in float32 of the fused one."""
    dtype = torch.float64 if engine == "dense" else torch.float32
    leaves = tensors(dtype, *names)
    reduction = Reduction(
        kind, functions(dtype)[function], normalize_prototypes=normalize, normalize_embeddings=normalize
    )
    keywords: dict[str, Any] = {"scale": scale, **leaves}
    result = reduce_negatives(
        labels=LABELS, reduction=reduction, **keywords, options=EngineOptions(engine=engine, **options)
    )
    weights = torch.linspace(-1, 2, N, dtype=dtype)
    loss = (result.value * weights).sum() + (result.target.sin() * weights).sum()
    gradients = torch.autograd.grad(loss, list(leaves.values()))
    found: dict[str, Any] = {
        "value": result.value.detach(),
        "target": result.target.detach(),
        **dict(zip(leaves, gradients, strict=True)),
    }
    return found if result.argmax is None else {**found, "argmax": result.argmax.to(dtype)}


def assert_close(ours: dict[str, Tensor], theirs: dict[str, Tensor], tolerance: float) -> None:
    for key, value in theirs.items():
        size = float(value.norm())
        assert float((ours[key].double() - value).norm()) <= tolerance * size, key


@pytest.mark.parametrize(
    ("kind", "function"),
    [*((kind, "power-relu") for kind in KINDS), *(("logsumexp", name) for name in functions(torch.float32))],
)
def test_everything_that_is_differentiable(kind: Kind, function: str) -> None:
    names = ("scale", "offset", "bias")
    ours = results("triton", kind, function, *names, precision="float32")
    assert_close(ours, results("dense", kind, function, *names), 3e-6)


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("logsumexp", "identity"),
        ("logsumexp", "relu"),
        ("softplus_sum", "power"),
        ("hinge_sum", "circle"),
        ("sum", "power"),
    ],
)
def test_stored_and_made_again_are_dense(kind: Kind, function: str) -> None:
    expected = results("dense", kind, function, "offset")
    for budget in (None, 0):
        assert_close(results("triton", kind, function, "offset", precision="float32", budget=budget), expected, 3e-6)


@pytest.mark.parametrize("kind", ["logsumexp", "max"])
def test_raw_inner_products(kind: Kind) -> None:
    ours = results("triton", kind, "identity", "bias", normalize=False, precision="float32")
    assert_close(ours, results("dense", kind, "identity", "bias", normalize=False), 3e-5)


@pytest.mark.parametrize("precision", ["bfloat16", "float16", "tf32"])
@pytest.mark.parametrize(("kind", "budget"), [("logsumexp", None), ("logsumexp", 0), ("softplus_sum", None)])
def test_rounded_products(kind: Kind, precision: str, budget: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = results("triton", kind, "power", precision=precision, budget=budget)
    monkeypatch.setattr(reduce, "reduce_dense", rounding_dense(precision, interpreted=True))
    theirs = results("dense", kind, "power")
    assert_close({"value": ours["value"]}, {"value": theirs["value"]}, 3e-6)
    assert_close(ours, theirs, 1.2e-2 if precision == "bfloat16" else 1e-3)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("dim", [10, 264])
def test_tiles_of_a_gpu(dim: int, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's own tiles, and what it asks of a tensor map (cuTensorMapEncodeTiled), which the interpreter does not."""
    from hypersphere.engines.triton import launch, tiles

    real, described = tiles.tile_of, launch._described
    dots = "ieee" if precision == "float32" else "tf32"
    monkeypatch.setattr(launch, "tile_of", lambda name, _, itemsize, count: real(name, dots, itemsize, count))

    def checked(matrix: Tensor, m: int, n: int) -> Any:
        assert matrix.data_ptr() % 16 == 0
        assert matrix.stride(0) * matrix.itemsize % 16 == 0
        assert n * matrix.itemsize % 16 == 0
        assert max(m, n) <= 256
        return described(matrix, m, n)

    monkeypatch.setattr(launch, "_described", checked)
    generator = torch.Generator().manual_seed(0)
    labels = torch.tensor([0, 300, -1])
    found = []
    for engine in ("triton", "dense"):
        dtype = torch.float32 if engine == "triton" else torch.float64
        x = torch.randn(3, dim, generator=generator.manual_seed(1)).to(dtype).requires_grad_()
        w = torch.randn(301, dim, generator=generator).to(dtype).requires_grad_()
        if engine == "dense":
            monkeypatch.setattr(reduce, "reduce_dense", rounding_dense(precision, interpreted=True))
        reduction = Reduction("logsumexp", normalize_embeddings=True)
        for budget in (None, 0) if engine == "triton" else (None,):
            result = reduce_negatives(
                x,
                w,
                labels,
                reduction,
                scale=8.0,
                options=EngineOptions(engine=engine, precision=precision, budget=budget),  # type: ignore[arg-type]
            )
            grads = torch.autograd.grad((result.value + result.target).sum(), (x, w))
            found.append({"value": result.value.detach(), "x": grads[0], "w": grads[1]})
    for ours in found[:-1]:
        assert_close({"value": ours["value"]}, {"value": found[-1]["value"]}, 3e-6)
        assert_close(ours, found[-1], 1.2e-2 if precision == "bfloat16" else 1e-3)


@pytest.mark.parametrize("cosine", [-1.0, 1.0])
@pytest.mark.parametrize("scale", [64.0, 1e4])
def test_a_logsumexp_at_its_bounds(cosine: float, scale: float) -> None:
    x = torch.tensor([[1.0, 0.0]]).requires_grad_()
    w = torch.tensor([[0.0, 1.0], [cosine, 0.0], [cosine, 0.0]]).requires_grad_()
    for precision in ("float32", "bfloat16"):
        result = reduce_negatives(
            x,
            w,
            torch.tensor([0]),
            Reduction("logsumexp", normalize_embeddings=True),
            scale=scale,
            options=EngineOptions(engine="triton", precision=precision),
        )
        assert result.value.item() == pytest.approx(scale * cosine + 0.6931472, rel=1e-6)
        gx, gw = torch.autograd.grad(result.value.sum(), (x, w))
        torch.testing.assert_close(gx, torch.zeros(1, 2), rtol=0, atol=1e-4)
        torch.testing.assert_close(gw, torch.zeros(3, 2), rtol=0, atol=1e-4)


@pytest.mark.parametrize(("kind", "classes"), [("logsumexp", 0), ("logsumexp", 1), ("max", 1), ("softplus_sum", 1)])
def test_no_class_reduces_without_nan(kind: Kind, classes: int) -> None:
    x, w = torch.eye(3, 4).requires_grad_(), torch.ones(classes, 4, requires_grad=True)
    labels = torch.full((3,), classes - 1)
    for budget in (None, 0):
        result = reduce_negatives(
            x, w, labels, Reduction(kind), options=EngineOptions(engine="triton", precision="bfloat16", budget=budget)
        )
        assert result.value.tolist() == [float("-inf") if kind in ("logsumexp", "max") else 0.0] * 3
        if kind == "max":
            assert result.argmax is not None
            assert result.argmax.tolist() == [-1] * 3
        finite = torch.where(result.value.isinf(), 0.0, result.value)
        gx, gw = torch.autograd.grad(finite.sum() + result.target.sum(), (x, w))
        assert bool(gx.isfinite().all())
        assert bool(gw.isfinite().all())


def test_ties_go_to_the_lowest_class() -> None:
    x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    w = torch.zeros(100, 2)
    w[:, 1] = -1
    w[[40, 70, 99]] = torch.tensor([2.0, 0.0])
    labels = torch.tensor([0, 40, -1])
    for precision in ("float32", "bfloat16"):
        result = reduce_negatives(
            x, w, labels, Reduction("max"), options=EngineOptions(engine="triton", precision=precision)
        )
        assert result.argmax is not None
        assert result.argmax.tolist() == [40, 70, 40]


def test_no_more_in_memory_than_the_budget_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from hypersphere.engines.triton.launch import Launcher

    widths: list[int] = []
    real = Launcher.new_g
    monkeypatch.setattr(Launcher, "new_g", lambda self, width: widths.append(width) or real(self, width))  # type: ignore[func-returns-value]
    x, w, labels = torch.randn(4, 3, requires_grad=True), torch.randn(301, 3, requires_grad=True), torch.arange(4)
    reduction = Reduction("logsumexp", normalize_embeddings=True)
    for budget, expected in ((0, [128]), (2 * 4 * 300, [256]), (None, [304])):
        result = reduce_negatives(
            x, w, labels, reduction, options=EngineOptions(engine="triton", precision="bfloat16", budget=budget)
        )
        result.value.sum().backward()
        assert widths == expected
        widths.clear()


@pytest.mark.parametrize("name", ["curricularface", "sphereface2", "softmax"])
def test_heads_use_it_unchanged(name: str) -> None:
    torch.manual_seed(0)
    reference = hs.create_head(name, dim=D, num_classes=C, engine="dense", dtype=torch.float64).eval().double()
    head = hs.create_head(name, dim=D, num_classes=C, engine="triton", precision="float32").eval()
    head.load_state_dict(reference.state_dict())
    found = []
    for model in (head, reference):
        x = torch.randn(N, D, generator=torch.Generator().manual_seed(1)).to(model.weight.dtype).requires_grad_()
        loss = model(x, LABELS)
        leaves = [x, *model.parameters()]
        found.append({str(i): grad for i, grad in enumerate([loss.detach(), *torch.autograd.grad(loss, leaves)])})
    assert_close(found[0], found[1], 1e-5)


def test_strided_inputs_and_half_precision_prototypes() -> None:
    x, w, labels = torch.randn(10, 5).T.contiguous().T, torch.randn(5, 12).T, torch.arange(10)
    expected = reduce_negatives(x, w, labels, Reduction("logsumexp"), options=EngineOptions(engine="dense")).value
    ours = reduce_negatives(
        x, w, labels, Reduction("logsumexp"), options=EngineOptions(engine="triton", precision="float32")
    ).value
    torch.testing.assert_close(ours, expected)
    for dtype in (torch.float16, torch.bfloat16):
        half = w.to(dtype).requires_grad_()
        value = reduce_negatives(
            x, half, labels, Reduction("logsumexp"), options=EngineOptions(engine="triton", precision="bfloat16")
        ).value
        assert value.dtype == torch.float32
        (grad,) = torch.autograd.grad(value.sum(), half)
        assert grad.dtype == dtype


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The engines that ran, by name."""
    ran: list[str] = []
    for module, name in ((reduce, "reduce_fused"), (reduce, "reduce_chunked")):
        real = getattr(module, name)

        def spy(*args: Any, real: Any = real, name: str = name) -> Any:
            ran.append(name.removeprefix("reduce_"))
            return real(*args)

        monkeypatch.setattr(module, name, spy)
    return ran


def call(
    engine: str = "triton", function: ScoreFunction | None = None, dtype: torch.dtype = torch.float32, **options: Any
) -> None:
    x = torch.eye(2, dtype=dtype)
    reduce_negatives(
        x,
        x,
        torch.tensor([0, 1]),
        Reduction("sum", function or Similarity()),
        options=EngineOptions(engine=engine, **options),
    )


def test_what_goes_where(seen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    call()
    call("auto", precision="bfloat16")
    call(function=Riesz(2))
    call(function=DividedAngle(1.4))
    call(dtype=torch.float64)
    assert seen == ["fused", "chunked", "chunked", "chunked", "chunked"]
    seen.clear()
    with use_triton(False):
        call()
        with use_triton(True):
            call()
    monkeypatch.setenv(available.VARIABLE, "0")
    call()
    with use_triton(True):
        call()
    assert seen == ["chunked", "fused", "chunked", "fused"]


def test_without_triton_there_is_one_warning(seen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(available, "triton_installed", lambda: False)
    available._warn_once.cache_clear()
    with pytest.warns(RuntimeWarning, match="needs the package triton"):
        call()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call()
    assert seen == ["chunked", "chunked"]


def test_the_precision_is_the_one_around() -> None:
    x = torch.eye(2)
    assert ambient_precision(x) == "float32"
    assert ambient_precision(x.half()) == "float16"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ambient_precision(x) == "bfloat16"
        assert ambient_precision(x.double()) != "bfloat16"
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        assert ambient_precision(x) == "tf32"
    finally:
        torch.set_float32_matmul_precision(before)
    with pytest.raises(ValueError, match="precision='bfloat15' is unknown; did you mean 'bfloat16'"):
        hs.create_head("arcface", dim=2, num_classes=2, precision="bfloat15")  # type: ignore[call-overload]


def test_waves_are_whole_tiles() -> None:
    assert autograd._wave(1024, 10**6, 2**30) == 2**17
    assert autograd._wave(1024, 10**6, 0) == 128
    assert autograd._wave(1000, 300, 2**30) == 384
    assert autograd._wave(1000, 10**6, 10**6) == 896


def test_importing_the_package_does_not_import_the_kernels() -> None:
    code = "import sys, hypersphere; sys.exit('hypersphere.engines.triton.kernels' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(Path(reduce.__file__).parents[2])}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
