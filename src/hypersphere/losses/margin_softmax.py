"""Softmax of scaled cosines with a margin: CosFace, ArcFace, AmpFace, all of them together, and SphereFace-R."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hypersphere.core import check_integer, check_positive, check_range
from hypersphere.engines import DividedAngle, Similarity, softplus
from hypersphere.geometry import with_derivative
from hypersphere.losses.batch import OBJECTIVES, Batch, SampleLoss
from hypersphere.losses.logits import Logits
from hypersphere.losses.margins import AngularMargin, BoundedAngle, ExtendedAngle, apply_margin, check_margin_grad


class CosineLoss(SampleLoss):
    """Softmax of s f(cos_y) against s g(cos_j): a fixed scale, a margin f on the target, an adjustment g of all.

    The margins may grow linearly from none to their full size over the first `margin_steps` steps of `advance()`; the
    step is part of the state.
    """

    step: Tensor

    def __init__(
        self,
        scale: float,
        margin: AngularMargin,
        *,
        adjust: Similarity | None = None,
        detached: bool = False,
        margin_steps: int = 0,
    ) -> None:
        super().__init__()
        self.scale = check_positive("scale", scale)
        self.margin = margin
        self.adjust = adjust or Similarity()
        self.detached = detached
        self.margin_steps = check_integer("margin_steps", margin_steps, 0)
        if margin_steps:
            self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def advance(self) -> None:
        if self.margin_steps:
            self.step += 1

    def in_force(self, margin: AngularMargin) -> AngularMargin:
        """As much of a margin as this step has."""
        if not self.margin_steps:
            return margin
        return margin.grown((self.step.to(torch.float64) / self.margin_steps).clamp(max=1))

    def samples(self, batch: Batch) -> Tensor:
        negatives = batch.reduce("logsumexp", self.adjust, scale=self.scale)
        return softplus(negatives.value - self.scale * self.with_margin(negatives.target))

    def logits(self, batch: Batch) -> Logits:
        return Logits(Similarity(self.adjust.power), self.scale)

    def with_margin(self, cosine: Tensor) -> Tensor:
        """The target's cosine after margin and adjustment."""
        return apply_margin(
            cosine, self.in_force(self.margin), detached=self.detached, adjust=Similarity(self.adjust.power)
        )


@OBJECTIVES.register("coco")
class CoCo(CosineLoss):
    r"""Congenerous cosine loss: softmax of cosines with a fixed scale.

    L = -log( e^{s cos_y} / sum_j e^{s cos_j} )

    Args:
        scale: s, 30 as in SphereFace2's comparison.

    References:
        Liu et al., Learning Deep Features via Congenerous Cosine Loss; SphereFace2, Table 5; NormFace with s fixed.

    Example:
        >>> head = hs.create_head("coco", dim=512, num_classes=8631)
    """

    def __init__(self, *, dim: int, num_classes: int, scale: float = 30.0) -> None:
        super().__init__(scale, AngularMargin())


@OBJECTIVES.register("cosface")
class CosFace(CosineLoss):
    r"""Additive cosine margin.

    L = -log( e^{s (cos_y - m)} / (e^{s (cos_y - m)} + sum_{j != y} e^{s cos_j}) )

    Args:
        scale: s.
        margin: m, in [0, 2].
        power: t of the similarity adjustment: s (g(cos_y) - m) against s g(cos_j) (SphereFace2 App. D).
        margin_grad: the same either way, since the margin is a constant; taken so that all margins are called alike.
        margin_steps: the margin grows linearly from none over so many steps of `head.advance()`.

    References:
        Wang et al., CosFace; m3 of Largest Margins eq. 3.1 and of the AmpFace appendix.

    Example:
        >>> head = hs.create_head("cosface", dim=512, num_classes=85_742, scale=64, margin=0.35)
    """

    def __init__(
        self,
        *,
        dim: int,
        num_classes: int,
        scale: float = 64.0,
        margin: float = 0.35,
        power: float = 1.0,
        margin_grad: str = "exact",
        margin_steps: int = 0,
    ) -> None:
        super().__init__(
            scale,
            AngularMargin(),
            adjust=Similarity(check_positive("power", power)),
            detached=check_margin_grad(margin_grad),
            margin_steps=margin_steps,
        )
        self.outer = AngularMargin(m3=check_range("margin", margin, 0, 2))

    def with_margin(self, cosine: Tensor) -> Tensor:
        return super().with_margin(cosine) - self.in_force(self.outer).m3


