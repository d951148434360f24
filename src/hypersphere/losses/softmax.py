"""Softmax of inner products and of plain cosines: softplus(logsumexp of the negatives - target).

Written so, the target's logit never enters a sum over classes, and a small loss keeps its digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from hypersphere.core import check_choice, check_positive, check_range
from hypersphere.engines import MarginSoftmaxRow, Similarity, product, softplus
from hypersphere.losses.batch import OBJECTIVES, Batch, SampleLoss, check_class_counts
from hypersphere.losses.logits import Logits
from hypersphere.losses.target_margins import adjust


@OBJECTIVES.register("softmax")
class Softmax(SampleLoss):
    r"""Softmax cross-entropy.

    L = -log( e^{w_y.x + b_y} / sum_j e^{w_j.x + b_j} )    (SphereFace eqs. 3-4, NormFace eq. 1)

    Prototypes and biases start as those of `torch.nn.Linear`.

    Args:
        bias: learn a bias per class.

    When to use:
        As the baseline, and where the classes to recognise are those of the training (closed sets).

    What it equals:
        It is `torch.nn.Linear` with `torch.nn.functional.cross_entropy`, step by step from the same start.

    References:
        SphereFace, eqs. 3-4; NormFace, eq. 1.

    Example:
        >>> head = hs.create_head("softmax", dim=512, num_classes=1000)
    """

    normalizes_prototypes = False
    per_class: ClassVar[tuple[str, ...]] = ("bias",)

    def __init__(self, *, dim: int, num_classes: int, bias: bool = True) -> None:
        super().__init__()
        self.dim = dim
        self.bias = nn.Parameter(torch.zeros(num_classes)) if bias else None

    def reset_parameters(self) -> None:
        """Draw the biases from U(-1/sqrt(dim), 1/sqrt(dim))."""
        if self.bias is not None:
            nn.init.uniform_(self.bias, -1 / math.sqrt(self.dim), 1 / math.sqrt(self.dim))

    def samples(self, batch: Batch) -> Tensor:
        negatives, z_y = self.scores(batch, self.biases(batch))
        return softplus(negatives - z_y)

    def scores(self, batch: Batch, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return log sum_{j != y} e^{z_j} and z_y, with z_j = w_j.x + b_j."""
        negatives = batch.reduce("logsumexp", bias=bias, normalize_embeddings=False, normalize_prototypes=False)
        return negatives.value, negatives.target if bias is None else negatives.target + batch.at_labels(bias)

    def mean_of_others(self, batch: Batch, bias: Tensor | None, z_y: Tensor) -> Tensor:
        """Return the mean of z_j over j != y, as the score of the sum of all prototypes: no pass over the classes."""
        total = product(batch.embeddings, batch.total(batch.prototypes)[None])[:, 0]
        if bias is not None:
            total = total + batch.total(bias)
        return (total - z_y) / (batch.num_classes - 1)

    def logits(self, batch: Batch) -> Logits:
        return Logits(bias=self.biases(batch), normalize_embeddings=False, normalize_prototypes=False)

    def biases(self, batch: Batch) -> Tensor | None:
        """Return b_j of the classes of `batch.prototypes`; called once a loss, so that its gradient is rounded once."""
        return None if self.bias is None else batch.shard_of(self.bias)


