"""The fused engine: scores live in registers, and at most one N x C matrix of derivatives in memory.

With terms n_ij = scale_i f(z_ij) + offset_i + bias_j of the scores z, let T_ij = d value_i / d n_ij and
g_ij = T_ij f'(z_ij). The gradients are dx = r (g w) and dw = g^T (r x), r_i = grad_i scale_i. For a sum, g is known as
soon as the score is. For a logsumexp, T = exp(n - value) waits for the whole row; but where the terms are bounded,
exp(n - shift) with a shift known beforehand will do, and exp(shift - value) joins the factor r. So one pass over the
scores stores g, in the dtype of the products, and the backward pass is two products. Where g would not fit the budget,
or a bound is missing, the backward pass makes g again, wave by wave of classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hypersphere.engines.options import EngineOptions
from hypersphere.engines.spec import Reduced, ReductionInputs
from hypersphere.engines.triton.support import middle_shift, padded, product_dtype

_WAVE = 2**27


def reduce_fused(inputs: ReductionInputs, options: EngineOptions) -> Reduced:
    """Reduce the negatives of every row in fused kernels.

    Args:
        inputs: of a reduction that is `fusible`.
        options: whose `precision` is that of the products' factors (sums are in float32, and so is the target's score)
            and whose `budget` is the bytes for the matrix g, by default a quarter of the device's memory.
    """
    target, value, index = _Fused.apply(inputs, options, *inputs.differentiable)  # type: ignore[no-untyped-call]
    return Reduced(target, value, index)


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, inputs: ReductionInputs, options: EngineOptions, *_: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        target, value, kept = fused_forward(inputs, options, ctx.needs_input_grad[2:])
        if kept.argmax is not None:
            ctx.mark_non_differentiable(kept.argmax)
        ctx.save_for_backward(*inputs.differentiable, inputs.labels, value, *kept)
        ctx.reduction, ctx.options = inputs.reduction, options
        return target, value, kept.argmax

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_target: Tensor, grad_value: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
        x, w, scale, offset, bias, labels, value, *kept = ctx.saved_tensors
        inputs = ReductionInputs(x, w, scale, offset, bias, labels, ctx.reduction)
        needs = ctx.needs_input_grad[2:]
        return None, None, *fused_backward(inputs, ctx.options, needs, value, Kept(*kept), (grad_target, grad_value))


class Kept(NamedTuple):
    """What the backward pass needs again: of a maximum its class and score, else g, shift and derivatives.

    `unit`, `inverse`, `x` and `inverse_x` are the launcher's buffers.
    """

    argmax: Tensor | None
    best: Tensor | None
    g: Tensor | None
    shift: Tensor | None
    by_scale: Tensor | None
    by_offset: Tensor | None
    unit: Tensor | None
    inverse: Tensor | None
    x: Tensor | None
    inverse_x: Tensor | None


def fused_forward(
    inputs: ReductionInputs, options: EngineOptions, needs: Sequence[bool]
) -> tuple[Tensor, Tensor, Kept]:
    """(N,) each, the target's score and the reduced value; and what is kept for the gradients that are needed."""
    from hypersphere.engines.triton.launch import Launcher

    assert options.precision is not None
    launch = Launcher(inputs, options.precision)
    index = best = g = shift = by_scale = by_offset = None
    if inputs.reduction.kind == "max":
        index = launch.argmax()
        best = launch.pair_scores(index)
        value = torch.where(index >= 0, _terms(inputs, best, index), float("-inf"))
    else:
        shift = middle_shift(inputs)
        if stores_g(inputs, options, needs, shift):
            g = launch.new_g(launch.width)
        value, by_scale, by_offset = launch.reduce(g, shift, needs[2], needs[3])
    return launch.target, value, Kept(index, best, g, shift, by_scale, by_offset, *launch.buffers)


