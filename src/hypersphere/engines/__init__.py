"""The reduction over the negatives: the only work that grows with N x C."""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.core import check_choice
from hypersphere.engines.chunked import reduce_chunked
from hypersphere.engines.dense import reduce_dense
from hypersphere.engines.score_functions import (
    CircleNegative,
    DividedAngle,
    Modulated,
    Riesz,
    ScoreFunction,
    Similarity,
)
from hypersphere.engines.spec import KINDS, Kind, Reduced, Reduction, ReductionInputs, compute_dtype, product, softplus
from hypersphere.engines.triton.autograd import reduce_fused
from hypersphere.engines.triton.available import triton_usable, triton_wanted, use_triton
from hypersphere.engines.triton.support import PRECISIONS, Precision, ambient_precision, fusible, multiplies_bfloat16
from hypersphere.geometry import norm

ENGINES = ("auto", "dense", "chunked", "triton")

__all__ = [
    "ENGINES",
    "KINDS",
    "PRECISIONS",
    "CircleNegative",
    "DividedAngle",
    "Kind",
    "Modulated",
    "Precision",
    "Reduced",
    "Reduction",
    "Riesz",
    "ScoreFunction",
    "Similarity",
    "ambient_precision",
    "compute_dtype",
    "product",
    "reduce_negatives",
    "softplus",
    "use_triton",
]


def reduce_negatives(
    embeddings: Tensor,
    prototypes: Tensor,
    labels: Tensor,
    reduction: Reduction,
    *,
    scale: Tensor | float = 1.0,
    offset: Tensor | float | None = None,
    bias: Tensor | None = None,
    engine: str = "auto",
    chunk_size: int | None = None,
    precision: Precision | None = None,
    ambient: Precision | None = None,
    budget: int | None = None,
) -> Reduced:
    """Reduce n_ij = scale_i f(score_ij) + offset_i + bias_j over the classes j that are not the row's own.

    Args:
        embeddings: (N, d).
        prototypes: (C, d), of any floating dtype.
        labels: (N,) int64; -1 excludes no class.
        reduction: kind, curve and normalisations.
        scale: a number, or a tensor of shape () or (N,), differentiable.
        offset: likewise.
        bias: (C,), differentiable.
        engine: `dense` holds all N x C scores, `chunked` N x chunk_size of them, `triton` none (on a CUDA device, for
            the closed list in docs/engines.md; the rest goes to `chunked`). `auto` is `triton` on a CUDA device where
            products need not be float32, `dense` while `torch.compile` traces, and `chunked` otherwise.
        chunk_size: classes per chunk of `chunked`; by default as many as fit the processor's cache.
        precision: what `triton` rounds the factors of its products to, by default `ambient`. On a CPU that multiplies
            bfloat16, `bfloat16` makes `chunked` do so; by default it rounds nothing.
        ambient: by default what autocast, the embeddings' dtype or `torch.set_float32_matmul_precision` says.
        budget: bytes that `triton` may take for its N x C matrix of derivatives; with less than 2 N C it makes that
            matrix twice, in waves. By default a quarter of the device's memory.

    Returns:
        The target's score, the reduced value and, for `max`, the class of the maximum.

    Example:
        >>> x = torch.tensor([[1.0, 0.0]])
        >>> w = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, -1.0]])
        >>> reduce_negatives(x, w, torch.tensor([0]), Reduction("logsumexp")).value
        tensor([0.6931])
    """
    check_choice("engine", engine, ENGINES)
    products = precision or ambient or ambient_precision(embeddings)
    check_choice("precision", products, PRECISIONS)
    dtype = compute_dtype(embeddings, prototypes)
    with torch.autocast(embeddings.device.type, enabled=False):
        problem = ReductionInputs(
            embeddings.to(dtype),
            prototypes,
            labels,
            reduction,
            _column(scale, dtype, embeddings),
            None if offset is None else _column(offset, dtype, embeddings),
            bias,
            None if isinstance(scale, Tensor) else float(scale),
            _rounds(reduction, precision, dtype, embeddings.device),
        )
        if _fuses(problem, engine, products):
            return reduce_fused(problem, products, budget)
        if reduction.normalize_embeddings:
            problem = problem._replace(embeddings=problem.embeddings / norm(problem.embeddings, reduction.eps))
        if engine == "dense" or (engine == "auto" and torch.compiler.is_compiling()):
            return reduce_dense(problem)
        return reduce_chunked(problem, chunk_size)


def _rounds(reduction: Reduction, precision: Precision | None, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the chunked engine multiplies in bfloat16; a maximum stays exact."""
    return (
        precision == "bfloat16" and reduction.kind != "max" and dtype == torch.float32 and multiplies_bfloat16(device)
    )


def _fuses(problem: ReductionInputs, engine: str, precision: Precision) -> bool:
    """Whether the fused engine takes the problem."""
    if engine not in ("auto", "triton") or torch.compiler.is_compiling():
        return False
    device = problem.embeddings.device
    if engine == "auto" and (device.type != "cuda" or precision == "float32"):
        return False
    return triton_wanted() and fusible(problem) and triton_usable(device)


def _column(value: Tensor | float, dtype: torch.dtype, like: Tensor) -> Tensor:
    if isinstance(value, Tensor):
        return value.to(like.device, dtype).reshape(-1, 1)
    return torch.full((1, 1), value, dtype=dtype, device=like.device)  # no copy from the host
