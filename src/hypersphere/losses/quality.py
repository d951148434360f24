"""Softmax of cosines weighted by how hard they are: CurricularFace and Circle."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hypersphere.core import check_positive, check_range
from hypersphere.engines import CircleNegative, Modulated, softplus
from hypersphere.losses.batch import OBJECTIVES, Batch, SampleLoss
from hypersphere.losses.logits import Logits
from hypersphere.losses.margins import AngularMargin, apply_margin, check_margin_grad


@OBJECTIVES.register("curricularface")
class CurricularFace(SampleLoss):
    r"""ArcFace's target with negatives that grow harder as training proceeds.

    target s cos(theta_y + m); negatives s cos_j where cos_j <= cos(theta_y + m), else s cos_j (t + cos_j)

    t is the running mean of cos_y: t <- momentum t + (1 - momentum) mean(cos_y), moved in training before it is used,
    averaged over all processes, and part of the state.

    Args:
        scale: s.
        margin: m in radians, in [0, pi/2].
        momentum: of t.
        margin_grad: `exact`, or `detached`.

    References:
        Huang et al., CurricularFace, eqs. 5-9 (the paper's target, without the released code's branch past pi - m).

    Example:
        >>> head = hs.create_head("curricularface", dim=512, num_classes=85_742)
    """

    t: Tensor

    def __init__(
        self,
        *,
        dim: int,
        num_classes: int,
        scale: float = 64.0,
        margin: float = 0.5,
        momentum: float = 0.99,
        margin_grad: str = "exact",
    ) -> None:
        super().__init__()
        self.detached = check_margin_grad(margin_grad)
        self.scale = check_positive("scale", scale)
        self.margin = AngularMargin(m2=check_range("margin", margin, 0, math.pi / 2))
        self.momentum = check_range("momentum", momentum, 0, 1)
        self.register_buffer("t", torch.zeros(()))

    def samples(self, batch: Batch) -> Tensor:
        with torch.no_grad():
            cosines = batch.target_cosines()
            if self.training:
                self._move(batch, cosines)
            harder = Modulated(self.margin.value(cosines)[:, None], self.t.to(cosines.dtype, copy=True))
        negatives = batch.reduce("logsumexp", harder, scale=self.scale)
        return softplus(negatives.value - self.scale * self.with_margin(negatives.target))

    def logits(self, batch: Batch) -> Logits:
        return Logits(scale=self.scale)

    def with_margin(self, cosine: Tensor) -> Tensor:
        return apply_margin(cosine, self.margin, detached=self.detached)

    def _move(self, batch: Batch, cosines: Tensor) -> None:
        labelled = batch.labelled
        sums = torch.stack([torch.where(labelled, cosines, 0.0).sum(), labelled.sum().to(cosines.dtype)])
        sums = batch.summed_over_rows(sums)
        moved = self.momentum * self.t + (1 - self.momentum) * (sums[0] / sums[1].clamp(min=1)).to(self.t.dtype)
        self.t.copy_(torch.where(sums[1] > 0, moved, self.t))


@OBJECTIVES.register("circle")
class Circle(SampleLoss):
    r"""Circle loss with class-level labels.

    L = log(1 + sum_{j != y} e^{s a_j (cos_j - m)} e^{-s a_y (cos_y - (1 - m))}),
    a_j = [cos_j + m]_+, a_y = [1 + m - cos_y]_+, both held constant in the gradient.

    Args:
        scale: the paper's gamma.
        margin: m, in [-1, 1].

    References:
        Sun et al., Circle Loss, eqs. 6 and 8.

    Example:
        >>> head = hs.create_head("circle", dim=512, num_classes=8631)
    """

    def __init__(self, *, dim: int, num_classes: int, scale: float = 256.0, margin: float = 0.25) -> None:
        super().__init__()
        self.scale = check_positive("scale", scale)
        self.margin = check_range("margin", margin, -1, 1)

    def samples(self, batch: Batch) -> Tensor:
        negatives = batch.reduce("logsumexp", CircleNegative(self.margin), scale=self.scale)
        weight = (1 + self.margin - negatives.target.detach()).clamp(min=0)
        return softplus(negatives.value - self.scale * weight * (negatives.target - (1 - self.margin)))

    def logits(self, batch: Batch) -> Logits:
        return Logits(scale=self.scale)
