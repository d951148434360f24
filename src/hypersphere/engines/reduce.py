"""The one call that reduces over the negatives, whichever engine does it."""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.engines.chunked import multiplies_bfloat16, reduce_chunked
from hypersphere.engines.dense import reduce_dense
from hypersphere.engines.operators import describable, reduce_traced
from hypersphere.engines.options import EngineOptions
from hypersphere.engines.row_losses import RowLoss
from hypersphere.engines.spec import Reduced, Reduction, ReductionInputs, compute_dtype, constant_while_tracing
from hypersphere.engines.triton.autograd import reduce_fused
from hypersphere.engines.triton.available import triton_usable, triton_wanted
from hypersphere.engines.triton.support import fusible
from hypersphere.engines.triton.whole_loss import Recorder, Tensors, WholeLoss, fused_loss
from hypersphere.geometry import norm

_DEFAULT = EngineOptions()


def reduce_negatives(
    embeddings: Tensor,
    prototypes: Tensor,
    labels: Tensor,
    reduction: Reduction,
    *,
    scale: Tensor | float = 1.0,
    offset: Tensor | float | None = None,
    bias: Tensor | None = None,
    options: EngineOptions = _DEFAULT,
) -> Reduced:
    """Reduce n_ij = scale_i f(score_ij) + offset_i + bias_j over the classes j that are not the row's own.

    Args:
        embeddings: (N, d).
        prototypes: (C, d), of any floating dtype.
        labels: (N,) int64; -1 excludes no class.
        reduction: kind, score function and normalisations.
        scale: a number, or a tensor of shape () or (N,), differentiable.
        offset: likewise.
        bias: (C,), differentiable.
        options: which engine computes it, with what memory and in what precision.

    Returns:
        The target's score, the reduced value and, for `max`, the class of the maximum.

    Example:
        >>> x = torch.tensor([[1.0, 0.0]])
        >>> w = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, -1.0]])
        >>> reduce_negatives(x, w, torch.tensor([0]), Reduction("logsumexp")).value
        tensor([0.6931])
    """
    tracing = torch.compiler.is_compiling()
    described = not tracing or describable(reduction.score_function)
    if not described and options.engine in ("chunked", "triton"):
        raise TypeError(
            f"{type(reduction.score_function).__name__} cannot enter a compiled graph: that needs a dataclass of a"
            " module, with numbers and tensors in it, or engine='dense'"
        )
    options = options.for_call(embeddings)
    dtype = compute_dtype(embeddings, prototypes)
    with torch.autocast(embeddings.device.type, enabled=False):
        inputs = ReductionInputs(
            embeddings=embeddings.to(dtype),
            prototypes=prototypes,
            labels=labels,
            reduction=reduction,
            scale=_column(scale, dtype, embeddings),
            offset=None if offset is None else _column(offset, dtype, embeddings),
            bias=bias,
            fixed_scale=None if isinstance(scale, Tensor) else float(scale),
        )
        if _fuses(inputs.embeddings, prototypes, reduction, options):
            return reduce_traced("triton", inputs, options) if tracing else reduce_fused(inputs, options)
        if reduction.normalize_embeddings:
            inputs = inputs._replace(embeddings=inputs.embeddings / norm(inputs.embeddings, reduction.eps))
        if options.engine == "dense" or not described:
            return reduce_dense(inputs)
        inputs = inputs._replace(rounded=_rounds(inputs, options))
        return reduce_traced("chunked", inputs, options) if tracing else reduce_chunked(inputs, options.chunk_size)


def reduce_to_loss(
    embeddings: Tensor,
    prototypes: Tensor,
    labels: Tensor,
    reduction: Reduction,
    row_loss: RowLoss,
    *,
    bias: Tensor | None = None,
    options: EngineOptions = _DEFAULT,
    recorder: Recorder | None = None,
) -> Tensor | None:
    """The mean of a loss that is elementary in each row, where the fused engine computes it whole; None elsewhere.

    Args:
        embeddings: (N, d), in the dtype of loss arithmetic.
        prototypes, labels, reduction, options: as of `reduce_negatives`.
        row_loss: what the loss makes of a row's target and value.
        bias: the one that all classes share, of shape (), differentiable.
        recorder: of the head, where its launches may be recorded.
    """
    if torch.compiler.is_compiling() or options.engine not in ("auto", "triton"):
        return None
    options = options.for_call(embeddings)
    if not _fuses(embeddings, prototypes, reduction, options):
        return None
    tensors = Tensors(embeddings, prototypes, labels, bias)
    return fused_loss(WholeLoss(reduction, options, row_loss), tensors, recorder)


def _rounds(inputs: ReductionInputs, options: EngineOptions) -> bool:
    """Whether the chunked engine multiplies in bfloat16; a maximum stays exact."""
    x = inputs.embeddings
    asked = options.precision == "bfloat16" and inputs.reduction.kind != "max"
    return asked and x.dtype == torch.float32 and multiplies_bfloat16(x.device)


def _fuses(x: Tensor, w: Tensor, reduction: Reduction, options: EngineOptions) -> bool:
    """Whether the fused engine takes the reduction."""
    if options.engine not in ("auto", "triton"):
        return False
    device = x.device
    if options.engine == "auto" and (device.type != "cuda" or options.precision == "float32"):
        return False
    return fusible(x, w, reduction) and _runs_triton(device)


@constant_while_tracing
def _runs_triton(device: torch.device) -> bool:
    return triton_wanted() and triton_usable(device)


def _column(value: Tensor | float, dtype: torch.dtype, like: Tensor) -> Tensor:
    if isinstance(value, Tensor):
        return value.to(like.device, dtype).reshape(-1, 1)
    return torch.full((1, 1), value, dtype=dtype, device=like.device)  # no copy from the host
