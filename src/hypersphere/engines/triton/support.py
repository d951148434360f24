"""The closed list: what the fused engine can do, and how its kernels are told."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from hypersphere.engines.score_functions import CircleNegative, Modulated, ScoreFunction, Similarity
from hypersphere.engines.spec import ReductionInputs

Precision = Literal["bfloat16", "float16", "tf32", "float32"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
_SPAN = 66.0


def product_dtype(precision: Precision) -> torch.dtype:
    """The dtype of the factors of the products: tf32's are float32 in memory."""
    return {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(precision, torch.float32)


def ambient_precision(embeddings: Tensor) -> Precision:
    """What a call's products may be rounded to: autocast's dtype, else that of the embeddings, else torch's setting.

    `torch.set_float32_matmul_precision("high")` asks for tf32; float32 without it stays float32.
    """
    if torch.compiler.is_compiling():
        return "float32"
    dtype, device = embeddings.dtype, embeddings.device.type
    if torch.is_autocast_enabled(device) and dtype != torch.float64:
        dtype = torch.get_autocast_dtype(device)
    if dtype == torch.bfloat16:
        return "bfloat16"
    if dtype == torch.float16:
        return "float16"
    return "float32" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether this is a CPU with instructions for products of bfloat16."""
    return device.type == "cpu" and any(
        getattr(torch.cpu, name, bool)() for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    )


class Bend(NamedTuple):
    """A curve as the kernels take it, and its bounds on cosines where they are known."""

    name: str
    parameter: float = 0.0
    relu: bool = False
    detached: bool = False
    threshold: Tensor | None = None
    t: Tensor | None = None
    bounds: tuple[float, float] | None = None


def bend_of(curve: ScoreFunction) -> Bend | None:
    """The curve for the kernels, if they know it."""
    if isinstance(curve, Similarity):
        low = 0.0 if curve.relu else -1.0
        return Bend("similarity", float(curve.power), curve.relu, curve.detached, bounds=(low, 1.0))
    if isinstance(curve, CircleNegative):
        m = float(curve.margin)
        return Bend("circle", m, bounds=(-m * m if m > 0 else 0.0, max(0.0, 1 - m * m)))
    if isinstance(curve, Modulated):
        threshold = curve.threshold.to(torch.float32).contiguous()
        return Bend("modulated", threshold=threshold, t=curve.t.to(torch.float32))
    return None


def fusible(problem: ReductionInputs) -> bool:
    """Whether the problem is on the closed list: a known curve, float32 arithmetic, something to reduce."""
    x, w, curve = problem.embeddings, problem.prototypes, problem.reduction.score_function
    known = isinstance(curve, Similarity | CircleNegative | Modulated)
    narrow = x.dtype == torch.float32 and w.dtype in (torch.float32, torch.bfloat16, torch.float16)
    return known and narrow and x.device == w.device and x.numel() > 0 and w.numel() > 0


def middle_shift(problem: ReductionInputs, bend: Bend) -> Tensor | None:
    """(N,): the middle of a logsumexp's bounds, if exp(n - shift) of every term within them is a float32; else None."""
    reduction = problem.reduction
    cosines = reduction.normalize_prototypes and reduction.normalize_embeddings
    if not cosines or bend.bounds is None or problem.fixed_scale is None or problem.bias is not None:
        return None
    low, high = bend.bounds
    if abs(problem.fixed_scale) * (high - low) / 2 > _SPAN:
        return None
    rows = problem.embeddings.shape[0]
    shift = problem.embeddings.new_full((rows,), problem.fixed_scale * (high + low) / 2)
    return shift if problem.offset is None else shift + problem.offset[:, 0]
