"""Steps on rows: plain torch and Triton's interpreter, against loops in float64."""

import importlib.util
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from hypersphere.optim import row_steps as steps
from hypersphere.optim.row_steps import AdamState, adamw_rows, sgd_rows

INDEX = torch.tensor([0, 3, 4, 9, 10])
SHAPES = [(11, 7), (11, 8), (11,)]


@pytest.fixture(params=["torch", "triton"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways; the kernels run in the interpreter, three rows a program, so that the last one is not full."""
    if request.param == "triton":
        if importlib.util.find_spec("triton") is None or torch.cuda.is_available():
            pytest.skip("needs Triton's interpreter")
        monkeypatch.setattr(steps, "_fuses", lambda *_: True)
        monkeypatch.setattr(steps, "LAUNCH", steps.Launch(numbers=16))
    return str(request.param)


def draw(shape: tuple[int, ...], rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(shape, dtype=torch.float64, generator=generator)
    return weight, torch.randn((rows, *shape[1:]), dtype=torch.float64, generator=generator)


def tolerance(dtype: torch.dtype) -> dict[str, Any]:
    size = {torch.float64: 1e-13, torch.float32: 2e-6, torch.bfloat16: 2e-2}[dtype]
    return {"rtol": size, "atol": size}


def sgd_by_loop(
    weight: Tensor, grad: Tensor, buffer: Tensor, index: list[int], lr: float, momentum: float, decay: float,
    unit_eps: float | None,
) -> None:  # fmt: skip
    for k, row in enumerate(index):
        w, g = weight[row].reshape(-1).tolist(), grad[k].reshape(-1).tolist()
        if unit_eps is not None:
            length = math.sqrt(sum(x * x for x in w) + unit_eps)
            along = sum(x / length * y for x, y in zip(w, g, strict=True))
            g = [(y - x / length * along) / length for x, y in zip(w, g, strict=True)]
        for i, (x, y) in enumerate(zip(w, g, strict=True)):
            v = momentum * float(buffer[row].reshape(-1)[i]) + y + decay * x
            buffer[row].view(-1)[i] = v
            weight[row].view(-1)[i] = x - lr * v


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", ["some", "all"])
@pytest.mark.parametrize("shape", SHAPES)
def test_sgd(path: str, shape: tuple[int, ...], rows: str, dtype: torch.dtype) -> None:
    if path == "triton" and dtype == torch.float64:
        pytest.skip("float64 is left to torch")
    index = INDEX if rows == "some" else None
    listed = INDEX.tolist() if rows == "some" else list(range(11))
    for unit_eps in (None, 1e-6, 0.5)[: 3 if len(shape) == 2 else 1]:
        wanted, _ = draw(shape, 0)
        wanted = wanted.to(dtype).double()
        wanted_buffer = torch.zeros_like(wanted)
        weight, buffer = wanted.to(dtype, copy=True), torch.zeros_like(wanted, dtype=dtype)
        untouched = weight.clone()
        for step in range(3):
            grad = draw(shape, len(listed), step)[1].to(dtype)
            sgd_by_loop(wanted, grad.double(), wanted_buffer, listed, 0.1, 0.9, 0.01, unit_eps)
            sgd_rows(weight, grad, buffer, index, lr=0.1, momentum=0.9, weight_decay=0.01, unit_eps=unit_eps)
        torch.testing.assert_close(weight.double(), wanted, **tolerance(dtype))
        torch.testing.assert_close(buffer.double(), wanted_buffer, **tolerance(dtype))
        others = [row for row in range(11) if row not in listed]
        assert torch.equal(weight[others], untouched[others])
        assert not buffer[others].any()


def test_sgd_without_momentum(path: str) -> None:
    wanted, grad = draw((11, 7), 5)
    weight = wanted.float()
    sgd_by_loop(wanted, grad, torch.zeros_like(wanted), INDEX.tolist(), 0.1, 0.0, 0.0, None)
    sgd_rows(weight, grad.float(), None, INDEX, lr=0.1)
    torch.testing.assert_close(weight.double(), wanted, **tolerance(torch.float32))


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("length", [0.0, 1e-30, 1e30])
def test_the_gradient_of_unit_vectors_at_extremes(path: str, length: float) -> None:
    """A row of zeros, and rows whose squares leave float32: what float64 gives, and never NaN."""
    wanted, grad = draw((3, 8), 3)
    wanted *= length
    weight, buffer = wanted.float(), torch.zeros(3, 8)
    wanted = weight.double()
    expected = torch.zeros_like(wanted)
    sgd_by_loop(wanted, grad, expected, [0, 1, 2], 0.0, 0.9, 0.0, 1e-12)
    sgd_rows(weight, grad.float(), buffer, lr=0.0, momentum=0.9, unit_eps=1e-12)
    torch.testing.assert_close(buffer.double(), expected, rtol=1e-5, atol=1e-38)


def adamw_by_loop(weight: Tensor, grad: Tensor, state: AdamState, index: list[int], **options: Any) -> None:
    lr, (beta1, beta2), eps, decay = (options[key] for key in ("lr", "betas", "eps", "weight_decay"))
    for k, row in enumerate(index):
        state.step[row] += 1
        t = int(state.step[row])
        for i, g in enumerate(grad[k].reshape(-1).tolist()):
            m, v, w = state.mean[row].view(-1), state.square[row].view(-1), weight[row].view(-1)
            m[i] = beta1 * float(m[i]) + (1 - beta1) * g
            v[i] = beta2 * float(v[i]) + (1 - beta2) * g * g
            up, spread = float(m[i]) / (1 - beta1**t), math.sqrt(float(v[i]) / (1 - beta2**t))
            w[i] = float(w[i]) * (1 - lr * decay) - lr * up / (spread + eps)


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.0, 0.0)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_adamw(path: str, shape: tuple[int, ...], dtype: torch.dtype, betas: tuple[float, float]) -> None:
    """Rows come and go: each has the corrections of its own number of steps."""
    if path == "triton" and dtype == torch.float64:
        pytest.skip("float64 is left to torch")
    options: dict[str, Any] = {"lr": 0.01, "betas": betas, "eps": 1e-8, "weight_decay": 0.1}
    wanted = draw(shape, 0)[0]
    theirs = AdamState(torch.zeros_like(wanted), torch.zeros_like(wanted), torch.zeros(11))
    weight = wanted.to(dtype, copy=True)
    ours = AdamState(torch.zeros_like(weight), torch.zeros_like(weight), torch.zeros(11))
    untouched = weight[5:9].clone()
    for step, index in enumerate([[0, 3, 4], [3, 4, 9, 10], [0, 1, 2, 3], [10]]):
        grad = draw(shape, len(index), step)[1]
        adamw_by_loop(wanted, grad, theirs, index, **options)
        adamw_rows(weight, grad.to(dtype), ours, torch.tensor(index), **options)
    torch.testing.assert_close(weight.double(), wanted, **tolerance(dtype))
    torch.testing.assert_close(ours.mean.double(), theirs.mean, **tolerance(dtype))
    torch.testing.assert_close(ours.square.double(), theirs.square, **tolerance(dtype))
    assert ours.step.tolist() == theirs.step.tolist() == [2, 1, 1, 3, 2, 0, 0, 0, 0, 1, 2]
    assert torch.equal(weight[5:9], untouched)


@pytest.mark.parametrize("found", [0.0, 1.0])
def test_after_an_overflow_nothing_changes(path: str, found: float) -> None:
    weight, grad = (tensor.float() for tensor in draw((11, 7), 5))
    if found:
        grad[0, 0] = math.inf
    before = weight.clone()
    buffer = torch.ones_like(weight)
    sgd_rows(weight, grad, buffer, INDEX, lr=0.1, momentum=0.9, found_inf=torch.tensor([found]))
    state = AdamState(torch.ones_like(weight), torch.ones_like(weight), torch.ones(11))
    adamw_rows(weight, grad, state, INDEX, lr=0.1, found_inf=torch.tensor([found]))
    changed = [not torch.equal(weight, before)]
    changed += [not torch.equal(tensor, torch.ones_like(tensor)) for tensor in (buffer, *state)]
    assert changed == [found == 0] * 5
