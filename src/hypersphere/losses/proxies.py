"""Metric learning against prototypes instead of other samples: NormFace's C-contrastive and C-triplet losses.

Distances are squared and between unit vectors: d_j^2 = ||x~ - w~_j||^2 = 2 - 2 cos_j (NormFace eq. 9). So a hinge
m - d_j^2 is 2 cos_j + m - 2 to the engine, whose reduction takes scale cos_j + offset.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.core import check_choice, check_range
from hypersphere.losses.batch import OBJECTIVES, Batch, SampleLoss
from hypersphere.losses.logits import Logits

_DISTANCES = Logits(scale=2.0, offset=-2.0)
"""-d_j^2 = 2 cos_j - 2."""


@OBJECTIVES.register("c_contrastive")
class CContrastive(SampleLoss):
    r"""C-contrastive loss.

    L = d_y^2 + sum_{j != y} max(0, m - d_j^2),  d_j^2 = ||x~ - w~_j||^2    (NormFace eq. 10)

    A sample labelled -1 has the second term alone, and counts.

    Args:
        margin: m, in [0, 4]; the paper recommends 1.

    When to use:
        Fine-tuning, mostly added to `normface` with weight 0.01.

    What it equals:
        With `margin=0` it is twice `center` with `normalize=True` and the prototypes for centres.

    References:
        NormFace, eq. 10.

    Example:
        >>> head = hs.create_head("normface", dim=512, num_classes=10_575, add={"c_contrastive": {"weight": 0.01}})
    """

    counts_unlabelled = True
    sums_over_classes = True

    def __init__(self, *, margin: float = 1.0) -> None:
        super().__init__()
        self.margin = check_range("margin", margin, 0, 4)

    def samples(self, batch: Batch) -> Tensor:
        negatives = batch.reduce("hinge_sum", scale=2.0, offset=self.margin - 2)
        return torch.where(batch.labelled, 2 - 2 * negatives.target, 0.0) + negatives.value

    def logits(self, batch: Batch) -> Logits:
        return _DISTANCES


@OBJECTIVES.register("c_triplet")
class CTriplet(SampleLoss):
    r"""C-triplet loss.

    L = sum_{j != y} max(0, m + d_y^2 - d_j^2),  d_j^2 = ||x~ - w~_j||^2    (NormFace eq. 11)

    Args:
        margin: m, in [0, 4]; the paper recommends 0.8.
        negatives: `all`, or `hardest`: the nearest wrong prototype alone.
        center: optimise d_y^2 even where a hinge is 0 (sec. 5.2, Table 2's "C-triplet + center"): every hinge is
            d_y^2 + max(0, m + stopgrad(d_y^2) - d_j^2).

    When to use:
        Fine-tuning; `negatives="hardest", center=True` is the released setting.

    What it equals:
        While all hinges are active, the gradient with `center=True` is the gradient without it.

    References:
        NormFace, eq. 11 and sec. 5.2.

    Example:
        >>> head = hs.create_head("c_triplet", dim=512, num_classes=10_575, negatives="hardest", center=True)
    """

    depends_on_scores_only = False

    def __init__(self, *, margin: float = 0.8, negatives: str = "all", center: bool = False) -> None:
        super().__init__()
        self.margin = check_range("margin", margin, 0, 4)
        self.hardest = check_choice("negatives", negatives, ("all", "hardest")) == "hardest"
        self.center = center

    def sampling_error(self, unbiased: bool) -> str | None:
        if unbiased and self.hardest:
            return "the hardest of all negatives cannot be told from a sample of them"
        return None

    def samples(self, batch: Batch) -> Tensor:
        if self.hardest:
            nearest = batch.reduce("max")
            target = nearest.target.detach() if self.center else nearest.target
            hinges = (self.margin - 2 * target + 2 * nearest.value).clamp(min=0)
            return hinges + (2 - 2 * nearest.target) if self.center else hinges
        target = batch.target_cosines()
        if self.center:
            target = target.detach()
        negatives = batch.reduce("hinge_sum", scale=2.0, offset=self.margin - 2 * target)
        if self.center:
            return negatives.value + (batch.num_classes - 1) * (2 - 2 * negatives.target)
        return negatives.value

    def logits(self, batch: Batch) -> Logits:
        return _DISTANCES
