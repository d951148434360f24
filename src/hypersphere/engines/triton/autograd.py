"""The fused engine: scores live in registers, and at most one N x C matrix of derivatives in memory.

With terms n_ij = scale_i f(z_ij) + offset_i + bias_j of the scores z, let T_ij = d value_i / d n_ij and
g_ij = T_ij f'(z_ij). The gradients are dx = r (g w) and dw = g^T (r x), r_i = grad_i scale_i. For a sum, g is known as
soon as the score is. For a logsumexp, T = exp(n - value) waits for the whole row; but where the terms are bounded,
exp(n - shift) with a shift known beforehand will do, and exp(shift - value) joins the factor r. So one pass over the
scores stores g, in the dtype of the products, and the backward pass is two products. Where g would not fit the budget,
or a bound is missing, the backward pass makes g again, wave by wave of classes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hypersphere.engines.options import EngineOptions
from hypersphere.engines.spec import Reduced, ReductionInputs
from hypersphere.engines.triton.support import kernel_curve, middle_shift, product_dtype

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
        from hypersphere.engines.triton.launch import Launcher

        assert options.precision is not None
        precision, budget = options.precision, options.budget
        x = inputs.embeddings
        kind, needs = inputs.reduction.kind, ctx.needs_input_grad[2:]
        launch = Launcher(inputs, precision)
        target = launch.pair_scores(inputs.labels)
        index = best = g = shift = by_scale = by_offset = None
        if kind == "max":
            index = launch.argmax()
            best = launch.pair_scores(index)
            value = torch.where(index >= 0, _terms(inputs, best, index), float("-inf"))
        else:
            curve, itemsize = kernel_curve(inputs.reduction.score_function), product_dtype(precision).itemsize
            limit = _default_budget(x.device) if budget is None else budget
            if kind == "logsumexp" and curve is not None:
                shift = middle_shift(inputs, curve)
            bounded = precision != "float16" and (kind != "logsumexp" or shift is not None)
            if bounded and not needs[4] and any(needs[:2]) and itemsize * x.shape[0] * launch.width <= limit:
                g = launch.new_g(launch.width)
            value, by_scale, by_offset = launch.reduce(g, shift, needs[2], needs[3])
            ctx.wave = _wave(x.shape[0], launch.width, limit // itemsize)
        if index is not None:
            ctx.mark_non_differentiable(index)
        saved = (inputs.labels, value, index, best, g, shift, by_scale, by_offset, *launch.buffers)
        ctx.save_for_backward(*inputs.differentiable, *saved)
        ctx.reduction, ctx.precision = inputs.reduction, precision
        return target, value, index

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_target: Tensor, grad_value: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
        from hypersphere.engines.triton.launch import Launcher

        x, w, scale, offset, bias, labels, value, index, best, g, shift, by_scale, by_offset, *buffers = (
            ctx.saved_tensors
        )
        inputs = ReductionInputs(x, w, scale, offset, bias, labels, ctx.reduction)
        function, needs = ctx.reduction.score_function, ctx.needs_input_grad[2:]
        grad_target, grad_value = grad_target.contiguous(), grad_value.contiguous()
        grad_x = grad_w = grad_bias = chosen = None
        with torch.autocast(x.device.type, enabled=False):
            launch = Launcher(inputs, ctx.precision, buffers)
            if index is not None:
                found = torch.where(index >= 0, grad_value, 0.0)
                by_scale, by_offset = function.value(best[:, None])[:, 0], (index >= 0).to(x.dtype)
                chosen = (found[:, None] * scale * function.derivative(best[:, None]))[:, 0].contiguous()
                factor = product = None
                grad_w = torch.zeros_like(w, dtype=torch.float32) if needs[1] else None
                grad_bias = launch.scatter_bias(index, found) if needs[4] else None
            else:
                factor, product, grad_w, grad_bias = launch.products(g, shift, value, grad_value, needs, ctx.wave)
            if needs[0]:
                grad_x = launch.embeddings_gradient(grad_target, factor, product, index, chosen)
            if grad_w is not None:
                if index is not None and chosen is not None:
                    launch.scatter(grad_w, index, chosen)
                launch.scatter(grad_w, labels, grad_target)
                grad_w = grad_w.to(w.dtype)
            grad_scale = (by_scale * grad_value)[:, None].sum_to_size(scale.shape) if needs[2] else None
            grad_offset = (by_offset * grad_value)[:, None].sum_to_size(offset.shape) if needs[3] else None
        return None, None, grad_x, grad_w, grad_scale, grad_offset, grad_bias


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


def _default_budget(device: torch.device) -> int:
    if device.type != "cuda":
        return 2**28
    return int(torch.cuda.get_device_properties(device).total_memory) // 4
