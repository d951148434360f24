"""Sampled negatives: a head that sees some of its prototypes at a time, another sample at every call."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hypersphere.core import check_range
from hypersphere.losses import Batch, Objective
from hypersphere.losses.sampled import draw_sample

_LEAST = 2


class Sampler(nn.Module):
    """Draws the classes of a call; its seed and the number of draws so far are part of the state.

    Args:
        share: of the classes, in (0, 1].
        unbiased: weigh the sample (see `hypersphere.losses.sampled`).
        rank: of this process among those that share the classes: each samples its own.
    """

    def __init__(self, share: float, unbiased: bool, rank: int = 0) -> None:
        super().__init__()
        self.share = check_share(share)
        self.unbiased, self.rank = unbiased, rank
        self.seed, self.draws, self.count = int(torch.randint(2**62, ())), 0, 0
        with warnings.catch_warnings():  # torch 2.11 warns once, of sparse tensors that nobody checks
            warnings.simplefilter("ignore")
            torch.sparse_coo_tensor(torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1), (1,), check_invariants=False)

    def forward(self, batch: Batch, weight: Tensor) -> Batch:
        """The batch with a sample of the rows of `weight` for prototypes."""
        labels, classes = batch.local_labels, len(batch.prototypes)
        mixed = np.random.SeedSequence((self.seed, self.draws, self.rank)).generate_state(1, np.uint64)
        generator = torch.Generator(labels.device).manual_seed(int(mixed[0]) >> 1)
        sample = draw_sample(labels, classes, self.quota(classes), generator, self.unbiased)
        self.draws, self.count = self.draws + 1, len(sample.index)
        return batch.sampled(sample, sample.rows(weight))

    def quota(self, classes: int) -> int:
        """Return how many of `classes` are sampled: the share, at least two; all positives where these are more."""
        return min(classes, max(_LEAST, round(self.share * classes)))

    def mark(self, parameters: Iterable[Tensor]) -> None:
        """Mark the sparse gradients of one call as coalesced, so that torch does not sort their rows for duplicates."""
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(self._mark)  # type: ignore[no-untyped-call]

    def _mark(self, parameter: Tensor) -> None:
        grad = parameter.grad
        if grad is not None and grad.is_sparse:
            grad._coalesced_(grad._nnz() == self.count)

    def get_extra_state(self) -> Tensor:
        return torch.tensor([self.seed, self.draws])

    def set_extra_state(self, state: Any) -> None:
        self.seed, self.draws = (int(number) for number in state)

    def extra_repr(self) -> str:
        return f"share={self.share}, unbiased={self.unbiased}"


def check_share(share: float) -> float:
    """A share of the classes must lie in (0, 1]."""
    if isinstance(share, bool | str):
        raise ValueError(f"sample={share!r} must be a number above 0, at most 1: a share of the classes")
    if check_range("sample", share, 0, 1) == 0:
        raise ValueError("sample=0 leaves no classes: it must be above 0, at most 1")
    return float(share)


def check_sampling(objectives: Iterable[Objective], unbiased: bool) -> None:
    """Refuse losses that say nothing sensible of a sample of the classes."""
    for objective in objectives:
        reason = objective.sampling_error(unbiased)
        if reason is not None:
            raise ValueError(f"{objective.name} cannot be sampled{' without bias' * unbiased}: {reason}")
