"""Elementwise functions of a score, each with its explicit derivative.

A score function maps the cosine (or inner product) of one embedding and one prototype to what is reduced. Engines that
hold scores in memory take any; the fused engine takes those of `engines/triton/support.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from hypersphere.geometry import sine_from_cosine

_LEAST_BASE = 1e-6
_LEAST_SQUARED_DISTANCE = 1e-6


class ScoreFunction(Protocol):
    """A function of the score. `value` and `derivative` are called without gradients.

    `value` returns the score itself or a new tensor, never another view of it; a derivative may be a plain number.
    """

    def value(self, score: Tensor) -> Tensor: ...

    def derivative(self, score: Tensor) -> Tensor | float: ...


@dataclass(frozen=True)
class Similarity:
    """g(z) = 2 ((z + 1) / 2)^t - 1, SphereFace2's similarity adjustment (sec. 2.2); g(z) = z for t = 1.

    For t < 1 the derivative is infinite at z = -1: it is taken at (z + 1) / 2 = 1e-6 instead. `relu` is the wrong-class
    ReLU of the AmpFace appendix, max(0, g(z)). `detached` keeps the value and gives the derivative of z itself, as
    SphereFace2's released code does.
    """

    power: float = 1.0
    relu: bool = False
    detached: bool = False

    def value(self, score: Tensor) -> Tensor:
        value = score
        if self.power != 1:
            value = 2 * ((score + 1) / 2).clamp(min=0) ** self.power - 1
        return value.clamp(min=0) if self.relu else value

    def derivative(self, score: Tensor) -> Tensor | float:
        derivative: Tensor | float = 1.0
        if self.power != 1 and not self.detached:
            least = _LEAST_BASE if self.power < 1 else 0.0
            derivative = self.power * ((score + 1) / 2).clamp(min=least) ** (self.power - 1)
        return (self.value(score) > 0) * derivative if self.relu else derivative


@dataclass(frozen=True)
class DividedAngle:
    """cos(theta / m), the margin on the negatives of SphereFace-R v2; `detached` gives it the derivative of cos."""

    margin: float
    detached: bool = True

    def value(self, score: Tensor) -> Tensor:
        return torch.cos(torch.arccos(score.clamp(-1, 1)) / self.margin)

    def derivative(self, score: Tensor) -> Tensor | float:
        if self.detached or self.margin == 1:
            return 1.0
        sine = sine_from_cosine(score)
        divided = torch.sin(torch.arccos(score.clamp(-1, 1)) / self.margin)
        return torch.where(sine > 0, divided / (self.margin * sine), 0.0)


@dataclass(frozen=True)
class Modulated:
    """CurricularFace's negatives: z (t + z) where z exceeds the row's threshold, z elsewhere.

    Args:
        threshold: (N, 1), the target cosine of each row after its margin.
        t: 0-d, the running mean of the target cosines.
    """

    threshold: Tensor
    t: Tensor

    def value(self, score: Tensor) -> Tensor:
        return torch.where(score > self.threshold, score * (self.t + score), score)

    def derivative(self, score: Tensor) -> Tensor:
        return torch.where(score > self.threshold, self.t + 2 * score, 1.0)


@dataclass(frozen=True)
class CircleNegative:
    """Circle loss's weighted negatives [z + m]_+ (z - m), the weight held constant in the derivative."""

    margin: float

    def value(self, score: Tensor) -> Tensor:
        return self.derivative(score) * (score - self.margin)

    def derivative(self, score: Tensor) -> Tensor:
        return (score + self.margin).clamp(min=0)


@dataclass(frozen=True)
class Riesz:
    """||w_i - w_j||^-t of unit vectors, (2 - 2z)^(-t/2) (largest-margins eq. 2.4); log(1 / ||.||) for t = 0.

    Squared distances below 1e-6 count as 1e-6, so that coinciding prototypes have a finite energy.
    """

    exponent: float

    def value(self, score: Tensor) -> Tensor:
        squared = self._squared(score)
        return squared.log() / -2 if self.exponent == 0 else squared ** (-self.exponent / 2)

    def derivative(self, score: Tensor) -> Tensor:
        squared = self._squared(score)
        return 1 / squared if self.exponent == 0 else self.exponent * squared ** (-self.exponent / 2 - 1)

    @staticmethod
    def _squared(score: Tensor) -> Tensor:
        return (2 - 2 * score).clamp(min=_LEAST_SQUARED_DISTANCE)
