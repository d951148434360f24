"""A batch whose rows come from all processes, and whose prototypes are those of this one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from hypersphere.distributed import (
    Exchange,
    common_stack,
    common_sum,
    gather_rows,
    own_rows,
    rows_used_in_parts,
    used_in_parts,
)
from hypersphere.engines import Kind, Reduced, ScoreFunction
from hypersphere.geometry import norm
from hypersphere.losses.batch import Batch, entries
from hypersphere.losses.sampled import Sample


@dataclass(frozen=True)
class Classes:
    """This process's share of the classes: runs of ceil(C / P), the last ones shorter or empty, as `Shard(0)` cuts.

    Args:
        num_classes: C, of all processes.
        exchange: the P processes.
    """

    num_classes: int
    exchange: Exchange

    @cached_property
    def counts(self) -> list[int]:
        """How many classes every process has."""
        size = -(-self.num_classes // self.exchange.size)
        return [max(0, min(size, self.num_classes - size * rank)) for rank in range(self.exchange.size)]

    @property
    def rows(self) -> slice:
        """The classes of this process."""
        start = sum(self.counts[: self.exchange.rank])
        return slice(start, start + self.counts[self.exchange.rank])

    def blocks(self, size: int) -> Iterator[tuple[slice, list[int], Tensor]]:
        """All classes, about `size` at a time, of each process some.

        Yields this process's rows of the block, how many each process has of it, and the numbers of all of its classes.
        """
        starts = [sum(self.counts[:rank]) for rank in range(self.exchange.size)]
        step = max(1, size // self.exchange.size)
        for done in range(0, max(self.counts), step):
            here = [max(0, min(step, count - done)) for count in self.counts]
            numbers = [torch.arange(start + done, start + done + n) for start, n in zip(starts, here, strict=True)]
            yield slice(done, done + step), here, torch.cat(numbers)

    def local_labels(self, labels: Tensor) -> Tensor:
        """Each label's place among the classes of this process; -1 for those of others, and for -1."""
        place = labels - self.rows.start
        return torch.where((place >= 0) & (labels < self.rows.stop), place, -1)


