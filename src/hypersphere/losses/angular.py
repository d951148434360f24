"""L-Softmax and A-Softmax: psi(theta) on the target, annealed from plain softmax."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from hypersphere.core import check_positive, check_range, nearest
from hypersphere.engines import softplus
from hypersphere.losses.batch import OBJECTIVES, Batch, SampleLoss
from hypersphere.losses.logits import Logits
from hypersphere.losses.margins import Psi, apply_margin, check_margin_grad

RELEASED_ANNEAL: Mapping[str, float] = {"base": 1000.0, "gamma": 0.12, "power": 1.0, "minimum": 5.0}
"""The schedule of SphereFace's released code: lambda reaches 5 at step 1,659."""


class AnnealedLoss(SampleLoss):
    """A loss whose target is (lambda cos + psi) / (1 + lambda) (SphereFace App. G), lambda falling step by step."""

    step: Tensor

    def __init__(self, margin: int, anneal: Mapping[str, float] | None, margin_grad: str) -> None:
        super().__init__()
        if margin not in (1, 2, 3, 4):
            raise ValueError(f"margin={margin!r} must be one of the integers 1, 2, 3, 4; sphereface_r takes a real one")
        self.psi = Psi(int(margin))
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

    def with_margin(self, cosine: Tensor) -> Tensor:
        """(lambda cos_y + psi(theta_y)) / (1 + lambda)."""
        weight = self.annealing().to(cosine.dtype)
        return (weight * cosine + apply_margin(cosine, self.psi, detached=self.detached)) / (1 + weight)


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
        margin: m, an integer from 1 (modified softmax) to 4.
        scale: None for ||x|| as in the paper; a number for the variant with normalised features.
        anneal: base, gamma, power and minimum of lambda = max(minimum, base (1 + gamma step)^-power), by default the
            released code's; None for lambda = 0. `head.advance()` moves the step.
        margin_grad: `exact`, or `detached`.

    References:
        SphereFace, eq. 7 and App. G.

    Example:
        >>> head = hs.create_head("sphereface", dim=512, num_classes=10_572, margin=4)
    """

    def __init__(
        self,
        *,
        dim: int,
        num_classes: int,
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
        margin: m, an integer from 1 (softmax without bias) to 4.
        anneal: as for `sphereface`.
        margin_grad: `exact`, or `detached`.

    References:
        Liu et al., Large-Margin Softmax Loss, eqs. 4-6; annealed as SphereFace App. G.

    Example:
        >>> head = hs.create_head("l_softmax", dim=512, num_classes=10_572, margin=2)
    """

    normalizes_prototypes = False

    def __init__(
        self,
        *,
        dim: int,
        num_classes: int,
        margin: int = 4,
        anneal: Mapping[str, float] | None = RELEASED_ANNEAL,
        margin_grad: str = "exact",
    ) -> None:
        super().__init__(margin, anneal, margin_grad)

    def samples(self, batch: Batch) -> Tensor:
        negatives = batch.reduce("logsumexp", normalize_embeddings=False, normalize_prototypes=False)
        length = batch.norms * batch.target_norms()
        return softplus(negatives.value - length * self.with_margin(negatives.target / length))

    def logits(self, batch: Batch) -> Logits:
        return Logits(normalize_embeddings=False, normalize_prototypes=False)
