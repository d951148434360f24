"""Softmax of scaled cosines with a margin: CosFace, ArcFace, AmpFace, all of them together, CurricularFace, Circle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hypersphere.core import check_integer, check_positive, check_range
from hypersphere.engines import CircleNegative, MarginSoftmaxRow, Modulated, ScoreFunction, Similarity, softplus
from hypersphere.losses.batch import OBJECTIVES, Batch, SampleLoss
from hypersphere.losses.logits import Logits
from hypersphere.losses.target_margins import adjust, angular_margin, check_margin_grad, detach_margin

WithMargin = Callable[[Any, Tensor], Tensor]
_NUMBERS: dict[WithMargin, Callable[[Any], dict[str, float]]] = {}
"""The margins that `MarginSoftmaxRow` knows, by the method that computes them: a method that overrides one has none."""


def stated_in(numbers: Callable[[Any], dict[str, float]]) -> Callable[[WithMargin], WithMargin]:
    """Declare which m0, m2, m3 the decorated `with_margin` applies, for the engine that computes the loss whole."""

    def declare(with_margin: WithMargin) -> WithMargin:
        _NUMBERS[with_margin] = numbers
        return with_margin

    return declare


class MarginSoftmax(SampleLoss):
    r"""Softmax of the target s f(cos_y) against the negatives s g(cos_j).

    L = -log( e^{s f(cos_y)} / (e^{s f(cos_y)} + sum_{j != y} e^{s g(cos_j)}) )
      = softplus( log sum_{j != y} e^{s g(cos_j)} - s f(cos_y) )

    A subclass writes f, its margin, in `with_margin`. g is SphereFace2's similarity adjustment, cos_j itself unless
    `power` is given, and max(0, g) with the wrong-class ReLU. With K prototypes of every class (the head's
    `subcenters`), cos_j is the largest of its K cosines (Sub-center ArcFace, eq. 4).
    """

    takes_subcenters = True
    step: Tensor

    def __init__(
        self,
        *,
        scale: float,
        power: float = 1.0,
        wrong_class_relu: bool = False,
        margin_grad: str = "exact",
        margin_steps: int = 0,
    ) -> None:
        super().__init__()
        self.scale = check_positive("scale", scale)
        self.similarity = Similarity(check_positive("power", power))
        self.wrong_class_relu = wrong_class_relu
        self.detached = check_margin_grad(margin_grad)
        self.margin_steps = check_integer("margin_steps", margin_steps, 0)
        if margin_steps:
            self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def samples(self, batch: Batch) -> Tensor:
        negatives = batch.reduce("logsumexp", self.negative_function(batch), scale=self.scale)
        target = self.with_margin(negatives.target)
        if self.detached:
            target = detach_margin(target, self.g(negatives.target))
        return softplus(negatives.value - self.scale * target)

    def whole(self, batch: Batch) -> Tensor | None:
        own = type(self)
        numbers = _NUMBERS.get(own.with_margin)
        written_here = own.samples is MarginSoftmax.samples and own.negative_function is MarginSoftmax.negative_function
        if numbers is None or not written_here or self.margin_steps or self.similarity.power != 1:
            return None
        row = MarginSoftmaxRow(scale=self.scale, detached=self.detached, **numbers(self))
        return batch.reduce_to_loss("logsumexp", self.negative_function(batch), row)

    def negative_function(self, batch: Batch) -> ScoreFunction:
        """Return what the loss makes of a negative's cosine: g(cos_j), or max(0, g(cos_j))."""
        return Similarity(self.similarity.power, relu=self.wrong_class_relu)

    def g(self, cosine: Tensor) -> Tensor:
        """Return the adjusted cosine, which is the cosine itself for `power=1`."""
        return adjust(cosine, self.similarity)

    def scheduled(self, margin: float, none: float = 0.0) -> Tensor | float:
        """Return the margin of this step, which grows linearly from `none` over `margin_steps` calls of `advance`."""
        if not self.margin_steps or margin == none:
            return margin
        return margin + (1 - (self.step.to(torch.float64) / self.margin_steps).clamp(max=1)) * (none - margin)

    def advance(self) -> None:
        if self.margin_steps:
            self.step += 1

    def logits(self, batch: Batch) -> Logits:
        return Logits(self.similarity, self.scale)


@OBJECTIVES.register("cosface")
class CosFace(MarginSoftmax):
    r"""Additive cosine margin.

    L = -log( e^{s (cos_y - m)} / (e^{s (cos_y - m)} + sum_{j != y} e^{s cos_j}) )

    Args:
        scale: s.
        margin: m, in [0, 2].
        power: t of the similarity adjustment: s (g(cos_y) - m) against s g(cos_j) (SphereFace2 App. D).
        margin_grad: the same either way, since the margin is a constant; taken so that all margins are called alike.
        margin_steps: the margin grows linearly from none over so many steps of `head.advance()`.

    When to use:
        The first choice for many identities: it is stable and strong, and has no angle to differentiate.

    What it equals:
        With `margin=0` it is `normface` with a fixed scale. It is `unified` with m3 alone, `gm_softmax` with
        beta1 = beta2 = -m, and `ldam` with equal class counts.

    References:
        Wang et al., CosFace; m3 of Largest Margins eq. 3.1 and of the AmpFace appendix.

    Example:
        >>> head = hs.create_head("cosface", dim=512, num_classes=85_742, scale=64, margin=0.35)
    """

    def __init__(
        self,
        *,
        scale: float = 64.0,
        margin: float = 0.35,
        power: float = 1.0,
        margin_grad: str = "exact",
        margin_steps: int = 0,
    ) -> None:
        super().__init__(scale=scale, power=power, margin_grad=margin_grad, margin_steps=margin_steps)
        self.margin = check_range("margin", margin, 0, 2)

    @stated_in(lambda loss: {"m3": loss.margin})
    def with_margin(self, cos_y: Tensor) -> Tensor:
        return self.g(cos_y) - self.scheduled(self.margin)


