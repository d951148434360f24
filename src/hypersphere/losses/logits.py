"""The logits that a loss compares before any margin, for embeddings without labels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hypersphere.engines import Reduced, ScoreFunction, Similarity
from hypersphere.geometry import normalize

if TYPE_CHECKING:
    from hypersphere.losses.batch import Batch


@dataclass(frozen=True)
class Logits:
    """The logit of class j is scale f(class_scale_j score_j) + offset + bias_j, in the words of `Batch.reduce`.

    Args:
        score_function: f, rising.
        scale: a positive number, a tensor of one, or one per row.
        offset: likewise, of any sign.
        bias: (C,), of the classes of `batch.prototypes`.
        class_scale: likewise, the factor of each prototype; None for 1.
        normalize_embeddings, normalize_prototypes: whether scores are cosines.
    """

    score_function: ScoreFunction = field(default_factory=Similarity)
    scale: Tensor | float = 1.0
    offset: Tensor | float | None = None
    bias: Tensor | None = None
    normalize_embeddings: bool = True
    normalize_prototypes: bool = True
    class_scale: Tensor | None = None

    def matrix(self, batch: Batch) -> Tensor:
        """(N, C): all logits, of every row and prototype."""
        batch = self._scaled(batch)
        x, prototypes = batch.embeddings, batch.prototypes.to(batch.embeddings.dtype)
        if self.normalize_embeddings:
            x = normalize(x, batch.eps)
        if self.normalize_prototypes:
            prototypes = normalize(prototypes, batch.eps)
        scores = largest_of_each(x @ prototypes.T, batch.subcenters)
        logits = _column(self.scale) * self.score_function.value(scores)
        if self.offset is not None:
            logits = logits + _column(self.offset)
        return logits if self.bias is None else logits + self.bias

    def largest(self, batch: Batch) -> Reduced:
        """The largest logit of every row and its class, the lowest one on ties; nothing of N x C but in `dense`."""
        return self._scaled(batch).reduce(
            "max",
            self.score_function,
            scale=self.scale,
            offset=self.offset,
            bias=self.bias,
            normalize_embeddings=self.normalize_embeddings,
            normalize_prototypes=self.normalize_prototypes,
        )

    def _scaled(self, batch: Batch) -> Batch:
        if self.class_scale is None:
            return batch
        scale = self.class_scale[:, None]
        return replace(batch, prototypes=scale * batch.prototypes.to(scale.dtype))


def largest_of_each(scores: Tensor, subcenters: int) -> Tensor:
    """(N, C): the largest of every class's `subcenters` scores, which stand side by side."""
    return scores if subcenters == 1 else scores.view(len(scores), scores.shape[1] // subcenters, subcenters).amax(2)


def _column(value: Tensor | float) -> Tensor | float:
    return value[:, None] if isinstance(value, torch.Tensor) and value.dim() == 1 else value