@OBJECTIVES.register("arcface")
class ArcFace(CosineLoss):
    r"""Additive angular margin.

    L = -log( e^{s cos(theta_y + m)} / (e^{s cos(theta_y + m)} + sum_{j != y} e^{s cos_j}) )

    Args:
        scale: s.
        margin: m in radians, in [0, pi/2] (beyond it the minimum lies at theta = pi: Largest Margins, B.1).
        power: t of the similarity adjustment: s g(cos(theta_y + m)) against s g(cos_j) (SphereFace2 App. D).
        margin_grad: `exact`, or `detached` as InsightFace and OpenSphere train.
        margin_steps: the margin grows linearly from none over so many steps of `head.advance()`.

    References:
        Deng et al., ArcFace; m2 of Largest Margins eq. 3.1 and of the AmpFace appendix.

    Example:
        >>> head = hs.create_head("arcface", dim=512, num_classes=85_742, scale=64, margin=0.5)
    """

    def __init__(
        self,
        *,
        dim: int,
        num_classes: int,
        scale: float = 64.0,
        margin: float = 0.5,
        power: float = 1.0,
        margin_grad: str = "exact",
        margin_steps: int = 0,
    ) -> None:
        super().__init__(
            scale,
            AngularMargin(m2=check_range("margin", margin, 0, math.pi / 2)),
            adjust=Similarity(check_positive("power", power)),
            detached=check_margin_grad(margin_grad),
            margin_steps=margin_steps,
        )


@OBJECTIVES.register("ampface")
class AmpFace(CosineLoss):
    r"""Multiplicative cosine margin, with the wrong-class ReLU.

    L = -log( e^{s m0 cos_y} / (e^{s m0 cos_y} + sum_{j != y} e^{s max(0, cos_j)}) )

    Without the ReLU all prototypes at -x have nearly no loss (polar collapse).

    Args:
        scale: s.
        margin: m0, in (0, 1].
        wrong_class_relu: max(0, cos_j) on the negatives.
        margin_grad: `exact`, or `detached` (the slope of cos_y instead of m0 cos_y).
        margin_steps: the margin grows linearly from none over so many steps of `head.advance()`.

    References:
        Unifying Margin-Based Softmax Losses in Face Recognition, appendix B (m0) and Table 3.

    Example:
        >>> head = hs.create_head("ampface", dim=512, num_classes=85_742, margin=0.35)
    """

    def __init__(
        self,
        *,
        dim: int,
        num_classes: int,
        scale: float = 64.0,
        margin: float = 0.35,
        wrong_class_relu: bool = True,
        margin_grad: str = "exact",
        margin_steps: int = 0,
    ) -> None:
        m0 = check_range("margin", check_positive("margin", margin), 0, 1)
        super().__init__(
            scale,
            AngularMargin(m0=m0),
            adjust=Similarity(relu=wrong_class_relu),
            detached=check_margin_grad(margin_grad),
            margin_steps=margin_steps,
        )


