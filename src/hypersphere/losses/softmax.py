"""Softmax of inner products and of plain cosines: softplus(logsumexp of the negatives - target).

Written so, the target's logit never enters a sum over classes, and a small loss keeps its digits.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hypersphere.core import check_choice, check_positive, check_range
from hypersphere.engines import Similarity, softplus
from hypersphere.losses.base import OBJECTIVES, Batch, SampleLoss
from hypersphere.losses.margins import bend


class InnerProductLoss(SampleLoss):
    """Softmax cross-entropy on raw inner products w_j.x + b_j."""

    normalizes_prototypes = False

    def __init__(self, *, dim: int, num_classes: int, bias: bool = True) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(num_classes)) if bias else None

    def samples(self, batch: Batch) -> Tensor:
        bias = None if self.bias is None else self.bias.to(batch.embeddings.dtype)
        negatives = batch.reduce("logsumexp", bias=bias, normalize_embeddings=False, normalize_prototypes=False)
        target = negatives.target if bias is None else negatives.target + batch.own(bias)
        return softplus(negatives.value - target)


@OBJECTIVES.register("softmax")
class Softmax(InnerProductLoss):
    r"""Softmax cross-entropy.

    L = -log( e^{w_y.x + b_y} / sum_j e^{w_j.x + b_j} )    (SphereFace eqs. 3-4, NormFace eq. 1)

    Args:
        bias: learn a bias per class.

    References:
        SphereFace, eqs. 3-4; NormFace, eq. 1.

    Example:
        >>> head = hs.create_head("softmax", dim=512, num_classes=1000)
    """


@OBJECTIVES.register("focal")
class Focal(InnerProductLoss):
    r"""Focal loss on softmax probabilities.

    L = (1 - p_y)^gamma (-log p_y), p the softmax of w_j.x + b_j

    Args:
        gamma: 0 is plain cross-entropy. Largest Margins (App. C) uses 1.
        bias: learn a bias per class.

    References:
        Lin et al., Focal Loss for Dense Object Detection, eq. 4; a baseline of Largest Margins, Table 2.

    Example:
        >>> head = hs.create_head("focal", dim=512, num_classes=1000, gamma=1)
    """

    def __init__(self, *, dim: int, num_classes: int, gamma: float = 2.0, bias: bool = True) -> None:
        super().__init__(dim=dim, num_classes=num_classes, bias=bias)
        self.gamma = check_range("gamma", gamma, 0)

    def samples(self, batch: Batch) -> Tensor:
        entropy = super().samples(batch)
        missed = (-torch.expm1(-entropy)).clamp(min=torch.finfo(entropy.dtype).tiny)
        return missed**self.gamma * entropy


@OBJECTIVES.register("modified_softmax")
class ModifiedSoftmax(SampleLoss):
    r"""Softmax with normalised prototypes and no bias.

    L = -log( e^{||x|| cos theta_y} / sum_j e^{||x|| cos theta_j} )    (SphereFace eq. 5)

    References:
        SphereFace, eq. 5.

    Example:
        >>> head = hs.create_head("modified_softmax", dim=512, num_classes=10_572)
    """

    def __init__(self, *, dim: int, num_classes: int) -> None:
        super().__init__()

    def samples(self, batch: Batch) -> Tensor:
        negatives = batch.reduce("logsumexp", normalize_embeddings=False)
        return softplus(negatives.value - negatives.target)


@OBJECTIVES.register("normface")
class NormFace(SampleLoss):
    r"""Softmax of scaled cosines.

    L = -log( e^{s w~_y.x~} / sum_j e^{s w~_j.x~} )    (NormFace eq. 6)

    Args:
        scale: s; the start value where it is learned. By default 10, or 1 with `normalize="prototypes"`, which the
            paper trains without a scale.
        learnable_scale: learn s (the paper's preference, and the default unless `normalize="prototypes"`).
        normalize: `both`, or `embeddings` or `prototypes` alone (the ablations of its Table 2).
        power: t of SphereFace2's similarity adjustment; needs `normalize="both"`.

    References:
        NormFace, eq. 6 and sec. 5.2.

    Example:
        >>> head = hs.create_head("normface", dim=512, num_classes=10_575, scale=30, learnable_scale=False)
    """

    def __init__(
        self,
        *,
        dim: int,
        num_classes: int,
        scale: float | None = None,
        learnable_scale: bool | None = None,
        normalize: str = "both",
        power: float = 1.0,
    ) -> None:
        super().__init__()
        self.normalize = check_choice("normalize", normalize, ("both", "embeddings", "prototypes"))
        self.normalizes_prototypes = normalize != "embeddings"
        self.adjust = Similarity(check_positive("power", power))
        if power != 1 and normalize != "both":
            raise ValueError(f"power={power} adjusts cosines: it needs normalize='both', not {normalize!r}")
        scaled = normalize != "prototypes"
        start = check_positive("scale", scale if scale is not None else (10.0 if scaled else 1.0))
        learned = scaled if learnable_scale is None else learnable_scale
        self.scale = nn.Parameter(torch.tensor(start)) if learned else start

    def samples(self, batch: Batch) -> Tensor:
        negatives = batch.reduce(
            "logsumexp",
            self.adjust,
            scale=self.scale,
            normalize_embeddings=self.normalize != "prototypes",
            normalize_prototypes=self.normalizes_prototypes,
        )
        target = bend(negatives.target, self.adjust, detached=False)
        return softplus(negatives.value - self.scale * target)
