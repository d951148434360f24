"""What a margin does to the target's cosine: curves with explicit derivatives, and how their gradient is taken."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hypersphere.core import check_choice
from hypersphere.engines import ScoreFunction, Similarity
from hypersphere.geometry import sine_from_cosine, with_derivative

MARGIN_GRADS = ("exact", "detached")


def check_margin_grad(value: str) -> bool:
    """True where the margin's gradient is detached."""
    return check_choice("margin_grad", value, MARGIN_GRADS) == "detached"


def apply_margin(cosine: Tensor, curve: ScoreFunction, *, detached: bool, adjust: Similarity | None = None) -> Tensor:
    """g(f(c)): the margin f, then the similarity adjustment g.

    Exact: the derivative is g'(f(c)) f'(c). Detached, it is that of g(c) + stopgrad(g(f(c)) - g(c)), namely g'(c):
    the margin shapes the value alone (the characteristic gradient detachment of SphereFace2's App. F).
    """
    adjust = adjust or Similarity()
    c = cosine.detach()
    bent = curve.value(c)
    derivative = adjust.derivative(c) if detached else adjust.derivative(bent) * curve.derivative(c)
    return with_derivative(cosine, adjust.value(bent), derivative)


@dataclass(frozen=True)
class AngularMargin:
    """m0 cos(m1 theta + m2) - m3, the margins of the AmpFace paper (its eq. 3); linear where m1 = 1 and m2 = 0.

    The angle's subgradient at the poles is 0. A margin that grows is a tensor, whose value is not waited for.
    """

    m0: float | Tensor = 1.0
    m1: float | Tensor = 1.0
    m2: float | Tensor = 0.0
    m3: float | Tensor = 0.0

    def grown(self, share: Tensor) -> AngularMargin:
        """The same margins, each only a share of the way from none (1, 1, 0, 0)."""
        pairs = ((self.m0, 1.0), (self.m1, 1.0), (self.m2, 0.0), (self.m3, 0.0))
        return AngularMargin(*(full if full == none else full + (1 - share) * (none - full) for full, none in pairs))

    def value(self, score: Tensor) -> Tensor:
        if self._linear():
            return self.m0 * score - self.m3
        return self.m0 * torch.cos(self._angle(score)) - self.m3

    def derivative(self, score: Tensor) -> Tensor | float:
        if self._linear():
            return self.m0
        sine = sine_from_cosine(score)
        return torch.where(sine > 0, self.m0 * self.m1 * torch.sin(self._angle(score)) / sine, 0.0)

    def _linear(self) -> bool:
        return not isinstance(self.m1, Tensor) and not isinstance(self.m2, Tensor) and self.m1 == 1 and self.m2 == 0

    def _angle(self, score: Tensor) -> Tensor:
        return self.m1 * torch.arccos(score.clamp(-1, 1)) + self.m2


@dataclass(frozen=True)
class BoundedAngle:
    """cos(min(pi, m1 theta + m2)): SphereFace-R v1 and the margins A and M of SphereFace2's App. F."""

    m1: float = 1.0
    m2: float = 0.0

    def value(self, score: Tensor) -> Tensor:
        return self._margin().value(score).where(self._free(score), -torch.ones_like(score))

    def derivative(self, score: Tensor) -> Tensor:
        derivative = self._margin().derivative(score) * torch.ones_like(score)
        return derivative.where(self._free(score), torch.zeros_like(score))

    def _margin(self) -> AngularMargin:
        return AngularMargin(m1=self.m1, m2=self.m2)

    def _free(self, score: Tensor) -> Tensor:
        return score >= math.cos(max(0.0, math.pi - self.m2) / self.m1)


@dataclass(frozen=True)
class ExtendedAngle:
    """psi(theta) = (-1)^k cos(m theta) - 2k on [k pi/m, (k+1) pi/m] with a real m: SphereFace-R v0.

    For a whole m it is `Psi`, but for the slope at the poles: the angle's subgradient there is 0.
    """

    margin: float

    def value(self, score: Tensor) -> Tensor:
        angle, turns, sign = self._parts(score)
        return sign * torch.cos(angle) - 2 * turns

    def derivative(self, score: Tensor) -> Tensor:
        angle, _, sign = self._parts(score)
        sine = sine_from_cosine(score)
        return torch.where(sine > 0, sign * self.margin * torch.sin(angle) / sine, 0.0)

    def _parts(self, score: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """m theta, k and (-1)^k."""
        angle = self.margin * torch.arccos(score.clamp(-1, 1))
        turns = (angle / math.pi).floor()
        return angle, turns, 1 - 2 * (turns % 2)


@dataclass(frozen=True)
class Psi:
    """psi(theta) = (-1)^k cos(m theta) - 2k on [k pi/m, (k+1) pi/m] (SphereFace eq. 7), m = 1, 2, 3, 4.

    By the multi-angle formula, so that no angle is taken: the derivative is m^2 at cos = 1.
    """

    margin: int

    def value(self, score: Tensor) -> Tensor:
        c = score.clamp(-1, 1)
        segment = self._segment(c)
        multiple = (c, 2 * c**2 - 1, 4 * c**3 - 3 * c, 8 * c**4 - 8 * c**2 + 1)[self.margin - 1]
        return self._sign(segment) * multiple - 2 * segment

    def derivative(self, score: Tensor) -> Tensor | float:
        if self.margin == 1:
            return 1.0
        c = score.clamp(-1, 1)
        derivative = (4 * c, 12 * c**2 - 3, 32 * c**3 - 16 * c)[self.margin - 2]
        return self._sign(self._segment(c)) * derivative

    def _segment(self, c: Tensor) -> Tensor:
        starts = [math.cos(k * math.pi / self.margin) for k in range(1, self.margin)]
        return sum(((c < start).to(c.dtype) for start in starts), torch.zeros_like(c))

    @staticmethod
    def _sign(segment: Tensor) -> Tensor:
        return 1 - 2 * (segment % 2)
