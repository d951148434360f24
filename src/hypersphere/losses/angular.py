"""Softmax with a multiplied angle on the target: SphereFace (A-Softmax), L-Softmax, and SphereFace-R."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from hypersphere.core import check_positive, check_range, nearest
from hypersphere.engines import DividedAngle, ScoreFunction, softplus
from hypersphere.losses.batch import OBJECTIVES, Batch, SampleLoss
from hypersphere.losses.logits import Logits
from hypersphere.losses.margin_softmax import MarginSoftmax
from hypersphere.losses.target_margins import bounded_angular_margin, check_margin_grad, detach_margin, psi, psi_of_real

RELEASED_ANNEAL: Mapping[str, float] = {"base": 1000.0, "gamma": 0.12, "power": 1.0, "minimum": 5.0}
"""The schedule of SphereFace's released code: lambda reaches 5 at step 1,659."""


class AnnealedLoss(SampleLoss):
    """A loss whose target is (lambda cos_y + psi(theta_y)) / (1 + lambda) with a falling lambda (SphereFace App. G)."""

    step: Tensor

    def __init__(self, margin: int, anneal: Mapping[str, float] | None, margin_grad: str) -> None:
        super().__init__()
        if margin not in (1, 2, 3, 4):
            raise ValueError(f"margin={margin!r} must be one of the integers 1, 2, 3, 4; sphereface_r takes a real one")
        self.margin = int(margin)
        self.detached = check_margin_grad(margin_grad)
        self.anneal = None if anneal is None else _check_anneal(anneal)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def advance(self) -> None:
        self.step += 1

    def annealing(self) -> Tensor:
        """lambda = max(minimum, base (1 + gamma step)^-power); 0 without annealing."""
        step = self.step.to(torch.float64)
        if self.anneal is None:
            return torch.zeros_like(step)
        falling = self.anneal["base"] * (1 + self.anneal["gamma"] * step) ** -self.anneal["power"]
        return falling.clamp(min=self.anneal["minimum"])

    def with_margin(self, cos_y: Tensor) -> Tensor:
        target, weight = psi(cos_y, self.margin), self.annealing().to(cos_y.dtype)
        if self.detached:
            target = detach_margin(target, cos_y)
        return (weight * cos_y + target) / (1 + weight)


def _check_anneal(anneal: Mapping[str, float]) -> dict[str, float]:
    if not isinstance(anneal, Mapping):
        raise ValueError(f"anneal={anneal!r} must map {', '.join(RELEASED_ANNEAL)} to numbers, or be None")
    for key in anneal:
        if key not in RELEASED_ANNEAL:
            raise ValueError(f"anneal[{key!r}] is unknown; {nearest(key, RELEASED_ANNEAL)}")
    return {key: check_range(f"anneal[{key!r}]", anneal.get(key, start), 0) for key, start in RELEASED_ANNEAL.items()}


@OBJECTIVES.register("sphereface")
class SphereFace(AnnealedLoss):
    r"""SphereFace, A-Softmax: a multiplicative angular margin, normalised prototypes, features of their own length.

    L = -log( e^{||x|| psi(theta_y)} / (e^{||x|| psi(theta_y)} + sum_{j != y} e^{||x|| cos_j}) )    (eq. 7)
    psi(theta) = (-1)^k cos(m theta) - 2k on [k pi/m, (k+1) pi/m]

    While annealed, psi stands for (lambda cos_y + psi(theta_y)) / (1 + lambda) (App. G).

    Args:
        margin: m, an integer from 1 to 4.
        scale: None for ||x|| as in the paper; a number for the variant with normalised features.
        anneal: base, gamma, power and minimum of lambda = max(minimum, base (1 + gamma step)^-power), by default the
            released code's; None for lambda = 0. `head.advance()` moves the step.
        margin_grad: `exact`, or `detached`.

    When to use:
        To reproduce SphereFace. Call `head.advance()` once per optimizer step: it leads from an easy task to the
        difficult one (App. G). `sphereface_r` is trained without annealing.

    What it equals:
        With `margin=1` it is `modified_softmax`, annealed or not, and with a `scale` too and `anneal=None` it is
        `normface` with that scale, fixed. With a `scale` and `anneal=None` it is `sphereface_r` v0 with the same m.

    References:
        SphereFace, eq. 7 and App. G.

    Example:
        >>> head = hs.create_head("sphereface", dim=512, num_classes=10_572, margin=4)
    """

    def __init__(
        self,
        *,
        margin: int = 4,
        scale: float | None = None,
        anneal: Mapping[str, float] | None = RELEASED_ANNEAL,
        margin_grad: str = "exact",
    ) -> None:
        super().__init__(margin, anneal, margin_grad)
        self.scale = None if scale is None else check_positive("scale", scale)

    def samples(self, batch: Batch) -> Tensor:
        scale = batch.norms if self.scale is None else self.scale
        negatives = batch.reduce("logsumexp", scale=scale)
        return softplus(negatives.value - scale * self.with_margin(negatives.target))

    def logits(self, batch: Batch) -> Logits:
        return Logits(scale=batch.norms if self.scale is None else self.scale)


