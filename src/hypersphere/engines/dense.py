"""The readable reference: all N x C scores in memory, ordinary autograd."""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.engines.spec import NEVER, Reduced, ReductionInputs, product, softplus
from hypersphere.geometry import normalize, with_derivative


def reduce_dense(inputs: ReductionInputs) -> Reduced:
    """Reduce the negatives of every row with the whole N x C matrix in memory."""
    x, reduction = inputs.embeddings, inputs.reduction
    prototypes = inputs.prototypes.to(x.dtype)
    if reduction.normalize_prototypes:
        unit = normalize(prototypes.detach() if reduction.unit_gradients else prototypes, reduction.eps)
        prototypes = unit + (prototypes - prototypes.detach()) if reduction.unit_gradients else unit
    scores = product(x, prototypes)
    if reduction.subcenters > 1:
        several = reduction.subcenters
        scores = scores.view(len(x), scores.shape[1] // several, several).max(2).values
    if scores.shape[1] == 0:
        return _reduce_no_class(scores, inputs)
    inside, own = inputs.labels[:, None] >= 0, inputs.labels.clamp(min=0)[:, None]
    target = torch.where(inside, scores.gather(1, own), 0.0)[:, 0]

    looked_at = scores.detach()
    value, derivative = reduction.score_function.value(looked_at), reduction.score_function.derivative(looked_at)
    terms = inputs.scale * (scores if value is looked_at else with_derivative(scores, value, derivative))
    if inputs.offset is not None:
        terms = terms + inputs.offset
    if inputs.bias is not None:
        terms = terms + inputs.bias
    if reduction.kind == "logsumexp":
        return Reduced(target, _logsumexp(_put_at_labels(terms, own, inside, NEVER)), None)
    if reduction.kind == "max":
        highest, index = _put_at_labels(terms, own, inside, NEVER).max(1)
        return Reduced(target, highest, torch.where(highest == NEVER, -1, index))
    if reduction.kind == "softplus_sum":
        terms = softplus(terms)
    elif reduction.kind == "hinge_sum":
        terms = terms.relu()
    return Reduced(target, _put_at_labels(terms, own, inside, 0.0).sum(1), None)


def _logsumexp(terms: Tensor) -> Tensor:
    """-inf without a NaN in the gradient where the only class is the row's own."""
    if terms.shape[1] > 1:
        return torch.logsumexp(terms, 1)
    return terms[:, 0]


def _reduce_no_class(scores: Tensor, inputs: ReductionInputs) -> Reduced:
    """The reduction over no class, connected to whatever it would depend on."""
    kind, zero = inputs.reduction.kind, scores.sum(1)
    for column in (inputs.scale, inputs.offset):
        if column is not None:
            zero = zero + 0 * column[:, 0]
    if kind in ("logsumexp", "max"):
        return Reduced(zero, zero + NEVER, torch.full_like(zero, -1, dtype=torch.int64) if kind == "max" else None)
    return Reduced(zero, zero, None)


def _put_at_labels(terms: Tensor, own: Tensor, inside: Tensor, number: float) -> Tensor:
    """Return the terms with `number` where a row meets its own class."""
    return terms.scatter(1, own, torch.where(inside, number, terms.gather(1, own)))
