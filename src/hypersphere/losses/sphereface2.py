"""SphereFace2: one binary classification per class, with a shared threshold."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from hypersphere.core import check_choice, check_finite_number, check_positive, check_range
from hypersphere.engines import ScoreFunction, Similarity, softplus
from hypersphere.losses.batch import OBJECTIVES, Batch, SampleLoss
from hypersphere.losses.logits import Logits
from hypersphere.losses.margins import AngularMargin, BoundedAngle, apply_margin, check_margin_grad

_MARGINS = {"c": 0.4, "a": 0.5, "m": 1.7}


@OBJECTIVES.register("sphereface2")
class SphereFace2(SampleLoss):
    r"""SphereFace2.

    L = lambda/r softplus(-(r (g(cos_y) - m) + b))
        + (1 - lambda)/r sum_{j != y} softplus(r (g(cos_j) + m) + b)    (eq. 5)

    with g(z) = 2 ((z + 1)/2)^t - 1. That is margin type `c`. The types of App. F put their margin on the target alone:
    `a`: g(cos(min(pi, theta_y + m))), `m`: g(cos(min(m, pi/theta_y) theta_y)), and no m on the negatives.
    A sample labelled -1 belongs to none of the classes: it has the negative terms alone, and counts.

    Args:
        balance: lambda, in (0, 1). None drops both weights (eq. 1 and eq. 2 without lambda). Table 2's first row has
            (K - 1)/K.
        scale: r; 1 switches the easy/hard mining of Table 2 off.
        margin: m; 0.4, 0.5, 1.7 by default for c, a, m. `margin=0, bias="none"` switches the angular margin off.
        power: t; 1 switches the similarity adjustment off. Below 1 the slope at cos = -1 is bounded.
        margin_type: c, a or m.
        negative_margin: m_n of eq. 3 where it differs from m_p = `margin`; type c only.
        bias: `shared` (the paper's choice), `class` (eq. 4), or `none` (or None). It starts where dL/db = 0 for
            cosines 0 (App. G).
        margin_grad: `detached` as App. F prints it for a and m, or `exact`. Type c is the same either way.
        adjustment_grad: `exact`, or `detached`: the released code detaches g as well.

    References:
        SphereFace2, eqs. 1-5, App. F, App. G.

    Example:
        >>> head = hs.create_head("sphereface2", dim=512, num_classes=8631, balance=0.7, scale=40, margin=0.4, power=3)
    """

    counts_unlabelled = True
    sums_over_classes = True
    per_class = ("bias",)

    def __init__(
        self,
        *,
        dim: int,
        num_classes: int,
        balance: float | None = 0.7,
        scale: float = 40.0,
        margin: float | None = None,
        power: float = 3.0,
        margin_type: str = "c",
        negative_margin: float | None = None,
        bias: str | None = "shared",
        margin_grad: str = "detached",
        adjustment_grad: str = "exact",
    ) -> None:
        super().__init__()
        check_choice("margin_type", margin_type, _MARGINS)
        self.scale = check_positive("scale", scale)
        self.weights = _weights(balance)
        self.detached = check_margin_grad(margin_grad)
        adjustment_detached = check_choice("adjustment_grad", adjustment_grad, ("exact", "detached")) == "detached"
        self.adjust = Similarity(check_positive("power", power), detached=adjustment_detached)
        size = _MARGINS[margin_type] if margin is None else margin
        self.curve, self.margin = _margin(margin_type, size)
        self.negative_margin = _negative_margin(margin_type, self.margin, negative_margin)
        self.bias = None
        if bias not in ("shared", "class", "none", None):
            raise ValueError(f"bias={bias!r} is unknown: it is 'shared', 'class' or 'none'")
        if bias in ("shared", "class"):
            shape = () if bias == "shared" else (num_classes,)
            self.bias = nn.Parameter(torch.full(shape, self.start_bias(num_classes)))

    def start_bias(self, num_classes: int) -> float:
        """The bias with dL/db = 0 where every cosine is 0 (App. G), from a_y and a_i of the margin type."""
        right_angle = torch.zeros((), dtype=torch.float64)
        target = self.adjust.value(self.curve.value(right_angle)).item() - self.margin
        negative = self.adjust.value(right_angle).item() + self.negative_margin
        positive_weight, negative_weight = self.weights
        z = math.log(positive_weight) - math.log(negative_weight) - math.log(num_classes - 1)
        return balanced_bias(z, self.scale * target, self.scale * negative)

    def samples(self, batch: Batch) -> Tensor:
        positive_weight, negative_weight = self.weights
        offset: Tensor | float = self.scale * self.negative_margin
        shared, per_class = self._biases(batch)
        if shared is not None:
            offset = offset + shared
        negatives = batch.reduce("softplus_sum", self.adjust, scale=self.scale, offset=offset, bias=per_class)
        target = apply_margin(negatives.target, self.curve, detached=self.detached, adjust=self.adjust) - self.margin
        logit = self.scale * target
        if shared is not None:
            logit = logit + shared
        if per_class is not None:
            logit = logit + batch.at_labels(per_class)
        positive = torch.where(batch.labelled, softplus(-logit), 0.0)
        return (positive_weight * positive + negative_weight * negatives.value) / self.scale

    def logits(self, batch: Batch) -> Logits:
        return Logits(self.adjust, self.scale, *self._biases(batch))

    def _biases(self, batch: Batch) -> tuple[Tensor | None, Tensor | None]:
        """The shared bias, and those of the classes of `batch.prototypes`: one of them, or neither."""
        if self.bias is None:
            return None, None
        if self.bias.dim() == 0:
            return batch.replicated(self.bias).to(batch.embeddings.dtype), None
        return None, batch.shard_of(self.bias)


def balanced_bias(log_z: float, a_y: float, a_i: float) -> float:
    """The root b of exp(a_y) e^{2b} + (1 - z) e^b - z exp(-a_i) = 0 (SphereFace2 eq. 8), z = lambda/((1-lambda)(n-1)).

    Eq. 10 for z <= 1 and eq. 9 for z > 1, where each is free of cancellation, in logarithms throughout.
    """
    log_gap = -math.inf if log_z == 0 else max(log_z, 0.0) + math.log(-math.expm1(-abs(log_z)))
    log_root = _logaddexp(2 * log_gap, math.log(4) + log_z + a_y - a_i) / 2
    log_sum = _logaddexp(log_gap, log_root)
    if log_z > 0:
        return log_sum - math.log(2) - a_y
    return math.log(2) + log_z - a_i - log_sum


def _logaddexp(a: float, b: float) -> float:
    high, low = max(a, b), min(a, b)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def _weights(balance: float | None) -> tuple[float, float]:
    if balance is None:
        return 1.0, 1.0
    number = check_finite_number("balance", balance)
    if not 0 < number < 1:
        raise ValueError(f"balance={number:g} must lie strictly between 0 and 1, or be None for eq. 1")
    return number, 1 - number


def _margin(margin_type: str, size: float) -> tuple[ScoreFunction, float]:
    """The curve of the target's angle, and what is subtracted from the adjusted cosine."""
    if margin_type == "c":
        return AngularMargin(), check_range("margin", size, 0, 2)
    if margin_type == "a":
        return BoundedAngle(m2=check_range("margin", size, 0, math.pi)), 0.0
    return BoundedAngle(m1=check_range("margin", size, 1)), 0.0


def _negative_margin(margin_type: str, margin: float, negative_margin: float | None) -> float:
    if negative_margin is None:
        return margin
    if margin_type != "c":
        raise ValueError(f"negative_margin belongs to margin_type='c' (eq. 3), not {margin_type!r} (App. F)")
    return check_range("negative_margin", negative_margin, 0, 2)
