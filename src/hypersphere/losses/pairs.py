"""Losses on the embeddings of a batch alone: contrastive and triplet.

Distances are squared and between unit vectors (NormFace eqs. 7-8), unless a loss is told otherwise. A row labelled -1
takes part in no pair.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hypersphere.core import check_choice, check_range
from hypersphere.engines import product
from hypersphere.geometry import normalize
from hypersphere.losses.batch import OBJECTIVES, Batch, Objective, mean_where


def squared_distances(batch: Batch) -> Tensor:
    """(N, N): ||x~_i - x~_j||^2."""
    unit = normalize(batch.embeddings, batch.eps)
    return (2 - 2 * product(unit, unit)).clamp(min=0)


def _relations(batch: Batch) -> tuple[Tensor, Tensor]:
    """(N, N) bool each: same class, another class; never a row with itself."""
    both = batch.labelled[:, None] & batch.labelled
    same = batch.labels[:, None] == batch.labels
    itself = torch.eye(len(batch.labels), dtype=torch.bool, device=batch.labels.device)
    return both & same & ~itself, both & ~same


@OBJECTIVES.register("contrastive")
class Contrastive(Objective):
    r"""Contrastive loss, the mean over all pairs of the batch.

    L_ij = d_ij^2 for one class, max(0, m - d_ij^2) for two,  d_ij^2 = ||x~_i - x~_j||^2    (NormFace eq. 7)

    Args:
        margin: m, in [0, 4].
        distance: `unit` as above, or `euclidean`, of embeddings as they are: 1/2 ||x_i - x_j||^2 for one class,
            1/2 max(0, m - ||x_i - x_j||)^2 for two, with any m >= 0.

    When to use:
        Small batches of pairs, beside a loss with prototypes.

    What it equals:
        It is pytorch-metric-learning's `ContrastiveLoss` with squared distances, averaged over all pairs.

    References:
        NormFace, eq. 7; Sun et al., DeepID2, eq. 3 (`euclidean`), which SphereFace compares itself with (sec. 3.5).

    Example:
        >>> loss = hs.create_loss("contrastive", margin=1.0)(embeddings, labels)
    """

    def __init__(self, *, margin: float = 1.0, distance: str = "unit") -> None:
        super().__init__()
        self.unit = check_choice("distance", distance, ("unit", "euclidean")) == "unit"
        self.margin = check_range("margin", margin, 0, 4 if self.unit else math.inf)

    def forward(self, batch: Batch) -> Tensor:
        same, other = _relations(batch)
        if self.unit:
            distances = squared_distances(batch)
            losses = torch.where(same, distances, (self.margin - distances).clamp(min=0))
        else:
            distances = torch.cdist(batch.embeddings, batch.embeddings)
            losses = torch.where(same, distances, (self.margin - distances).clamp(min=0)) ** 2 / 2
        return mean_where(losses, (same | other).triu(1))


@OBJECTIVES.register("triplet")
class Triplet(Objective):
    r"""Triplet loss, the mean over the mined triplets of the batch.

    L_apn = max(0, m + d_ap^2 - d_an^2),  d_ij^2 = ||x~_i - x~_j||^2    (NormFace eq. 8)

    Args:
        margin: m, in [0, 4].
        mining: `all` triplets; `semihard`: for each anchor and positive the nearest negative with
            d_ap^2 < d_an^2 < d_ap^2 + m; `hard`: for each anchor its farthest positive and nearest negative. The first
            two hold N^3 numbers: about 1.5 GB at N = 512.
        distance: `unit` as above, or `euclidean`: ||x_i - x_j||, neither normalised nor squared, with any m >= 0.

    When to use:
        Batches of P identities with K images each, beside a loss with prototypes. The re-identification baseline has
        `mining="hard", distance="euclidean", margin=0.3`.

    What it equals:
        It is pytorch-metric-learning's `TripletMarginLoss` with squared distances, averaged over all triplets.

    References:
        NormFace, eq. 8; Schroff et al., FaceNet (semi-hard); Hermans et al., In Defense of the Triplet Loss (hard);
        Luo et al., Bag of Tricks and A Strong Baseline for Deep Person Re-identification (hard, euclidean, m = 0.3).

    Example:
        >>> loss = hs.create_loss("triplet", margin=0.2, mining="hard")(embeddings, labels)
    """

    def __init__(self, *, margin: float = 0.2, mining: str = "all", distance: str = "unit") -> None:
        super().__init__()
        self.unit = check_choice("distance", distance, ("unit", "euclidean")) == "unit"
        self.margin = check_range("margin", margin, 0, 4 if self.unit else math.inf)
        self.mining = check_choice("mining", mining, ("all", "semihard", "hard"))

    def forward(self, batch: Batch) -> Tensor:
        x = batch.embeddings
        distances = squared_distances(batch) if self.unit else torch.cdist(x, x)
        same, other = _relations(batch)
        if self.mining == "all":
            triplets = same[:, :, None] & other[:, None, :]
            return mean_where(self._hinge(distances[:, :, None], distances[:, None, :]), triplets)
        if self.mining == "hard":
            farthest = torch.where(same, distances, -1.0).amax(1) if len(distances) else distances.sum(1)
            nearest = torch.where(other, distances, math.inf).amin(1) if len(distances) else distances.sum(1)
            return mean_where(self._hinge(farthest, nearest), same.any(1) & other.any(1))
        return self._semihard(distances, same, other)

    def _semihard(self, distances: Tensor, same: Tensor, other: Tensor) -> Tensor:
        positive, negative = distances[:, :, None], distances[:, None, :]
        semihard = same[:, :, None] & other[:, None, :] & (negative > positive) & (negative < positive + self.margin)
        if not len(distances):
            return distances.sum()
        nearest = torch.where(semihard, negative, math.inf).amin(2)
        return mean_where(self._hinge(distances, nearest), semihard.any(2))

    def _hinge(self, positive: Tensor, negative: Tensor) -> Tensor:
        return (self.margin + positive - negative).clamp(min=0)
