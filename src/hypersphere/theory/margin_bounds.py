"""What sample margins bound, and what bounds them (Learning Towards the Largest Margins, eqs. 2.7 and 3.6)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hypersphere.core import check_positive


def smooth_margin_bound(losses: Tensor, scale: float) -> Tensor:
    r"""Bound -gamma_min from above by the LM-Softmax losses of all samples (Largest Margins, eq. 3.6, left side).

        1/s log sum_i sum_{j != y_i} e^{s (w_j - w_{y_i}).z_i} = 1/s log sum_i e^{s L(x_i, y_i; s)}

    It tends to -gamma_min as s grows: it is at most log(N (k - 1)) / s above. It is at least the mean loss plus
    log(N) / s, and equal to that where all losses are equal (eq. 3.6).

    Args:
        losses: (N,) losses of `lm_softmax` with `reduction="none"` (eq. 3.5), all of labelled samples.
        scale: s, that of the loss.

    Returns:
        A number, with a gradient.

    Example:
        >>> head = hs.create_head("lm_softmax", dim=512, num_classes=10, scale=20, reduction="none")
        >>> guaranteed = -smooth_margin_bound(head(embeddings, labels), scale=20)
    """
    check_positive("scale", scale)
    if losses.ndim != 1 or not len(losses):
        raise ValueError(f"losses has shape {tuple(losses.shape)}; expected one loss for each sample, (N,)")
    return (scale * losses).logsumexp(0) / scale


@dataclass(frozen=True)
class BalancedErrorBound:
    """A bound of the error on a test set with as many samples of every class (Largest Margins, eq. 2.7).

    Args:
        margins: (k,) gamma_j.
        margin_losses: (k,) share of each class's samples whose margin is below gamma_j.
        complexities: (k,) 4 / gamma_j times the class's empirical Rademacher complexity.
        slacks: (k,) epsilon_j(gamma_j).
    """

    margins: Tensor
    margin_losses: Tensor
    complexities: Tensor
    slacks: Tensor

    @property
    def by_class(self) -> Tensor:
        """(k,) what each class adds: which of them a larger margin would help most."""
        return self.margin_losses + self.complexities + self.slacks

    @property
    def value(self) -> float:
        """The bound: the mean over the classes."""
        return float(self.by_class.mean())


@torch.no_grad()
def balanced_error_bound(
    margins: Tensor,
    labels: Tensor,
    complexities: Tensor,
    *,
    thresholds: Tensor | None = None,
    slacks: Tensor | None = None,
) -> BalancedErrorBound:
    r"""Bound the error on balanced classes by the sample margins of imbalanced ones (Largest Margins, eq. 2.7).

        P(error) <= 1/k sum_j ( L_j(gamma_j) + 4 / gamma_j R_j + epsilon_j )

    L_j(gamma) is the share of class j's samples with a margin below gamma.

    Args:
        margins: (N,) sample margins (eq. 2.5), such as those of `geometry.sample_margins`.
        labels: (N,) classes in [0, k), each with a sample.
        complexities: (k,) empirical Rademacher complexities R_j. Of one unit prototype on fixed unit embeddings it is
            at most 1 / sqrt(n_j).
        thresholds: (k,) gamma_j > 0; by default the smallest margin of each class (eq. 2.6), which must be positive.
        slacks: (k,) epsilon_j, of low order in n_j; 0 by default.

    Example:
        >>> margins, labels = torch.tensor([0.5, 0.4, 0.2]), torch.tensor([0, 0, 1])
        >>> round(balanced_error_bound(margins, labels, torch.tensor([0.1, 0.2])).value, 3)
        2.5
    """
    classes = len(complexities)
    if margins.ndim != 1 or labels.shape != margins.shape:
        raise ValueError(f"margins {tuple(margins.shape)} and labels {tuple(labels.shape)} must both be (N,)")
    counts = torch.bincount(labels.clamp(min=0), minlength=classes)
    if len(counts) > classes or bool((labels < 0).any()) or bool((counts == 0).any()):
        raise ValueError(f"labels must hold every class of [0, {classes}), as many as complexities, and no other")
    margin = margins.double()
    if thresholds is None:
        gamma = torch.full((classes,), torch.inf, dtype=torch.float64, device=margins.device)
        gamma = gamma.scatter_reduce(0, labels, margin, "amin")
        advice = "its samples are not separated; give thresholds"
    else:
        gamma, advice = thresholds.double(), "thresholds must be positive"
    for name, given in (("thresholds", gamma), ("slacks", slacks)):
        if given is not None and given.shape != (classes,):
            raise ValueError(f"{name} has shape {tuple(given.shape)}; expected one number for each class, ({classes},)")
    if not bool((gamma > 0).all()):
        worst = int(gamma.argmin())
        raise ValueError(f"class {worst} has gamma = {float(gamma[worst]):.3g}: {advice}")
    below = (margin < gamma[labels]).double()
    shares = torch.zeros_like(gamma).index_add_(0, labels, below) / counts
    zeros = torch.zeros_like(gamma)
    return BalancedErrorBound(gamma, shares, 4 * complexities.double() / gamma, zeros if slacks is None else slacks)
