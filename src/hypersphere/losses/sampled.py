"""A sample of the classes: which they are, with what weight, and gradients for their rows alone.

Let p of the C classes be positives: classes of the batch. They are always in the sample. Its other K - p classes are
drawn uniformly, without replacement, from the C - p that are no positives, so each of these is in it with probability
q = (K - p) / (C - p), given the batch. Such a class counts 1/q times in an unbiased sample:

    E[ sum_{j in sample, j != y} n_j / pi_j ] = sum_{j != y} n_j,    pi_j = 1 for positives, q for the others

(Horvitz and Thompson). Sums over the negatives, and their gradients, are then unbiased. A logsumexp is that of the
weighted terms, log sum_j e^{n_j} / pi_j: the sum inside it is unbiased, its logarithm is not (by Jensen's inequality it
is too small on average) but consistent: the error vanishes as the sample grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from hypersphere.distributed import to_local


@dataclass(frozen=True)
class Sample:
    """A sample of the classes of this process.

    Args:
        index: (K,), the sampled ones among all C classes of this process, rising.
        classes: C.
        positive: (K,) bool: the class is that of a row. None where the sample is not to be weighted.
    """

    index: Tensor
    classes: int
    positive: Tensor | None = None

    def local_labels(self, labels: Tensor) -> Tensor:
        """Return each label as an index of the sample; -1 stays -1."""
        return torch.where(labels >= 0, torch.searchsorted(self.index, labels), -1)

    def classes_at(self, local_labels: Tensor) -> Tensor:
        """Return the classes of indices of the sample; an arbitrary one for -1."""
        return self.index[local_labels.clamp(min=0)] if len(self.index) else local_labels

    def rows(self, per_class: Tensor) -> Tensor:
        """Return the sample's rows of a per-class tensor, whose gradient is sparse."""
        if not per_class.requires_grad:
            return to_local(per_class)[self.index]
        return _Chosen.apply(per_class, self.index)  # type: ignore[no-any-return,no-untyped-call]

    @cached_property
    def multiple(self) -> Tensor:
        """1/q, the weight of a class that is no positive; 1 where there is none."""
        assert self.positive is not None
        others = (~self.positive).sum().double()
        return torch.where(others > 0, (self.classes - len(self.index) + others) / others, 1.0)

    @cached_property
    def weight(self) -> Tensor:
        """(K,): 1/pi_j, the weight of every class of the sample."""
        assert self.positive is not None
        return torch.where(self.positive, 1.0, self.multiple)

    @cached_property
    def positives(self) -> Tensor:
        """(p,): the indices of the positives in the sample."""
        assert self.positive is not None
        return self.positive.nonzero()[:, 0]


def draw_sample(labels: Tensor, classes: int, quota: int, generator: torch.Generator, unbiased: bool) -> Sample:
    """Draw the classes of the labels, and random others up to the quota.

    An unbiased sample has at least one class that is no positive, whatever the quota is. No device is waited for unless
    there are more labels than the quota.

    Args:
        labels: (N,), -1 for none of these classes.
        classes: how many there are.
        quota: K, where there are no more positives than that.
        generator: of the random numbers, on the labels' device.
        unbiased: whether the sample is weighted.
    """
    named = torch.zeros(classes + 1, dtype=torch.bool, device=labels.device)
    named = named.index_fill_(0, torch.where(labels < 0, classes, labels), True)[:classes]
    count = quota
    if len(labels) + unbiased > quota:
        count = min(classes, max(quota, int(named.sum()) + unbiased))
    order = torch.rand(classes, generator=generator, device=labels.device).masked_fill_(named, 2.0)
    index = order.topk(count, sorted=False).indices.sort().values
    return Sample(index, classes, named[index] if unbiased else None)


class _Chosen(torch.autograd.Function):
    """table[index]. The gradient is a sparse tensor of the table's shape, so that nothing of that size is ever made.

    Of a sharded table, `index` and the sparse gradient count the rows of this process.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape = table.shape
        return to_local(table.detach())[index]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        return torch.sparse_coo_tensor(index[None], grad, ctx.shape, is_coalesced=True, check_invariants=False), None
