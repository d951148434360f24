"""Checks of what a head is called with, and the way into float32 and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from hypersphere.losses import Objective

_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
REALS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_DEGENERATE = 1e-3


def check_embeddings(embeddings: Tensor, dim: int | None, *, values: bool = True) -> None:
    """Embeddings must be a finite floating (N, dim) tensor; without `values`, they may hold NaN or infinity."""
    if not isinstance(embeddings, Tensor) or embeddings.dtype not in REALS:
        kind = embeddings.dtype if isinstance(embeddings, Tensor) else type(embeddings).__name__
        raise ValueError(f"embeddings must be a floating tensor, not {kind}; of 16, 32 or 64 bits")
    check_dense("embeddings", embeddings)
    if embeddings.dim() != 2 or embeddings.shape[1] == 0 or embeddings.shape[1] != (dim or embeddings.shape[1]):
        wanted = f"(N, {dim})" if dim is not None else "(N, dim)"
        raise ValueError(f"embeddings have shape {tuple(embeddings.shape)}; this loss takes {wanted}")
    if not values or torch.compiler.is_compiling():
        return
    finite = embeddings.isfinite()
    if not bool(finite.all()):
        bad = (~finite).any(1).nonzero()[:, 0]
        raise ValueError(f"embeddings hold NaN or infinity in {len(bad)} of {len(finite)} rows, first in row {bad[0]}")


def check_dense(name: str, tensor: Tensor) -> None:
    """Raise ValueError for a sparse, nested or packed tensor, and one of the meta device, which has no numbers."""
    if tensor.is_nested or tensor.layout != torch.strided:
        raise ValueError(f"{name} must be a dense tensor, not one of layout {tensor.layout}; use .to_dense()")
    if tensor.device.type == "meta":
        raise ValueError(f"{name} are on the device meta, which holds no numbers")


def check_place(device: Any, dtype: Any) -> None:
    """Raise ValueError unless prototypes of this dtype can be made on this device."""
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype in REALS):
        raise ValueError(f"dtype={dtype!r:.80} must be a floating torch.dtype of 16, 32 or 64 bits")
    try:
        torch.empty(0, device=device, dtype=dtype)
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"device={device!r:.80} cannot be used ({str(error).splitlines()[0]:.200})") from None


def check_labels(labels: Tensor, embeddings: Tensor, num_classes: int | None, *, values: bool = True) -> Tensor:
    """Labels must be one integer per embedding, at least -1 and below num_classes. Returns them as int64.

    Without `values`, their range is not looked at.
    """
    if not isinstance(labels, Tensor) or labels.dtype not in _INTEGERS:
        kind = labels.dtype if isinstance(labels, Tensor) else type(labels).__name__
        raise ValueError(f"labels must be a tensor of integers, not {kind}")
    check_dense("labels", labels)
    if labels.shape != embeddings.shape[:1]:
        raise ValueError(f"labels have shape {tuple(labels.shape)}; {len(embeddings)} embeddings ask for one each")
    if labels.device != embeddings.device:
        raise ValueError(f"labels are on {labels.device}, embeddings on {embeddings.device}")
    labels = labels.to(torch.int64)
    if not values or torch.compiler.is_compiling():
        return labels
    wrong = labels < -1
    if num_classes is not None:
        wrong = wrong | (labels >= num_classes)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0, 0])
        wanted = "-1 or more" if num_classes is None else f"0 to {num_classes - 1} ({num_classes} classes), or -1"
        raise ValueError(f"label {int(labels[row])} in row {row} is out of range: labels must be {wanted}")
    return labels


def in_range(embeddings: Tensor, labels: Tensor, num_classes: int) -> bool:
    """Whether all embeddings are finite and all labels those of a class, or -1: the device is waited for once."""
    if not len(labels):
        return True
    least, most = labels.aminmax()
    finite = torch.linalg.vector_norm(embeddings.detach(), math.inf) < math.inf  # the largest entry, or NaN
    return bool(finite & (least >= -1) & (most < num_classes))


def check_rows(rows: Mapping[str, Tensor], labels: Tensor, objective: Objective) -> None:
    """Parameters per sample must be ones the loss takes, one number per sample."""
    for name, row in rows.items():
        if name not in objective.row_parameters:
            taken = ", ".join(objective.row_parameters) or "no parameters"
            raise ValueError(f"{objective.name} takes {taken} per sample, not {name}")
        if not isinstance(row, Tensor) or row.shape != labels.shape:
            shape = tuple(row.shape) if isinstance(row, Tensor) else type(row).__name__
            raise ValueError(f"{name} must have one number per sample, shape {tuple(labels.shape)}, not {shape}")
        if row.dtype not in (*REALS, *_INTEGERS) or row.device != labels.device:
            raise ValueError(f"{name} must be real numbers on {labels.device}, not {row.dtype} on {row.device}")
        check_dense(name, row)


def to_compute_dtype(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x in the dtype of loss arithmetic.

    The gradient of a unit vector grows as 1/||x||, up to 1e6: for vectors next to zero it may exceed float16. There,
    and only there, it saturates; an overflow anywhere else still shows as infinity, which gradient scalers rely on.
    """
    if x.dtype == dtype:
        return x
    return _ToComputeDtype.apply(x, dtype)  # type: ignore[no-any-return,no-untyped-call]


class _ToComputeDtype(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: torch.dtype) -> Tensor:
        wide = x.to(dtype)
        ctx.dtype = x.dtype
        ctx.save_for_backward(torch.linalg.vector_norm(wide, dim=1, keepdim=True) < _DEGENERATE)
        return wide

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (degenerate,) = ctx.saved_tensors
        limits = torch.finfo(ctx.dtype)
        return torch.where(degenerate, grad.clamp(limits.min, limits.max), grad).to(ctx.dtype), None