def fused_backward(
    inputs: ReductionInputs,
    options: EngineOptions,
    needs: Sequence[bool],
    value: Tensor,
    kept: Kept,
    grads: tuple[Tensor, Tensor],
) -> tuple[Tensor | None, ...]:
    """The gradients of `inputs.differentiable`, those that are needed, from `grads`, those of target and value."""
    from hypersphere.engines.triton.launch import Launcher

    assert options.precision is not None
    x, w, scale, offset = inputs.embeddings, inputs.prototypes, inputs.scale, inputs.offset
    index, best, g, shift, by_scale, by_offset, *buffers = kept
    function = inputs.reduction.score_function
    grad_target, grad_value = (grad.contiguous() for grad in grads)
    grad_x = grad_w = grad_bias = chosen = None
    with torch.autocast(x.device.type, enabled=False):
        launch = Launcher(inputs, options.precision, buffers)
        if index is not None and best is not None:
            found = torch.where(index >= 0, grad_value, 0.0)
            by_scale, by_offset = function.value(best[:, None])[:, 0], (index >= 0).to(x.dtype)
            chosen = (found[:, None] * scale * function.derivative(best[:, None]))[:, 0].contiguous()
            factor = product = None
            grad_w = torch.zeros_like(w, dtype=torch.float32) if needs[1] else None
            grad_bias = launch.scatter_bias(index, found) if needs[4] else None
        else:
            wave = _wave(
                x.shape[0], launch.width, _budget(inputs, options) // product_dtype(options.precision).itemsize
            )
            factor, product, grad_w, grad_bias = launch.products(g, shift, value, grad_value, needs, wave)
        if needs[0]:
            grad_x = launch.embeddings_gradient(grad_target, factor, product, index, chosen)
        if grad_w is not None:
            if index is not None and chosen is not None:
                launch.scatter(grad_w, index, chosen)
            launch.scatter(grad_w, inputs.labels, grad_target)
            grad_w = grad_w.to(w.dtype)
        grad_scale, grad_offset = (
            (derivative * grad_value)[:, None].sum_to_size(column.shape)
            if needed and column is not None and derivative is not None
            else None
            for derivative, column, needed in ((by_scale, scale, needs[2]), (by_offset, offset, needs[3]))
        )
    return grad_x, grad_w, grad_scale, grad_offset, grad_bias


def fake_kept(inputs: ReductionInputs, options: EngineOptions, needs: Sequence[bool]) -> Kept:
    """What `fused_forward` keeps, with shapes and dtypes but no numbers."""
    assert options.precision is not None
    x, reduction, dtype = inputs.embeddings, inputs.reduction, product_dtype(options.precision)
    (rows, dim), classes = x.shape, inputs.prototypes.shape[0]
    width, depth = padded(classes), padded(dim)
    is_max, shift = reduction.kind == "max", middle_shift(inputs)
    kept_g = not is_max and stores_g(inputs, options, needs, shift)
    return Kept(
        argmax=x.new_empty(rows, dtype=torch.int64) if is_max else None,
        best=x.new_empty(rows) if is_max else None,
        g=x.new_empty(rows, width, dtype=dtype) if kept_g else None,
        shift=shift,
        by_scale=x.new_empty(rows) if needs[2] and not is_max else None,
        by_offset=x.new_empty(rows) if needs[3] and not is_max else None,
        unit=x.new_empty(width, depth, dtype=dtype),
        inverse=x.new_empty(classes) if reduction.normalize_prototypes else None,
        x=x.new_empty(rows, depth, dtype=dtype),
        inverse_x=x.new_empty(rows) if reduction.normalize_embeddings else None,
    )


def stores_g(inputs: ReductionInputs, options: EngineOptions, needs: Sequence[bool], shift: Tensor | None) -> bool:
    """Whether the forward pass stores g: it is needed, the terms are bounded, and it fits the budget."""
    assert options.precision is not None
    bounded = options.precision != "float16" and (inputs.reduction.kind != "logsumexp" or shift is not None)
    size = product_dtype(options.precision).itemsize * inputs.embeddings.shape[0] * padded(inputs.prototypes.shape[0])
    return bounded and not needs[4] and any(needs[:2]) and size <= _budget(inputs, options)


def _terms(inputs: ReductionInputs, score: Tensor, index: Tensor) -> Tensor:
    """(N,): the terms of one score per row, in float32."""
    terms = inputs.reduction.score_function.value(score[:, None]) * inputs.scale
    if inputs.offset is not None:
        terms = terms + inputs.offset
    if inputs.bias is not None:
        terms = terms + inputs.bias[index.clamp(min=0)][:, None].to(terms.dtype)
    return terms[:, 0]


def _wave(rows: int, classes: int, limit: int) -> int:
    """Classes per wave where g is made again: a multiple of 128 with at most `limit` and 2^27 scores, but 128."""
    fitting = min(limit, _WAVE) // rows // 128 * 128
    return max(128, min(fitting, -(-classes // 128) * 128))


def _budget(inputs: ReductionInputs, options: EngineOptions) -> int:
    """Bytes for g, by default a quarter of the device's memory."""
    if options.budget is not None:
        return options.budget
    device = inputs.embeddings.device
    return int(torch.cuda.get_device_properties(device).total_memory) // 4 if device.type == "cuda" else 2**28
