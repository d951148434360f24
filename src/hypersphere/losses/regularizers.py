"""Regularisers: terms to add to a loss, on samples or on the prototypes themselves."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from hypersphere.core import check_choice, check_range
from hypersphere.distributed import to_local
from hypersphere.engines import Reduction, Riesz, reduce_negatives
from hypersphere.geometry import normalize as unit
from hypersphere.losses.batch import OBJECTIVES, Batch, Objective, SampleLoss
from hypersphere.losses.logits import Logits

_ROWS = 4096
_NO_MAXIMUM = "the largest of all negatives cannot be told from a sample of them"
_ALL_PROTOTYPES = "it is of all prototypes at once"


@OBJECTIVES.register("center")
class Center(SampleLoss):
    r"""Center loss, with centres that follow the embeddings of their classes.

    L = 1/2 ||x - c_y||^2;  c_j <- c_j - alpha sum_{y_i = j} (c_j - x_i) / (1 + n_j)

    n_j counts the rows of class j in the batch. The centres are no parameters: every forward in training moves them,
    after the loss has used them, by the rows of all processes. They start at zero and are part of the state.

    Args:
        alpha: how far centres move, in [0, 1].
        normalize: of unit vectors x~ and c~_y, as in NormFace's "softmax + center" with normalisation; centres then
            follow x~. A centre that no row has moved yet is zero, and gives its rows no gradient.

    When to use:
        Added to `softmax` with a small weight, to tighten the classes.

    What it equals:
        With `normalize=True` and the prototypes for centres it is half of `c_contrastive` with `margin=0`.

    References:
        Wen et al., A Discriminative Feature Learning Approach, eqs. 2 and 4 (alpha = 0.5); NormFace, Table 2. Wen et
        al.'s released layer gives eq. 4 to SGD as the centres' gradient: alpha is then the learning rate, and momentum
        and weight decay act on the centres too. In the usual PyTorch port (KaiyangZhou/pytorch-center-loss) centres are
        parameters of an optimizer of their own, which start at random; its loss lacks the 1/2, and eq. 4 the 1 + n_j.

    Example:
        >>> head = hs.create_head("softmax", dim=512, num_classes=10_575, add={"center": {"weight": 0.008}})
    """

    sums_over_classes = True
    per_class = ("centers",)
    centers: Tensor

    def __init__(self, *, dim: int, num_classes: int, alpha: float = 0.5, normalize: bool = False) -> None:
        super().__init__()
        self.alpha = check_range("alpha", alpha, 0, 1)
        self.normalize = normalize
        self.register_buffer("centers", torch.zeros(num_classes, dim))

    def logits(self, batch: Batch) -> None:
        return None  # centres are not the head's prototypes

    def samples(self, batch: Batch) -> Tensor:
        x, center = batch.embeddings, batch.at_labels(batch.shard_of(self.centers))
        if self.normalize:
            x, center = unit(x, batch.eps), unit(center, batch.eps)
        losses = ((x - center) ** 2).sum(1) / 2
        if self.training:  # after the loss: Wen et al.'s Algorithm 1 differentiates at the centres of the step before
            self._move(batch)
        return losses

    @torch.no_grad()
    def _move(self, batch: Batch) -> None:
        centers = to_local(self.centers)
        x, labels = batch.rows_of_all_processes()
        if not len(centers):
            return
        if self.normalize:
            x = unit(x, batch.eps)
        moving = (labels >= 0) & x.isfinite().all(1)  # a step that overflowed may be skipped: its rows must not stay
        x, index, moving = torch.where(moving[:, None], x, 0.0), labels.clamp(min=0), moving.to(x.dtype)
        counts = x.new_zeros(len(centers)).index_add_(0, index, moving)
        shares = self.alpha * moving / (1 + counts[index])
        centers.index_add_(0, index, (shares[:, None] * (x - centers[index])).to(centers.dtype))


@OBJECTIVES.register("sample_margin")
class SampleMargin(SampleLoss):
    r"""Sample margin regularisation R_sm, always of cosines.

    R_sm = -(cos_y - max_{j != y} cos_j)    (Largest Margins eq. 3.4)

    Args:
        form: `max`, or `mean`: -cos_y + 1/(k-1) sum_{j != y} cos_j, the right side of eq. B.2.

    When to use:
        Added with weight 0.5 or 1 to a loss of balanced classes.

    What it equals:
        It is the limit of `lm_softmax` for a large scale.

    References:
        Learning Towards the Largest Margins, eqs. 3.4 and B.2.

    Example:
        >>> head = hs.create_head("cosface", dim=64, num_classes=10, scale=20, add={"sample_margin": {"weight": 0.5}})
    """

    def __init__(self, *, form: str = "max") -> None:
        super().__init__()
        self.mean = check_choice("form", form, ("max", "mean")) == "mean"

    def sampling_error(self, unbiased: bool) -> str | None:
        return _NO_MAXIMUM if unbiased and not self.mean else None

    def samples(self, batch: Batch) -> Tensor:
        negatives = batch.reduce("sum" if self.mean else "max")
        value = negatives.value / (batch.num_classes - 1) if self.mean else negatives.value
        return value - negatives.target

    def logits(self, batch: Batch) -> Logits:
        return Logits()


@OBJECTIVES.register("zero_centroid")
class ZeroCentroid(Objective):
    r"""Zero-centroid regularisation R_w, for imbalanced classes.

    100 || 1/k sum_j w~_j ||^2    (Largest Margins eq. 3.7, with lambda' = 100 lambda of App. C)

    Its weight in a sum is the paper's lambda (1, 2, 5, 10, 20 there). Copies of the released code use
    ||sum_j w~_j||^2 without the 100 and the 1/k, which agrees at k = 10 only. Prototypes are normalised, unless the
    main loss uses them raw (plain softmax).

    When to use:
        Added with weight 1 to 20 where classes are imbalanced, with a rate that warms up: at weight 5 and a rate of 0.1
        SGD's first steps throw prototypes of length 1 or less all one way, and lengthen them until they hardly turn.

    What it equals:
        It is 0 for the regular simplex, and 100/k^2 times the copies' ||sum_j w~_j||^2.

    References:
        Learning Towards the Largest Margins, eq. 3.7 and App. C.

    Example:
        >>> head = hs.create_head("lm_softmax", dim=64, num_classes=10, add={"zero_centroid": {"weight": 5}})
    """

    depends_on_scores_only = False

    def __init__(self) -> None:
        super().__init__()

    def sampling_error(self, unbiased: bool) -> str | None:
        return _ALL_PROTOTYPES

    def forward(self, batch: Batch) -> Tensor:
        prototypes = batch.prototypes.to(batch.embeddings.dtype)
        if batch.normalizes_prototypes:
            prototypes = unit(prototypes, batch.eps)
        return 100 * ((batch.total(prototypes) / batch.num_classes) ** 2).sum()


@OBJECTIVES.register("hyperspherical_energy")
class HypersphericalEnergy(Objective):
    r"""Hyperspherical energy of the prototypes.

    E_t = 1/(k (k-1)) sum_{i != j} ||w~_i - w~_j||^-t;  log(1 / ||.||) for t = 0

    The same reduction as a loss's negatives, of the prototypes against themselves.

    Args:
        exponent: t, in [0, 8]; beyond, coinciding prototypes overflow float32.

    When to use:
        Added to any loss, to spread the prototypes.

    What it equals:
        For the regular simplex it is (2k/(k - 1))^{-t/2}.

    References:
        Largest Margins, eq. 2.4 (the Riesz t-energy); Liu et al., Learning towards Minimum Hyperspherical Energy.

    Example:
        >>> head = hs.create_head("arcface", dim=64, num_classes=10, add={"hyperspherical_energy": {"weight": 1.0}})
    """

    depends_on_scores_only = False

    def __init__(self, *, exponent: float = 2.0) -> None:
        super().__init__()
        self.kernel = Riesz(check_range("exponent", exponent, 0, 8))

    def sampling_error(self, unbiased: bool) -> str | None:
        return _ALL_PROTOTYPES

    def forward(self, batch: Batch) -> Tensor:
        reduction, dtype = Reduction("sum", self.kernel, eps=batch.eps), batch.embeddings.dtype
        part = batch.embeddings.new_zeros(())
        for rows, local_labels in batch.prototype_blocks(_ROWS):
            reduced = reduce_negatives(
                unit(rows.to(dtype), batch.eps),
                batch.prototypes,
                local_labels,
                reduction,
                options=replace(batch.options, precision=None),
            )
            part = part + reduced.value.sum()
        return batch.all_reduced(part) / (batch.num_classes * (batch.num_classes - 1))