@OBJECTIVES.register("arcface")
class ArcFace(MarginSoftmax):
    r"""Additive angular margin.

    L = -log( e^{s cos(theta_y + m)} / (e^{s cos(theta_y + m)} + sum_{j != y} e^{s cos_j}) )

    Args:
        scale: s.
        margin: m in radians, in [0, pi/2] (beyond it the minimum lies at theta = pi: Largest Margins, B.1).
        power: t of the similarity adjustment: s g(cos(theta_y + m)) against s g(cos_j) (SphereFace2 App. D).
        margin_grad: `exact`, or `detached` as InsightFace and OpenSphere train.
        margin_steps: the margin grows linearly from none over so many steps of `head.advance()`.

    When to use:
        Many identities with clean labels. If training stalls at the start, let the margin grow with `margin_steps`.

    What it equals:
        With `margin=0` it is `normface` with a fixed scale. It is `unified` with m2 alone.

    References:
        Deng et al., ArcFace; m2 of Largest Margins eq. 3.1 and of the AmpFace appendix.

    Example:
        >>> head = hs.create_head("arcface", dim=512, num_classes=85_742, scale=64, margin=0.5)
    """

    def __init__(
        self,
        *,
        scale: float = 64.0,
        margin: float = 0.5,
        power: float = 1.0,
        margin_grad: str = "exact",
        margin_steps: int = 0,
    ) -> None:
        super().__init__(scale=scale, power=power, margin_grad=margin_grad, margin_steps=margin_steps)
        self.margin = check_range("margin", margin, 0, math.pi / 2)

    @stated_in(lambda loss: {"m2": loss.margin})
    def with_margin(self, cos_y: Tensor) -> Tensor:
        return self.g(angular_margin(cos_y, m2=self.scheduled(self.margin)))


@OBJECTIVES.register("ampface")
class AmpFace(MarginSoftmax):
    r"""Multiplicative cosine margin, with the wrong-class ReLU.

    L = -log( e^{s m0 cos_y} / (e^{s m0 cos_y} + sum_{j != y} e^{s max(0, cos_j)}) )

    Args:
        scale: s.
        margin: m0, in (0, 1].
        wrong_class_relu: max(0, cos_j) on the negatives.
        margin_grad: `exact`, or `detached` (the derivative of cos_y instead of m0 cos_y).
        margin_steps: the margin grows linearly from none over so many steps of `head.advance()`.

    When to use:
        It trains about as well as `cosface`. Keep the ReLU on: without it all prototypes at -x have nearly no loss, an
        optimum without any class (polar collapse).

    What it equals:
        It is `unified` with m0 alone and the same ReLU.

    References:
        Unifying Margin-Based Softmax Losses in Face Recognition, appendix B (m0) and Table 3.

    Example:
        >>> head = hs.create_head("ampface", dim=512, num_classes=85_742, margin=0.35)
    """

    def __init__(
        self,
        *,
        scale: float = 64.0,
        margin: float = 0.35,
        wrong_class_relu: bool = True,
        margin_grad: str = "exact",
        margin_steps: int = 0,
    ) -> None:
        super().__init__(
            scale=scale, wrong_class_relu=wrong_class_relu, margin_grad=margin_grad, margin_steps=margin_steps
        )
        self.margin = check_range("margin", check_positive("margin", margin), 0, 1)

    @stated_in(lambda loss: {"m0": loss.margin})
    def with_margin(self, cos_y: Tensor) -> Tensor:
        return self.scheduled(self.margin, none=1.0) * cos_y