@dataclass(frozen=True, kw_only=True)
class ShardedBatch(Batch):
    """The rows of all processes against the prototypes of this one.

    `embeddings`, `labels`, `rows` and all that the methods return are common: equal in all processes.

    Args:
        part: the embeddings again, for arithmetic that differs between processes.
        classes: this process's share.
        counts: how many of the rows every process gave.
    """

    part: Tensor
    classes: Classes
    counts: list[int]

    @property
    def mine(self) -> slice:
        """Which of the rows this process gave."""
        rank = self.classes.exchange.rank
        return slice(sum(self.counts[:rank]), sum(self.counts[: rank + 1]))

    @property
    def num_classes(self) -> int:
        if self.sample is None or self.weighting is not None:
            return self.classes.num_classes
        return int(self.classes.exchange.sum(torch.tensor(len(self.prototypes), device=self.prototypes.device)))

    @cached_property
    def local_labels(self) -> Tensor:
        """(N,): each row's class as a place in `prototypes`, -1 for classes of other processes."""
        places = self.classes.local_labels(self.labels)
        return places if self.sample is None else self.sample.local_labels(places)

    def sampled(self, sample: Sample, prototypes: Tensor) -> Batch:
        return replace(self, sample=sample, prototypes=prototypes)

    def reduce(
        self,
        kind: Kind,
        score_function: ScoreFunction | None = None,
        *,
        scale: Tensor | float = 1.0,
        offset: Tensor | float | None = None,
        bias: Tensor | None = None,
        normalize_embeddings: bool = True,
        normalize_prototypes: bool = True,
    ) -> Reduced:
        """The target's score and the reduced negatives of every row: one all-gather of 2 N numbers.

        The class of a maximum stays with the process that has it: `argmax` is None.
        """
        part = self.as_partial_sums().reduce(
            kind,
            score_function,
            scale=self._in_parts(scale),
            offset=None if offset is None else self._in_parts(offset),
            bias=bias,
            normalize_embeddings=normalize_embeddings,
            normalize_prototypes=normalize_prototypes,
        )
        both = common_stack(torch.stack([part.value, part.target]), self.classes.exchange)
        values, target = both[:, 0], both[:, 1].sum(0)
        if kind == "logsumexp":
            return Reduced(target, torch.logsumexp(values, 0), None)
        if kind == "max":
            return Reduced(target, values.max(0).values, None)
        return Reduced(target, values.sum(0), None)

    def at_labels(self, per_class: Tensor) -> Tensor:
        """Each row's entry of a per-class tensor, which has all classes or, as `shard_of` gives it, this process's.

        The latter takes one all-reduce.
        """
        if len(per_class) == self.classes.num_classes:
            return entries(per_class, self.labels, self.embeddings.dtype)
        return self._from_owners(entries(per_class, self.local_labels, self.embeddings.dtype))

    def total(self, per_class: Tensor) -> Tensor:
        return self.all_reduced(super().total(per_class))

    def target_cosines(self) -> Tensor:
        return self.all_reduced(self.as_partial_sums().target_cosines())

    def target_norms(self) -> Tensor:
        lengths = norm(entries(self.prototypes, self.local_labels, self.embeddings.dtype), self.eps)[:, 0]
        return torch.where(self.labelled, self._from_owners(lengths), 1.0)

    def prototype_blocks(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        exchange = self.classes.exchange
        for rows, counts, numbers in self.classes.blocks(size):
            mine = self.prototypes[rows]
            of_all = rows_used_in_parts(mine, gather_rows(mine.detach(), exchange, counts), exchange, counts)
            yield of_all, self.classes.local_labels(numbers.to(mine.device))

    def all_reduced(self, part: Tensor) -> Tensor:
        return common_sum(part, self.classes.exchange)

    def summed_over_rows(self, sums: Tensor) -> Tensor:
        return sums

    def per_row(self, losses: Tensor) -> Tensor:
        return own_rows(losses, self.classes.exchange, self.counts)

    def as_partial_sums(self) -> Batch:
        shared = {name: value for name, value in vars(self).items() if name in Batch.__dataclass_fields__}
        return PartialBatch(
            **shared | {"embeddings": self.part, "labels": self.local_labels},
            classes=self.classes,
            whole=self.labels,
            counts=self.counts,
        )

    def _in_parts(self, common: Tensor | float) -> Tensor | float:
        return used_in_parts(common, self.classes.exchange) if isinstance(common, Tensor) else common

    def _from_owners(self, mine: Tensor) -> Tensor:
        """(N, ...): each row as the process says that has its class; 0 where the label is -1."""
        owned = (self.local_labels >= 0).view(-1, *[1] * (mine.dim() - 1))
        return self.all_reduced(torch.where(owned, mine, 0.0))


@dataclass(frozen=True, kw_only=True)
class PartialBatch(Batch):
    """This process's part of the sum over classes: a row of another process's class is labelled -1.

    Args:
        classes: this process's share.
        whole: (N,), the labels among all classes.
        counts: how many of the rows every process gave.
    """

    classes: Classes
    whole: Tensor
    counts: list[int]

    @property
    def num_classes(self) -> int:
        return self.classes.num_classes

    def at_labels(self, per_class: Tensor) -> Tensor:
        labels = self.whole if len(per_class) == self.classes.num_classes else self.labels
        return entries(per_class, labels, self.embeddings.dtype)

    def replicated(self, parameter: Tensor) -> Tensor:
        return used_in_parts(parameter, self.classes.exchange)

    def per_row(self, losses: Tensor) -> Tensor:
        return own_rows(common_sum(losses, self.classes.exchange), self.classes.exchange, self.counts)

    def mean(self, losses: Tensor, keep: Tensor | None = None) -> Tensor:
        """The mean of the rows' losses: one all-reduce of one number."""
        part = losses.sum() if keep is None else torch.where(keep, losses, 0.0).sum()
        count = max(1, len(losses)) if keep is None else (self.whole >= 0).sum().clamp(min=1)
        return common_sum(part, self.classes.exchange) / count
