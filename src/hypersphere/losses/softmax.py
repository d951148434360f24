"""Softmax of inner products and of plain cosines: softplus(logsumexp of the negatives - target).

Written so, the target's logit never enters a sum over classes, and a small loss keeps its digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hypersphere.core import check_choice, check_positive, check_range
from hypersphere.engines import Similarity, product, softplus
from hypersphere.losses.batch import OBJECTIVES, Batch, SampleLoss, check_class_counts
from hypersphere.losses.logits import Logits
from hypersphere.losses.margins import apply_margin


class InnerProductLoss(SampleLoss):
    """Softmax cross-entropy on raw inner products w_j.x + b_j, which start as those of `torch.nn.Linear`."""

    normalizes_prototypes = False
    per_class = ("bias",)

    def __init__(self, *, dim: int, num_classes: int, bias: bool = True) -> None:
        super().__init__()
        self.dim = dim
        self.bias = nn.Parameter(torch.zeros(num_classes)) if bias else None

    def reset_parameters(self) -> None:
        """Draw the biases from U(-1/sqrt(dim), 1/sqrt(dim))."""
        if self.bias is not None:
            nn.init.uniform_(self.bias, -1 / math.sqrt(self.dim), 1 / math.sqrt(self.dim))

    def logits(self, batch: Batch) -> Logits:
        bias = None if self.bias is None else batch.shard_of(self.bias)
        return Logits(bias=bias, normalize_embeddings=False, normalize_prototypes=False)

    def samples(self, batch: Batch) -> Tensor:
        return self.smoothed(batch, 0.0)

    def smoothed(self, batch: Batch, share: Tensor | float) -> Tensor:
        """-log p_y + share (z_y - mean of the other z_j), which is cross-entropy with that share moved to the others.

        The mean of the logits is the logit of the mean prototype: no second pass over the classes.
        """
        bias = None if self.bias is None else batch.shard_of(self.bias)
        negatives = batch.reduce("logsumexp", bias=bias, normalize_embeddings=False, normalize_prototypes=False)
        target = negatives.target if bias is None else negatives.target + batch.at_labels(bias)
        loss = softplus(negatives.value - target)
        if isinstance(share, float) and share == 0:
            return loss
        total = product(batch.embeddings, batch.total(batch.prototypes)[None])[:, 0]
        if bias is not None:
            total = total + batch.total(bias)
        others = (total - target) / (batch.num_classes - 1)
        return loss + share * (target - others)


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


@OBJECTIVES.register("label_smoothing")
class LabelSmoothing(InnerProductLoss):
    r"""Softmax cross-entropy against smoothed labels.

    L = -sum_j q_j log p_j, q_y = 1 - e + e/C, q_j = e/C, p the softmax of w_j.x + b_j
      = -log p_y + e (C - 1)/C (z_y - mean_{j != y} z_j), z_j = w_j.x + b_j

    Args:
        smoothing: e, in [0, 1).
        bias: learn a bias per class.

    References:
        Szegedy et al., Rethinking the Inception Architecture, sec. 7; part of the re-identification baseline (Luo et
        al., 2019) of Largest Margins, C.4.

    Example:
        >>> head = hs.create_head("label_smoothing", dim=2048, num_classes=751, smoothing=0.1, bias=False)
    """

    def __init__(self, *, dim: int, num_classes: int, smoothing: float = 0.1, bias: bool = True) -> None:
        super().__init__(dim=dim, num_classes=num_classes, bias=bias)
        self.smoothing = _check_smoothing("smoothing", smoothing) * (num_classes - 1) / num_classes

    def samples(self, batch: Batch) -> Tensor:
        return self.smoothed(batch, self.smoothing)


@OBJECTIVES.register("label_aware_smoothing")
class LabelAwareSmoothing(InnerProductLoss):
    r"""Softmax cross-entropy against labels that are smoothed more for larger classes.

    L = -sum_j q_j log p_j, q_y = 1 - e_y, q_j = e_y / (C - 1), p the softmax of w_j.x + b_j
    e_y = e_tail + (e_head - e_tail) sin( pi (N_y - N_min) / (2 (N_max - N_min)) )    (the concave form of f(N_y))

    Where all counts are equal, every class is the largest.

    Args:
        class_counts: N_y, the number of training samples of every class; a training recipe fills them in.
        head_smoothing: e of the largest class, in [0, 1); 0.3 is the released setting for ImageNet-LT.
        tail_smoothing: e of the smallest class, at most that of the largest.
        bias: learn a bias per class.

    References:
        Zhong et al., Improving Calibration for Long-Tailed Recognition (MiSLAS), CVPR 2021, sec. 3.2; compared with in
        Largest Margins, Table 7.

    Example:
        >>> head = hs.create_head("label_aware_smoothing", dim=64, num_classes=3, class_counts=[500, 50, 5])
    """

    class_smoothing: Tensor

    def __init__(
        self,
        *,
        dim: int,
        num_classes: int,
        class_counts: Sequence[float] | Tensor | None = None,
        head_smoothing: float = 0.3,
        tail_smoothing: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(dim=dim, num_classes=num_classes, bias=bias)
        counts = check_class_counts(class_counts, num_classes)
        most, fewest = counts.max(), counts.min()
        place = (counts - fewest) / (most - fewest) if most > fewest else torch.ones_like(counts)
        low, high = (
            _check_smoothing("tail_smoothing", tail_smoothing),
            _check_smoothing("head_smoothing", head_smoothing),
        )
        if low > high:
            raise ValueError(f"tail_smoothing={low:g} must not exceed head_smoothing={high:g}")
        by_class = low + (high - low) * torch.sin(math.pi / 2 * place)
        self.register_buffer("class_smoothing", by_class, persistent=False)

    def samples(self, batch: Batch) -> Tensor:
        return self.smoothed(batch, batch.at_labels(self.class_smoothing))


def _check_smoothing(name: str, value: float) -> float:
    if check_range(name, value, 0, 1) == 1:
        raise ValueError(f"{name}=1 leaves nothing of the label: it must be below 1")
    return float(value)


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

    def logits(self, batch: Batch) -> Logits:
        return Logits(normalize_embeddings=False)


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
        target = apply_margin(negatives.target, self.adjust, detached=False)
        return softplus(negatives.value - self.scale * target)

    def logits(self, batch: Batch) -> Logits:
        return Logits(
            self.adjust,
            self.scale,
            normalize_embeddings=self.normalize != "prototypes",
            normalize_prototypes=self.normalizes_prototypes,
        )
