"""Towards the largest margins: LM-Softmax, GM-Softmax, and LDAM, which is one of the latter's cases."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hypersphere.core import check_finite_number, check_positive, check_range
from hypersphere.engines import softplus
from hypersphere.losses.batch import OBJECTIVES, Batch, SampleLoss, check_class_counts
from hypersphere.losses.logits import Logits


@OBJECTIVES.register("lm_softmax")
class LMSoftmax(SampleLoss):
    r"""Largest-margin softmax.

    L = 1/s log sum_{j != y} e^{s (cos_j - cos_y)}    (Largest Margins eq. 3.5)

    It may be negative; its infimum over the regular simplex is log(k - 1)/s - k/(k - 1).

    Args:
        scale: s.

    When to use:
        Balanced classes: the largest margins with one parameter. Add `zero_centroid` where classes are imbalanced.

    What it equals:
        s times it is the limit of `gm_softmax` for beta2 far below 0: the softmax without its target in the
        denominator.

    References:
        Learning Towards the Largest Margins, eq. 3.5.

    Example:
        >>> head = hs.create_head("lm_softmax", dim=3, num_classes=8, scale=20)
    """

    def __init__(self, *, scale: float = 64.0) -> None:
        super().__init__()
        self.scale = check_positive("scale", scale)

    def samples(self, batch: Batch) -> Tensor:
        negatives = batch.reduce("logsumexp", scale=self.scale)
        return negatives.value / self.scale - negatives.target

    def logits(self, batch: Batch) -> Logits:
        return Logits(scale=self.scale)


@OBJECTIVES.register("gm_softmax")
class GMSoftmax(SampleLoss):
    r"""Generalised margin softmax.

    L = -log( e^{s (alpha1 cos_y + beta1)} / (e^{s (alpha2 cos_y + beta2)} + sum_{j != y} e^{s cos_j}) )    (eq. 3.3)

    Args:
        scale: s.
        alpha1: at least 1/2.
        beta1: any number.
        alpha2: at most alpha1.
        beta2: any number.

    Inputs:
        `head(embeddings, labels, alpha1=..., beta1=..., alpha2=..., beta2=...)` takes (N,) tensors that replace the
        numbers sample by sample.

    When to use:
        Theory, and margins that differ by sample.

    What it equals:
        Without options it is `normface` with a fixed scale, with beta1 = beta2 = -m it is `cosface` with margin m, and
        with beta2 far below 0 it is s times `lm_softmax`.

    References:
        Learning Towards the Largest Margins, eq. 3.3.

    Example:
        >>> head = hs.create_head("gm_softmax", dim=64, num_classes=10, alpha1=0.9, beta1=-0.1, alpha2=0.9, beta2=-0.1)
    """

    row_parameters = ("alpha1", "beta1", "alpha2", "beta2")

    def __init__(
        self,
        *,
        scale: float = 64.0,
        alpha1: float = 1.0,
        beta1: float = 0.0,
        alpha2: float = 1.0,
        beta2: float = 0.0,
    ) -> None:
        super().__init__()
        self.scale = check_positive("scale", scale)
        given = {"alpha1": alpha1, "beta1": beta1, "alpha2": alpha2, "beta2": beta2}
        self.defaults = {name: check_finite_number(name, value) for name, value in given.items()}
        _check_alphas(torch.tensor(self.defaults["alpha1"]), torch.tensor(self.defaults["alpha2"]))

    def samples(self, batch: Batch) -> Tensor:
        alpha1, beta1, alpha2, beta2 = self._parameters_of(batch)
        negatives = batch.reduce("logsumexp", scale=self.scale)
        target1 = self.scale * (alpha1 * negatives.target + beta1)
        target2 = self.scale * (alpha2 * negatives.target + beta2)
        return torch.logaddexp(target2, negatives.value) - target1

    def _parameters_of(self, batch: Batch) -> list[Tensor]:
        """Return alpha1, beta1, alpha2 and beta2, (N,) where the call gave them and 0-d elsewhere."""
        x = batch.embeddings
        values = {name: x.new_full((), value) for name, value in self.defaults.items()}
        values |= {name: row.to(x) for name, row in batch.rows.items()}
        if batch.rows and batch.validate and not torch.compiler.is_compiling():
            for name in batch.rows:
                if not bool(values[name].isfinite().all()):
                    raise ValueError(f"{name} holds NaN or infinity")
            _check_alphas(values["alpha1"], values["alpha2"])
        return [values[name] for name in self.row_parameters]

    def logits(self, batch: Batch) -> Logits:
        return Logits(scale=self.scale)


def _check_alphas(alpha1: Tensor, alpha2: Tensor) -> None:
    first, second = (values.detach() + torch.zeros_like(alpha1 + alpha2) for values in (alpha1, alpha2))
    small, large = first < 0.5, second > first
    if bool(small.any()):
        raise ValueError(f"alpha1={first[small][0].item():g} must be at least 0.5 (Largest Margins eq. 3.3)")
    if bool(large.any()):
        worst = f"alpha2={second[large][0].item():g} must not exceed alpha1={first[large][0].item():g}"
        raise ValueError(f"{worst} (Largest Margins eq. 3.3)")


@OBJECTIVES.register("ldam")
class LDAM(SampleLoss):
    r"""Label-distribution-aware margins: rarer classes get larger ones.

    target s (cos_y - D_y), negatives s cos_j, D_j = max_margin (n_j / min n)^{-1/4}

    Args:
        class_counts: n_j, the number of training samples of every class; a training recipe fills them in.
        max_margin: the margin of the rarest class, in (0, 2].
        scale: s; 30 in LDAM's code, 5 in Largest Margins' experiments.

    When to use:
        Imbalanced classes whose counts are known.

    What it equals:
        With equal counts it is `cosface` with `margin=max_margin`. It is `gm_softmax` with beta1 = beta2 = -D_y sample
        by sample (Largest Margins sec. 3.1).

    References:
        Cao et al., LDAM, eqs. 10-13; Largest Margins, sec. 3.1.

    Example:
        >>> head = hs.create_head("ldam", dim=64, num_classes=3, class_counts=[500, 50, 5])
    """

    margins: Tensor

    def __init__(
        self,
        *,
        num_classes: int,
        class_counts: Sequence[int] | Tensor | None = None,
        max_margin: float = 0.5,
        scale: float = 30.0,
    ) -> None:
        super().__init__()
        counts = check_class_counts(class_counts, num_classes)
        self.scale = check_positive("scale", scale)
        largest = check_range("max_margin", check_positive("max_margin", max_margin), 0, 2)
        self.register_buffer("margins", largest * (counts / counts.min()) ** -0.25, persistent=False)

    def samples(self, batch: Batch) -> Tensor:
        negatives = batch.reduce("logsumexp", scale=self.scale)
        return softplus(negatives.value - self.scale * (negatives.target - batch.at_labels(self.margins)))

    def logits(self, batch: Batch) -> Logits:
        return Logits(scale=self.scale)
