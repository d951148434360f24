"""The reduction over the negatives: the only work that grows with N x C."""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.core import check_choice
from hypersphere.engines.chunked import reduce_chunked
from hypersphere.engines.contract import KINDS, Kind, Problem, Reduced, Reduction, compute_dtype, product, softplus
from hypersphere.engines.curves import (
    CircleNegative,
    Curve,
    DividedAngle,
    Modulated,
    Riesz,
    Similarity,
)
from hypersphere.engines.dense import reduce_dense

ENGINES = ("auto", "dense", "chunked")

__all__ = [
    "ENGINES",
    "KINDS",
    "CircleNegative",
    "Curve",
    "DividedAngle",
    "Kind",
    "Modulated",
    "Reduced",
    "Reduction",
    "Riesz",
    "Similarity",
    "compute_dtype",
    "product",
    "reduce_negatives",
    "softplus",
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
) -> Reduced:
    """Reduce n_ij = scale_i f(score_ij) + offset_i + bias_j over the classes j that are not the row's own.

    Args:
        embeddings: (N, d), normalised already if they are to be.
        prototypes: (C, d), of any floating dtype.
        labels: (N,) int64; -1 excludes no class.
        reduction: kind, curve and normalisation of the prototypes.
        scale: a number, or a tensor of shape () or (N,), differentiable.
        offset: likewise.
        bias: (C,), differentiable.
        engine: `dense` holds all N x C scores, `chunked` N x chunk_size of them; `auto` is `chunked`, and `dense`
            while `torch.compile` traces.
        chunk_size: classes per chunk; by default as many as fit the processor's cache.

    Returns:
        The target's score, the reduced value and, for `max`, the class of the maximum.

    Example:
        >>> x = torch.tensor([[1.0, 0.0]])
        >>> w = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, -1.0]])
        >>> reduce_negatives(x, w, torch.tensor([0]), Reduction("logsumexp")).value
        tensor([0.6931])
    """
    check_choice("engine", engine, ENGINES)
    dtype = compute_dtype(embeddings, prototypes)
    with torch.autocast(embeddings.device.type, enabled=False):
        problem = Problem(
            embeddings.to(dtype),
            prototypes,
            labels,
            reduction,
            _column(scale, dtype, embeddings),
            None if offset is None else _column(offset, dtype, embeddings),
            bias,
        )
        if engine == "dense" or (engine == "auto" and torch.compiler.is_compiling()):
            return reduce_dense(problem)
        return reduce_chunked(problem, chunk_size)


def _column(value: Tensor | float, dtype: torch.dtype, like: Tensor) -> Tensor:
    if isinstance(value, Tensor):
        return value.to(like.device, dtype).reshape(-1, 1)
    return torch.full((1, 1), value, dtype=dtype, device=like.device)  # no copy from the host