@OBJECTIVES.register("l_softmax")
class LSoftmax(AnnealedLoss):
    r"""L-Softmax: A-Softmax's margin with prototypes of their own length.

    L = -log( e^{||w_y|| ||x|| psi(theta_y)} / (e^{||w_y|| ||x|| psi(theta_y)} + sum_{j != y} e^{w_j.x}) )

    Args:
        margin: m, an integer from 1 to 4.
        anneal: as for `sphereface`.
        margin_grad: `exact`, or `detached`.

    When to use:
        Closed sets, as a regulariser; m = 2 is the easiest to train.

    What it equals:
        With `margin=1` it is `softmax` with `bias=False`, annealed or not.

    References:
        Liu et al., Large-Margin Softmax Loss, eqs. 4-6; annealed as SphereFace App. G.

    Example:
        >>> head = hs.create_head("l_softmax", dim=512, num_classes=10_572, margin=2)
    """

    normalizes_prototypes = False

    def __init__(
        self,
        *,
        margin: int = 4,
        anneal: Mapping[str, float] | None = RELEASED_ANNEAL,
        margin_grad: str = "exact",
    ) -> None:
        super().__init__(margin, anneal, margin_grad)

    def samples(self, batch: Batch) -> Tensor:
        negatives = batch.reduce("logsumexp", normalize_embeddings=False, normalize_prototypes=False)
        lengths = batch.norms * batch.target_norms()
        return softplus(negatives.value - lengths * self.with_margin(negatives.target / lengths))

    def logits(self, batch: Batch) -> Logits:
        return Logits(normalize_embeddings=False, normalize_prototypes=False)


@OBJECTIVES.register("sphereface_r")
class SphereFaceR(MarginSoftmax):
    r"""SphereFace-R: a multiplicative angular margin with a real m, on the target or on the negatives.

    v0: target s psi(theta_y), psi(theta) = (-1)^k cos(m theta) - 2k on [k pi/m, (k+1) pi/m], negatives s cos_j
    v1: target s cos(min(m, pi/theta_y) theta_y), negatives s cos_j
    v2: target s cos_y, negatives s cos(theta_j / m)

    Args:
        scale: s.
        margin: m, at least 1. The peers' settings are 1.5 with s = 30 for v0 and v1, and 1.4 with s = 60 for v2.
        version: 0, 1 or 2. What SphereFace2 compares itself with under the name of SphereFace is 0.
        margin_grad: `detached` (the paper's characteristic gradient detachment), or `exact`.

    When to use:
        Where a multiplicative margin should train without annealing.

    What it equals:
        With `margin=1`, v1 and v2 are `normface` with a fixed scale. With m = 1, 2, 3 or 4, v0 is `sphereface` with
        that scale and `anneal=None`. Up to theta_y = pi/m, v0 is v1, and v1 with `margin_grad="exact"` is `unified`
        with m1 = m.

    References:
        Liu et al., SphereFace Revived; SphereFace2, Table 5 (v0) and App. F (v1).

    Example:
        >>> head = hs.create_head("sphereface_r", dim=512, num_classes=8631, version=2, scale=60, margin=1.4)
    """

    def __init__(
        self, *, scale: float = 30.0, margin: float = 1.5, version: int = 1, margin_grad: str = "detached"
    ) -> None:
        super().__init__(scale=scale, margin_grad=margin_grad)
        self.margin = check_range("margin", margin, 1)
        if version not in (0, 1, 2):
            raise ValueError(f"version={version!r} must be 0 or 1 (margin on the target), or 2 (on the negatives)")
        self.version = version

    def with_margin(self, cos_y: Tensor) -> Tensor:
        if self.version == 2:
            return cos_y
        return psi_of_real(cos_y, self.margin) if self.version == 0 else bounded_angular_margin(cos_y, m1=self.margin)

    def negative_function(self, batch: Batch) -> ScoreFunction:
        return DividedAngle(self.margin, self.detached) if self.version == 2 else self.similarity
