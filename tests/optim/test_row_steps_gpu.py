"""The kernels of steps on rows on a CUDA device, against plain torch in float64."""

import pytest
import torch

from hypersphere.optim.row_steps import AdamState, _fuses, adamw_rows, sgd_rows

pytest.importorskip("triton")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("unit_eps", [None, 1e-12])
@pytest.mark.parametrize("dim", [7, 512])
@pytest.mark.parametrize("some", [False, True])
def test_sgd(dim: int, unit_eps: float | None, dtype: torch.dtype, some: bool) -> None:
    torch.manual_seed(0)
    weight = torch.randn(1003, dim, device="cuda", dtype=dtype)
    index = torch.randperm(1003, device="cuda")[:100].sort().values if some else None
    grad = torch.randn(100 if some else 1003, dim, device="cuda", dtype=dtype)
    buffer = torch.randn_like(weight)
    assert _fuses(weight, grad, buffer)
    wanted, expected = weight.double(), buffer.double()
    options = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "unit_eps": unit_eps}
    sgd_rows(wanted, grad.double(), expected, index, **options)  # type: ignore[arg-type]
    sgd_rows(weight, grad, buffer, index, **options)  # type: ignore[arg-type]
    size = 2e-6 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(weight.double(), wanted, rtol=size, atol=size)
    torch.testing.assert_close(buffer.double(), expected, rtol=size, atol=size)


@pytest.mark.parametrize("dim", [7, 512])
@pytest.mark.parametrize("some", [False, True])
def test_adamw(dim: int, some: bool) -> None:
    torch.manual_seed(0)
    weight = torch.randn(1003, dim, device="cuda")
    index = torch.randperm(1003, device="cuda")[:100].sort().values if some else None
    grad = torch.randn(100 if some else 1003, dim, device="cuda")
    state = AdamState(torch.randn_like(weight), torch.rand_like(weight), torch.arange(1003.0, device="cuda"))
    assert _fuses(weight, grad, state.mean, state.square)
    wanted, theirs = weight.double(), AdamState(*(tensor.double() for tensor in state))
    adamw_rows(wanted, grad.double(), theirs, index, lr=0.01, weight_decay=0.1)
    adamw_rows(weight, grad, state, index, lr=0.01, weight_decay=0.1)
    for mine, other in zip((weight, *state), (wanted, *theirs), strict=True):
        torch.testing.assert_close(mine.double(), other, rtol=1e-5, atol=1e-5)