@OBJECTIVES.register("unified")
class Unified(MarginSoftmax):
    r"""All four margins together.

    target s (m0 cos(m1 theta_y + m2) - m3), negatives s cos_j, or s max(0, cos_j)    (AmpFace eq. 3)

    With an adjustment g, the target is s (m0 g(cos(m1 theta_y + m2)) - m3) and the negatives are s g(cos_j).

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

    When to use:
        To combine margins or to compare them. Turn the ReLU on for m0 < 1 or m1 > 1.

    What it equals:
        Without options it is `normface` with a fixed scale. With m0, m2 or m3 alone it is `ampface` (the ReLU switched
        alike), `arcface` or `cosface`. With m1 alone it is `sphereface_r` v1 with `margin_grad="exact"` up to
        theta_y = pi/m1; beyond, its cosine turns back up.

    References:
        Unifying Margin-Based Softmax Losses in Face Recognition, eq. 3 and appendices B-C; Largest Margins, eq. 3.1.

    Example:
        >>> head = hs.create_head("unified", dim=512, num_classes=85_742, m2=0.3, m3=0.2)
    """

    def __init__(
        self,
        *,
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
        super().__init__(
            scale=scale,
            power=power,
            wrong_class_relu=wrong_class_relu,
            margin_grad=margin_grad,
            margin_steps=margin_steps,
        )
        self.m0, self.m1 = check_positive("m0", m0), check_positive("m1", m1)
        self.m2, self.m3 = check_range("m2", m2, 0, math.pi / 2), check_range("m3", m3, 0, 2)

    def with_margin(self, cos_y: Tensor) -> Tensor:
        m0, m1 = self.scheduled(self.m0, none=1.0), self.scheduled(self.m1, none=1.0)
        m2, m3 = self.scheduled(self.m2), self.scheduled(self.m3)
        return m0 * self.g(angular_margin(cos_y, m1, m2)) - m3


@OBJECTIVES.register("curricularface")
class CurricularFace(MarginSoftmax):
    r"""ArcFace's target with negatives that grow harder as training proceeds.

    target s cos(theta_y + m); negatives s cos_j where cos_j <= cos(theta_y + m), else s cos_j (t + cos_j)

    t is the running mean of cos_y: t <- momentum t + (1 - momentum) mean(cos_y), moved in training before it is used,
    averaged over all processes, and part of the state.

    Args:
        scale: s.
        margin: m in radians, in [0, pi/2].
        momentum: of t.
        margin_grad: `exact`, or `detached`.

    When to use:
        Large sets with many easy samples, where the hard negatives should count more the better the network is.

    What it equals:
        Where no negative is harder than the target with its margin, it is `arcface`.

    References:
        Huang et al., CurricularFace, eqs. 5-9 (the paper's target, without the released code's branch past pi - m).

    Example:
        >>> head = hs.create_head("curricularface", dim=512, num_classes=85_742)
    """

    takes_subcenters = False
    t: Tensor

    def __init__(
        self, *, scale: float = 64.0, margin: float = 0.5, momentum: float = 0.99, margin_grad: str = "exact"
    ) -> None:
        super().__init__(scale=scale, margin_grad=margin_grad)
        self.margin = check_range("margin", margin, 0, math.pi / 2)
        self.momentum = check_range("momentum", momentum, 0, 1)
        self.register_buffer("t", torch.zeros(()))

    def with_margin(self, cos_y: Tensor) -> Tensor:
        return angular_margin(cos_y, m2=self.margin)

    def negative_function(self, batch: Batch) -> ScoreFunction:
        with torch.no_grad():
            cos_y = batch.target_cosines()
            if self.training:
                self._move(batch, cos_y)
            return Modulated(self.with_margin(cos_y)[:, None], self.t.to(cos_y.dtype, copy=True))

    def _move(self, batch: Batch, cos_y: Tensor) -> None:
        labelled = batch.labelled
        sums = torch.stack([torch.where(labelled, cos_y, 0.0).sum(), labelled.sum().to(cos_y.dtype)])
        sums = batch.summed_over_rows(sums)
        moved = self.momentum * self.t + (1 - self.momentum) * (sums[0] / sums[1].clamp(min=1)).to(self.t.dtype)
        self.t.copy_(torch.where(sums[1] > 0, moved, self.t))


@OBJECTIVES.register("circle")
class Circle(SampleLoss):
    r"""Circle loss with class-level labels.

    L = log(1 + sum_{j != y} e^{s a_j (cos_j - m)} e^{-s a_y (cos_y - (1 - m))}),
    a_j = [cos_j + m]_+, a_y = [1 + m - cos_y]_+, both held constant in the gradient    (eqs. 6 and 8)

    Args:
        scale: the paper's gamma.
        margin: m, in [-1, 1].

    When to use:
        Re-identification and retrieval: every cosine is pulled the harder, the farther it is from where it should be.

    What it equals:
        While all weights are positive, its value is softplus(LSE(s cos_j^2) + s (1 - cos_y)^2 - 2 s m^2), LSE the
        logsumexp over j != y. So the boundary between two classes is a circle in the plane of cos_j and cos_y.

    References:
        Sun et al., Circle Loss, eqs. 6 and 8.

    Example:
        >>> head = hs.create_head("circle", dim=512, num_classes=8631)
    """

    def __init__(self, *, scale: float = 256.0, margin: float = 0.25) -> None:
        super().__init__()
        self.scale = check_positive("scale", scale)
        self.margin = check_range("margin", margin, -1, 1)

    def samples(self, batch: Batch) -> Tensor:
        negatives = batch.reduce("logsumexp", CircleNegative(self.margin), scale=self.scale)
        a_y = (1 + self.margin - negatives.target.detach()).clamp(min=0)
        return softplus(negatives.value - self.scale * a_y * (negatives.target - (1 - self.margin)))

    def logits(self, batch: Batch) -> Logits:
        return Logits(scale=self.scale)
