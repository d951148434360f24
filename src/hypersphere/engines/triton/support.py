"""Which reductions the Triton kernels support, and a score function as they take it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hypersphere.engines.options import Precision
from hypersphere.engines.score_functions import CircleNegative, Modulated, ScoreFunction, Similarity
from hypersphere.engines.spec import Reduction, ReductionInputs

_SPAN = 66.0


def product_dtype(precision: Precision) -> torch.dtype:
    """The dtype of the factors of the products: tf32's are float32 in memory."""
    return {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(precision, torch.float32)


def padded(number: int) -> int:
    """The next multiple of 8: how many rows and columns of the products' factors there are in memory."""
    return -(-number // 8) * 8


class KernelCurve(NamedTuple):
    """A score function as the kernels take it, and its bounds on cosines where they are known."""

    name: str
    parameter: float = 0.0
    relu: bool = False
    detached: bool = False
    threshold: Tensor | None = None
    t: Tensor | None = None
    bounds: tuple[float, float] | None = None


def kernel_curve(function: ScoreFunction) -> KernelCurve | None:
    """The score function for the kernels, if they know it."""
    if isinstance(function, Similarity):
        low = 0.0 if function.relu else -1.0
        return KernelCurve("similarity", float(function.power), function.relu, function.detached, bounds=(low, 1.0))
    if isinstance(function, CircleNegative):
        m = float(function.margin)
        return KernelCurve("circle", m, bounds=(-m * m if m > 0 else 0.0, max(0.0, 1 - m * m)))
    if isinstance(function, Modulated):
        threshold = function.threshold.to(torch.float32).contiguous()
        return KernelCurve("modulated", threshold=threshold, t=function.t.to(torch.float32))
    return None


def fusible(x: Tensor, w: Tensor, reduction: Reduction) -> bool:
    """Whether the kernels support the reduction: a known function, float32 arithmetic, something to reduce."""
    known = isinstance(reduction.score_function, Similarity | CircleNegative | Modulated)
    narrow = x.dtype == torch.float32 and w.dtype in (torch.float32, torch.bfloat16, torch.float16)
    known = known and reduction.subcenters == 1
    return known and narrow and x.device == w.device and x.numel() > 0 and w.numel() > 0


def middle_of_bounds(reduction: Reduction, scale: float | None) -> float | None:
    """The middle of the bounds of scale f, if exp(scale f - middle) within them is a float32; None otherwise."""
    curve = kernel_curve(reduction.score_function)
    cosines = reduction.normalize_prototypes and reduction.normalize_embeddings
    if not cosines or curve is None or curve.bounds is None or scale is None:
        return None
    low, high = curve.bounds
    return scale * (high + low) / 2 if abs(scale) * (high - low) / 2 <= _SPAN else None


def middle_shift(inputs: ReductionInputs) -> Tensor | None:
    """(N,): the middle of a logsumexp's bounds, if exp(n - shift) of every term within them is a float32; else None."""
    middle = middle_of_bounds(inputs.reduction, inputs.fixed_scale)
    if inputs.reduction.kind != "logsumexp" or inputs.bias is not None or middle is None:
        return None
    shift = inputs.embeddings.new_full((inputs.embeddings.shape[0],), middle)
    return shift if inputs.offset is None else shift + inputs.offset[:, 0]