@OBJECTIVES.register("unified")
class Unified(CosineLoss):
    r"""All four margins together.

    target s (m0 cos(m1 theta_y + m2) - m3), negatives s cos_j, or s max(0, cos_j)

    With an adjustment g, the target is s (m0 g(cos(m1 theta_y + m2)) - m3) and the negatives s g(cos_j).

    Args:
        scale: s.
        m0: amplitude (AmpFace), positive.
        m1: multiple of the angle (SphereFace), positive. The plain cosine, not psi.
        m2: added angle (ArcFace), in [0, pi/2].
        m3: subtracted cosine (CosFace), in [0, 2].
        wrong_class_relu: the ReLU of the AmpFace paper, which it needs for m0 < 1 and m1 > 1.
        power: t of the similarity adjustment.
        margin_grad: `exact`, or `detached`.
        margin_steps: the margins grow linearly from none over so many steps of `head.advance()`.

    References:
        Unifying Margin-Based Softmax Losses in Face Recognition, eq. 3 and appendices B-C; Largest Margins, eq. 3.1.

    Example:
        >>> head = hs.create_head("unified", dim=512, num_classes=85_742, m2=0.3, m3=0.2)
    """

    def __init__(
        self,
        *,
        dim: int,
        num_classes: int,
        scale: float = 64.0,
        m0: float = 1.0,
        m1: float = 1.0,
        m2: float = 0.0,
        m3: float = 0.0,
        wrong_class_relu: bool = False,
        power: float = 1.0,
        margin_grad: str = "exact",
        margin_steps: int = 0,
    ) -> None:
        angular = AngularMargin(m1=check_positive("m1", m1), m2=check_range("m2", m2, 0, math.pi / 2))
        super().__init__(
            scale,
            angular,
            adjust=Similarity(check_positive("power", power), relu=wrong_class_relu),
            detached=check_margin_grad(margin_grad),
            margin_steps=margin_steps,
        )
        self.outer = AngularMargin(m0=check_positive("m0", m0), m3=check_range("m3", m3, 0, 2))

    def with_margin(self, cosine: Tensor) -> Tensor:
        bent = super().with_margin(cosine)
        outer = self.in_force(self.outer)
        amplified = with_derivative(bent, outer.m0 * bent.detach(), 1.0 if self.detached else outer.m0)
        return amplified - outer.m3


@OBJECTIVES.register("sphereface_r")
class SphereFaceR(SampleLoss):
    r"""SphereFace-R: a multiplicative angular margin with a real m, on the target or on the negatives.

    v0: target s psi(theta_y), psi(theta) = (-1)^k cos(m theta) - 2k on [k pi/m, (k+1) pi/m], negatives s cos_j
    v1: target s cos(min(m, pi/theta_y) theta_y), negatives s cos_j
    v2: target s cos_y, negatives s cos(theta_j / m)

    Args:
        scale: s.
        margin: m, at least 1. The peers' settings are 1.5 with s = 30 for v0 and v1, and 1.4 with s = 60 for v2.
        version: 0, 1 or 2. What SphereFace2 compares itself with under the name of SphereFace is 0.
        margin_grad: `detached` (the paper's characteristic gradient detachment), or `exact`.

    References:
        Liu et al., SphereFace Revived; SphereFace2, Table 5 (v0) and App. F (v1).

    Example:
        >>> head = hs.create_head("sphereface_r", dim=512, num_classes=8631, version=2, scale=60, margin=1.4)
    """

    def __init__(
        self,
        *,
        dim: int,
        num_classes: int,
        scale: float = 30.0,
        margin: float = 1.5,
        version: int = 1,
        margin_grad: str = "detached",
    ) -> None:
        super().__init__()
        self.scale = check_positive("scale", scale)
        self.margin = check_range("margin", margin, 1)
        if version not in (0, 1, 2):
            raise ValueError(f"version={version!r} must be 0 or 1 (margin on the target), or 2 (on the negatives)")
        self.version = version
        self.detached = check_margin_grad(margin_grad)

    def samples(self, batch: Batch) -> Tensor:
        negative = DividedAngle(self.margin, self.detached) if self.version == 2 else Similarity()
        negatives = batch.reduce("logsumexp", negative, scale=self.scale)
        return softplus(negatives.value - self.scale * self.with_margin(negatives.target))

    def logits(self, batch: Batch) -> Logits:
        return Logits(scale=self.scale)

    def with_margin(self, cosine: Tensor) -> Tensor:
        if self.version == 2:
            return cosine
        margin = ExtendedAngle(self.margin) if self.version == 0 else BoundedAngle(m1=self.margin)
        return apply_margin(cosine, margin, detached=self.detached)
