"""SphereFace2: one binary classification per class, with a shared threshold."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from hypersphere.core import check_choice, check_finite_number, check_positive, check_range
from hypersphere.engines import Similarity, SphereFace2Row, softplus
from hypersphere.losses.batch import OBJECTIVES, Batch, SampleLoss
from hypersphere.losses.logits import Logits
from hypersphere.losses.target_margins import adjust, bounded_angular_margin, check_margin_grad, detach_margin

_MARGINS = {"c": 0.4, "a": 0.5, "m": 1.7}
_RANGES = {"c": (0.0, 2.0), "a": (0.0, math.pi), "m": (1.0, math.inf)}


@OBJECTIVES.register("sphereface2")
class SphereFace2(SampleLoss):
    r"""SphereFace2: a binary classification per class instead of one softmax over all.

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
        power: t; 1 switches the similarity adjustment off. Below 1 the derivative at cos = -1 is bounded.
        margin_type: c, a or m.
        negative_margin: m_n of eq. 3 where it differs from m_p = `margin`; type c only.
        bias: `shared` (the paper's choice), `class` (eq. 4), or `none` (or None). It starts where dL/db = 0 for
            cosines 0 (App. G).
        margin_grad: `detached` as App. F prints it for a and m, or `exact`. Type c is the same either way.
        adjustment_grad: `exact`, or `detached`: the released code detaches g as well.

    When to use:
        Open-set verification, noisy labels, samples that belong to none of the classes, and classes spread over many
        machines: a prototype's gradient needs no other prototype.

    What it equals:
        With `balance=None, scale=1, margin=0, power=1, bias="none"` it is the sum of C binary cross-entropies of
        eq. 1. The value for m on both sides and bias b is that of margin 2m, `negative_margin=0` and bias b + r m
        (App. F).

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
        self.margin_type = check_choice("margin_type", margin_type, _MARGINS)
        self.scale = check_positive("scale", scale)
        self.weights = _weights(balance)
        self.detached = check_margin_grad(margin_grad)
        adjustment_detached = check_choice("adjustment_grad", adjustment_grad, ("exact", "detached")) == "detached"
        self.similarity = Similarity(check_positive("power", power), detached=adjustment_detached)
        size = _MARGINS[margin_type] if margin is None else margin
        self.margin = check_range("margin", size, *_RANGES[margin_type])
        if negative_margin is not None and margin_type != "c":
            raise ValueError(f"negative_margin belongs to margin_type='c' (eq. 3), not {margin_type!r} (App. F)")
        symmetric = self.margin if margin_type == "c" else 0.0
        self.negative_margin = check_range(
            "negative_margin", symmetric if negative_margin is None else negative_margin, 0, 2
        )
        self.bias = None
        if bias not in ("shared", "class", "none", None):
            raise ValueError(f"bias={bias!r} is unknown: it is 'shared', 'class' or 'none'")
        if bias in ("shared", "class"):
            shape = () if bias == "shared" else (num_classes,)
            self.bias = nn.Parameter(torch.full(shape, self.start_bias(num_classes)))

    def samples(self, batch: Batch) -> Tensor:
        r, (positive_weight, negative_weight) = self.scale, self.weights
        b, b_j = self._biases(batch)
        negatives = batch.reduce(
            "softplus_sum", self.similarity, scale=r, offset=r * self.negative_margin + b, bias=b_j
        )
        b_y = b if b_j is None else batch.at_labels(b_j)
        positive = softplus(-(r * self.target(negatives.target) + b_y))
        return (positive_weight * torch.where(batch.labelled, positive, 0.0) + negative_weight * negatives.value) / r

    def whole(self, batch: Batch) -> Tensor | None:
        per_class = self.bias is not None and self.bias.dim() > 0
        if per_class or self.margin_type != "c" or type(self).samples is not SphereFace2.samples:
            return None
        positive_weight, negative_weight = self.weights
        row = SphereFace2Row(
            scale=self.scale,
            margin=self.margin,
            negative_margin=self.negative_margin,
            positive_weight=positive_weight,
            negative_weight=negative_weight,
            power=self.similarity.power,
            detached=self.similarity.detached,
        )
        return batch.reduce_to_loss("softplus_sum", self.similarity, row, bias=self.bias)

    def target(self, cos_y: Tensor) -> Tensor:
        """g(cos_y) - m for margin type c, g(cos(min(pi, theta_y + m))) for a, g(cos(min(pi, m theta_y))) for m."""
        if self.margin_type == "c":
            return adjust(cos_y, self.similarity) - self.margin
        m1, m2 = (1.0, self.margin) if self.margin_type == "a" else (self.margin, 0.0)
        target = adjust(bounded_angular_margin(cos_y, m1, m2), self.similarity)
        return detach_margin(target, adjust(cos_y, self.similarity)) if self.detached else target

    def start_bias(self, num_classes: int) -> float:
        """Return the bias with dL/db = 0 where every cosine is 0 (App. G), from a_y and a_i of the margin type."""
        zero = torch.zeros((), dtype=torch.float64)
        a_y = self.scale * self.target(zero).item()
        a_i = self.scale * (self.similarity.value(zero).item() + self.negative_margin)
        positive_weight, negative_weight = self.weights
        log_z = math.log(positive_weight) - math.log(negative_weight) - math.log(num_classes - 1)
        return balanced_bias(log_z, a_y, a_i)

    def logits(self, batch: Batch) -> Logits:
        b, b_j = self._biases(batch)
        return Logits(self.similarity, self.scale, b, b_j)

    def _biases(self, batch: Batch) -> tuple[Tensor | float, Tensor | None]:
        """Return the shared bias or 0, and the biases of the classes of `batch.prototypes` where each has its own."""
        if self.bias is None:
            return 0.0, None
        if self.bias.dim() == 0:
            return batch.replicated(self.bias).to(batch.embeddings.dtype), None
        return 0.0, batch.shard_of(self.bias)


def balanced_bias(log_z: float, a_y: float, a_i: float) -> float:
    """Return the root b of exp(a_y) e^{2b} + (1 - z) e^b - z exp(-a_i) = 0 (eq. 8), z = lambda/((1-lambda)(n-1)).

    It is eq. 10 for z <= 1 and eq. 9 for z > 1, where each is free of cancellation, in logarithms throughout.
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