@OBJECTIVES.register("label_smoothing")
class LabelSmoothing(Softmax):
    r"""Softmax cross-entropy against smoothed labels.

    L = -sum_j q_j log p_j, q_y = 1 - e + e/C, q_j = e/C, p the softmax of w_j.x + b_j
      = -log p_y + e (C - 1)/C (z_y - mean_{j != y} z_j), z_j = w_j.x + b_j

    Args:
        smoothing: e, in [0, 1).
        bias: learn a bias per class.

    When to use:
        Closed sets; with `bias=False`, the ID loss of the re-identification baseline.

    What it equals:
        It is `torch.nn.functional.cross_entropy(..., label_smoothing=e)`, and with `smoothing=0` it is `softmax`.

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
        bias = self.biases(batch)
        negatives, z_y = self.scores(batch, bias)
        return softplus(negatives - z_y) + self.smoothing * (z_y - self.mean_of_others(batch, bias, z_y))


@OBJECTIVES.register("label_aware_smoothing")
class LabelAwareSmoothing(Softmax):
    r"""Softmax cross-entropy against labels that are smoothed more for larger classes.

    L = -sum_j q_j log p_j, q_y = 1 - e_y, q_j = e_y / (C - 1), p the softmax of s_j (w_j.x + b_j)
    e_y = e_tail + (e_head - e_tail) sin( pi (N_y - N_min) / (2 (N_max - N_min)) )    (the concave form of f(N_y))

    Where all counts are equal, every class is the largest.

    Args:
        class_counts: N_y, the number of training samples of every class; a training recipe fills them in.
        head_smoothing: e of the largest class, in [0, 1); 0.3 is the released setting for ImageNet-LT.
        tail_smoothing: e of the smallest class, at most that of the largest.
        bias: learn a bias per class.
        weight_scaling: learn s_j, a factor for every class that starts at 1 (MiSLAS's learned weight scaling); without
            it s_j = 1. A state without factors, that of a first stage's `softmax`, is taken for one of ones.

    When to use:
        Long-tailed classes, in the second stage of MiSLAS: the network frozen, the classifier trained again, at a small
        rate beside its `weight_scaling`.

    What it equals:
        Without `weight_scaling`: with `head_smoothing=0` it is `softmax`; with equal counts it is `label_smoothing`
        with e = `head_smoothing` times C/(C - 1).

    References:
        Zhong et al., Improving Calibration for Long-Tailed Recognition (MiSLAS), CVPR 2021, sec. 3.2, and its released
        code; Kang et al., Decoupling Representation and Classifier, ICLR 2020, sec. 4.2 (weight scaling); compared with
        in Largest Margins, Table 7.

    Example:
        >>> head = hs.create_head("label_aware_smoothing", dim=64, num_classes=3, class_counts=[500, 50, 5])
    """

    per_class = ("bias", "class_scale")
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
        weight_scaling: bool = False,
    ) -> None:
        super().__init__(dim=dim, num_classes=num_classes, bias=bias)
        self.class_scale = nn.Parameter(torch.ones(num_classes)) if weight_scaling else None
        counts = check_class_counts(class_counts, num_classes)
        most, fewest = counts.max(), counts.min()
        place = (counts - fewest) / (most - fewest) if most > fewest else torch.ones_like(counts)
        low = _check_smoothing("tail_smoothing", tail_smoothing)
        high = _check_smoothing("head_smoothing", head_smoothing)
        if low > high:
            raise ValueError(f"tail_smoothing={low:g} must not exceed head_smoothing={high:g}")
        by_class = low + (high - low) * torch.sin(math.pi / 2 * place)
        self.register_buffer("class_smoothing", by_class, persistent=False)

    def samples(self, batch: Batch) -> Tensor:
        e_y = batch.at_labels(self.class_smoothing)
        batch, bias = self.scaled(batch)
        negatives, z_y = self.scores(batch, bias)
        return softplus(negatives - z_y) + e_y * (z_y - self.mean_of_others(batch, bias, z_y))

    def scaled(self, batch: Batch) -> tuple[Batch, Tensor | None]:
        """Return the batch with prototypes s_j w_j, and the biases s_j b_j."""
        bias = self.biases(batch)
        if self.class_scale is None:
            return batch, bias
        scale = batch.shard_of(self.class_scale)
        prototypes = scale[:, None] * batch.prototypes.to(scale.dtype)
        return replace(batch, prototypes=prototypes), None if bias is None else scale * bias

    def logits(self, batch: Batch) -> Logits:
        if self.class_scale is None:
            return super().logits(batch)
        return replace(super().logits(batch), bias=self.scaled(batch)[1], class_scale=batch.shard_of(self.class_scale))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        if self.class_scale is not None:
            state_dict.setdefault(f"{prefix}class_scale", torch.ones_like(self.class_scale))
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _check_smoothing(name: str, value: float) -> float:
    if check_range(name, value, 0, 1) == 1:
        raise ValueError(f"{name}=1 leaves nothing of the label: it must be below 1")
    return float(value)


@OBJECTIVES.register("focal")
class Focal(Softmax):
    r"""Focal loss on softmax probabilities.

    L = (1 - p_y)^gamma (-log p_y), p the softmax of w_j.x + b_j    (Focal Loss eq. 4)

    Args:
        gamma: the weight's exponent. Largest Margins (App. C) uses 1.
        bias: learn a bias per class.

    When to use:
        As a baseline for imbalanced classes.

    What it equals:
        With `gamma=0` it is `softmax`.

    References:
        Lin et al., Focal Loss for Dense Object Detection, eq. 4; a baseline of Largest Margins, Table 2.

    Example:
        >>> head = hs.create_head("focal", dim=512, num_classes=1000, gamma=1)
    """

    def __init__(self, *, dim: int, num_classes: int, gamma: float = 2.0, bias: bool = True) -> None:
        super().__init__(dim=dim, num_classes=num_classes, bias=bias)
        self.gamma = check_range("gamma", gamma, 0)

    def samples(self, batch: Batch) -> Tensor:
        negatives, z_y = self.scores(batch, self.biases(batch))
        entropy = softplus(negatives - z_y)
        missed = (-torch.expm1(-entropy)).clamp(min=torch.finfo(entropy.dtype).tiny)
        return missed**self.gamma * entropy


@OBJECTIVES.register("modified_softmax")
class ModifiedSoftmax(SampleLoss):
    r"""Softmax with normalised prototypes and no bias.

    L = -log( e^{||x|| cos theta_y} / sum_j e^{||x|| cos theta_j} )    (SphereFace eq. 5)

    When to use:
        To see what normalised prototypes alone do.

    What it equals:
        It is `sphereface` with `margin=1`, and `normface` with `normalize="prototypes"`.

    References:
        SphereFace, eq. 5.

    Example:
        >>> head = hs.create_head("modified_softmax", dim=512, num_classes=10_572)
    """

    def __init__(self) -> None:
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
        power: t of SphereFace2's similarity adjustment, s g(cos_y) against s g(cos_j); needs `normalize="both"`.

    When to use:
        Cosines without a margin: fine-tuning, and few classes.

    What it equals:
        With scale s its value is the softmax of -s/2 d_j^2, d_j^2 = ||x~ - w~_j||^2 (eq. 9). With
        `normalize="prototypes"` it is `modified_softmax`. With a fixed scale it is `coco`, and every margin of zero:
        `cosface`, `arcface` and `unified`.

    References:
        NormFace, eq. 6 and sec. 5.2.

    Example:
        >>> head = hs.create_head("normface", dim=512, num_classes=10_575, scale=30, learnable_scale=False)
    """

    def __init__(
        self,
        *,
        scale: float | None = None,
        learnable_scale: bool | None = None,
        normalize: str = "both",
        power: float = 1.0,
    ) -> None:
        super().__init__()
        check_choice("normalize", normalize, ("both", "embeddings", "prototypes"))
        self.normalizes_embeddings = normalize != "prototypes"
        self.normalizes_prototypes = normalize != "embeddings"
        self.similarity = Similarity(check_positive("power", power))
        if power != 1 and normalize != "both":
            raise ValueError(f"power={power} adjusts cosines: it needs normalize='both', not {normalize!r}")
        start = check_positive("scale", scale if scale is not None else (10.0 if self.normalizes_embeddings else 1.0))
        learned = self.normalizes_embeddings if learnable_scale is None else learnable_scale
        self.scale = nn.Parameter(torch.tensor(start)) if learned else start

    def samples(self, batch: Batch) -> Tensor:
        negatives = batch.reduce(
            "logsumexp",
            self.similarity,
            scale=self.scale,
            normalize_embeddings=self.normalizes_embeddings,
            normalize_prototypes=self.normalizes_prototypes,
        )
        return softplus(negatives.value - self.scale * adjust(negatives.target, self.similarity))

    def whole(self, batch: Batch) -> Tensor | None:
        cosines = self.normalizes_embeddings and self.normalizes_prototypes and self.similarity.power == 1
        if not cosines or isinstance(self.scale, Tensor) or type(self).samples is not NormFace.samples:
            return None
        return batch.reduce_to_loss("logsumexp", self.similarity, MarginSoftmaxRow(scale=self.scale))

    def logits(self, batch: Batch) -> Logits:
        return Logits(
            self.similarity,
            self.scale,
            normalize_embeddings=self.normalizes_embeddings,
            normalize_prototypes=self.normalizes_prototypes,
        )


@OBJECTIVES.register("coco")
class CoCo(NormFace):
    r"""Congenerous cosine loss: softmax of cosines with a fixed scale.

    L = -log( e^{s cos_y} / sum_j e^{s cos_j} )

    Args:
        scale: s, 30 as in SphereFace2's comparison.

    When to use:
        As the baseline without a margin of SphereFace2's comparison.

    What it equals:
        It is `normface` with that scale, fixed.

    References:
        Liu et al., Learning Deep Features via Congenerous Cosine Loss; SphereFace2, Table 5.

    Example:
        >>> head = hs.create_head("coco", dim=512, num_classes=8631)
    """

    def __init__(self, *, scale: float = 30.0) -> None:
        super().__init__(scale=scale, learnable_scale=False)
