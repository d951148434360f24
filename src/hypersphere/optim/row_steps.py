"""One step of SGD or AdamW on some rows of a matrix, the others untouched: the step of sampled prototypes.

On a CUDA device a Triton kernel reads and writes every number once; elsewhere, and for float64, plain torch does it.
Both compute half-precision rows in float32. `index` has no row twice.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hypersphere.engines.spec import compute_dtype
from hypersphere.engines.triton.available import kernels_run
from hypersphere.geometry import norm

_NARROW = (torch.float32, torch.bfloat16, torch.float16)


class Launch(NamedTuple):
    """How a program of the kernels runs: the numbers it moves at a time, and its warps."""

    numbers: int = 2048
    warps: int = 4


LAUNCH = Launch()


class AdamState(NamedTuple):
    """What AdamW remembers: the moving averages of gradient and square, (C, ...), and every row's own steps, (C,)."""

    mean: Tensor
    square: Tensor
    step: Tensor


def sgd_rows(
    weight: Tensor,
    grad: Tensor,
    buffer: Tensor | None,
    index: Tensor | None = None,
    *,
    lr: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    unit_eps: float | None = None,
    found_inf: Tensor | None = None,
) -> None:
    """v <- momentum v + g + decay w, w <- w - lr v, in place, for the rows `index` of the weight.

    Args:
        weight: (C, ...).
        grad: (K, ...), of the rows in `index`.
        buffer: v, like the weight; None for no momentum.
        index: (K,) int64, each row once; None for all.
        lr, momentum, weight_decay: as of `torch.optim.SGD`.
        unit_eps: the gradient is that of w~ = w / sqrt(||w||^2 + eps), not of w: it first goes through that
            normalisation, g = (g~ - w~ <w~, g~>) / ||w|| (NormFace eq. 4). None where it is the gradient of w.
        found_inf: a gradient scaler's finding; if not 0, nothing changes.
    """
    if _fuses(weight, grad, buffer):
        from hypersphere.optim import row_kernels

        grid, sizes = _launch(weight, grad)
        row_kernels.sgd[grid](
            weight, grad.contiguous(), buffer, index, found_inf, len(grad), float(lr), float(momentum),
            float(weight_decay), float(unit_eps or 0.0), UNIT=unit_eps is not None, **sizes,
        )  # fmt: skip
        return
    if found_inf is not None and bool(found_inf):
        return
    dtype = compute_dtype(weight)
    w, g = _rows(weight, index).to(dtype), grad.to(dtype)
    if unit_eps is not None:
        g = _through_norm(w, g, unit_eps)
    if weight_decay:
        g = g.add(w, alpha=weight_decay)
    if buffer is not None:
        g = (_rows(buffer, index).to(dtype) * momentum).add_(g)
        _put(buffer, index, g)
    _put(weight, index, w.add(g, alpha=-lr))


def adamw_rows(
    weight: Tensor,
    grad: Tensor,
    state: AdamState,
    index: Tensor | None = None,
    *,
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    found_inf: Tensor | None = None,
) -> None:
    """One step of AdamW in place for the rows `index` of the weight, each with its own number of steps.

    Args:
        weight: (C, ...).
        grad: (K, ...), of the rows in `index`.
        state: averages and steps of all rows.
        index: (K,) int64, each row once; None for all.
        lr, betas, eps, weight_decay: as of `torch.optim.AdamW`.
        found_inf: a gradient scaler's finding; if not 0, nothing changes.
    """
    fused = _fuses(weight, grad, state.mean, state.square)
    if found_inf is not None and not fused and bool(found_inf):
        return
    one = 1.0 if found_inf is None else (found_inf == 0).to(state.step.dtype)
    step = _rows(state.step, index) + one
    _put(state.step, index, step)
    size, spread = lr / _correction(betas[0], step), _correction(betas[1], step).rsqrt()
    if fused:
        from hypersphere.optim import row_kernels

        grid, sizes = _launch(weight, grad)
        row_kernels.adamw[grid](
            weight, grad.contiguous(), state.mean, state.square, index, found_inf, size.float(), spread.float(),
            len(grad), float(1 - lr * weight_decay), *map(float, betas), float(eps), **sizes,
        )  # fmt: skip
        return
    dtype = compute_dtype(weight)
    column = (-1, *(1,) * (weight.dim() - 1))
    g, w = grad.to(dtype), _rows(weight, index).to(dtype) * (1 - lr * weight_decay)
    mean = _rows(state.mean, index).to(dtype).lerp(g, 1 - betas[0])
    square = (_rows(state.square, index).to(dtype) * betas[1]).addcmul_(g, g, value=1 - betas[1])
    wide = square.sqrt().mul_(spread.to(dtype).view(column)).add_(eps)
    _put(state.mean, index, mean)
    _put(state.square, index, square)
    _put(weight, index, w - size.to(dtype).view(column) * mean / wide)


def _fuses(weight: Tensor, grad: Tensor, *others: Tensor | None) -> bool:
    """Whether the kernels take these tensors."""
    if not grad.numel() or not kernels_run(weight.device):
        return False
    tensors = [tensor for tensor in (weight, *others) if tensor is not None]
    whole = all(tensor.dtype in _NARROW and tensor.is_contiguous() for tensor in tensors)
    return whole and grad.dtype in _NARROW


def _launch(weight: Tensor, grad: Tensor) -> tuple[tuple[int], dict[str, Any]]:
    """The grid, and the sizes and options that a kernel is compiled for."""
    dim = weight[0].numel()
    block = 1 << (dim - 1).bit_length()
    rows = max(1, LAUNCH.numbers // block)
    sizes = {"DIM": dim, "BLOCK": block, "ROWS": rows}
    return (-(-len(grad) // rows),), {**sizes, "num_warps": LAUNCH.warps, "enable_fp_fusion": True}


def _correction(beta: float, step: Tensor) -> Tensor:
    """1 - beta^step of every row, in float64: of a moving average that began with zero."""
    return -torch.expm1(step.double() * (math.log(beta) if beta else -math.inf))


def _through_norm(w: Tensor, grad: Tensor, eps: float) -> Tensor:
    length = norm(w, eps)
    unit = w / length
    tangent: Tensor = grad - unit * torch.linalg.vecdot(unit, grad)[:, None]
    return tangent / length


def _rows(matrix: Tensor, index: Tensor | None) -> Tensor:
    return matrix if index is None else matrix[index]


def _put(matrix: Tensor, index: Tensor | None, rows: Tensor) -> None:
    if index is None:
        matrix.copy_(rows)
    else:
        matrix.index_copy_(0, index, rows.to(matrix.dtype))
