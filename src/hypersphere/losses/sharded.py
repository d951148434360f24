"""A batch whose rows come from all processes, and whose prototypes are those of this one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property

import torch
from torch import Tensor

from hypersphere.distributed import (
    ClassShards,
    all_gather_rows,
    all_gather_stack,
    all_reduce_sum,
    gather_rows,
    gather_rows_reduce_grad,
    replicate_to_partial,
    scatter_rows,
)
from hypersphere.engines import Kind, Reduced, Reduction, RowLoss, ScoreFunction
from hypersphere.geometry import norm
from hypersphere.losses.batch import Batch, entries
from hypersphere.losses.sampled import Sample


@dataclass(frozen=True, kw_only=True)
class ShardedBatch(Batch):
    """The rows of all processes against the prototypes of this one.

    `embeddings`, `labels`, `rows` and all that the methods return are replicated: equal on all ranks.

    Args:
        partial_embeddings: the embeddings again, for arithmetic that differs between ranks: their gradient is summed.
        shards: the classes of each rank.
        counts: how many of the rows every process gave.
    """

    partial_embeddings: Tensor
    shards: ClassShards
    counts: list[int]

    @classmethod
    def gather(cls, batch: Batch, shards: ClassShards, wire: torch.dtype) -> ShardedBatch:
        """Return the rows of all ranks, in the order of the ranks.

        Args:
            batch: this rank's rows, with this rank's prototypes.
            shards: the classes of each rank.
            wire: the dtype that embeddings travel in: their own, before they were widened for the loss.
        """
        group, local = shards.group, batch.embeddings
        counts = group.row_counts(len(local), local.device)
        given = {field.name: getattr(batch, field.name) for field in fields(Batch)}
        gathered = gather_rows(local.detach().to(wire), group, counts).to(local.dtype)
        given["labels"] = gather_rows(batch.labels, group, counts)
        given["embeddings"] = all_gather_rows(local, gathered, group, counts, group.size)
        given["rows"] = {
            name: all_gather_rows(row, gather_rows(row.detach(), group, counts), group, counts, group.size)
            for name, row in sorted(batch.rows.items())
        }
        partial = gather_rows_reduce_grad(local, gathered, group, counts, group.size)
        return cls(**given, partial_embeddings=partial, shards=shards, counts=counts)

    @property
    def other_rows(self) -> None:
        return None

    @property
    def local_rows(self) -> slice:
        """Which of the rows this process gave."""
        rank = self.shards.group.rank
        return slice(sum(self.counts[:rank]), sum(self.counts[: rank + 1]))

    @property
    def num_classes(self) -> int:
        if self.sample is None or self.weighting is not None:
            return self.shards.num_classes
        return int(self.shards.group.all_reduce(torch.tensor(len(self.prototypes), device=self.prototypes.device)))

    @cached_property
    def local_labels(self) -> Tensor:
        """(N,): each row's class as a row of `prototypes`, -1 for classes of other processes."""
        labels = self.shards.local_labels(self.labels)
        return labels if self.sample is None else self.sample.local_labels(labels)

    def sampled(self, sample: Sample, prototypes: Tensor) -> Batch:
        return replace(self, sample=sample, prototypes=prototypes)

    def reduce_to_loss(
        self, kind: Kind, score_function: ScoreFunction, row_loss: RowLoss, *, bias: Tensor | None = None
    ) -> None:
        """Return None: a row's negatives are complete only after an exchange."""

    def _reduce(
        self, reduction: Reduction, scale: Tensor | float, offset: Tensor | float | None, bias: Tensor | None
    ) -> Reduced:
        """One all-gather of 2 N numbers. The class of a maximum stays with the process that has it: no `argmax`."""
        scale, offset = self._to_partial(scale), None if offset is None else self._to_partial(offset)
        part = self.as_partial_sums()._reduce(reduction, scale, offset, bias)
        both = all_gather_stack(torch.stack([part.value, part.target]), self.shards.group)
        values, target = both[:, 0], both[:, 1].sum(0)
        if reduction.kind == "logsumexp":
            return Reduced(target, torch.logsumexp(values, 0), None)
        if reduction.kind == "max":
            return Reduced(target, values.max(0).values, None)
        return Reduced(target, values.sum(0), None)

    def at_labels(self, per_class: Tensor) -> Tensor:
        """Each row's entry of a per-class tensor, which has all classes or, as `shard_of` gives it, this process's.

        The latter takes one all-reduce.
        """
        if len(per_class) == self.shards.num_classes:
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
        group = self.shards.group
        for rows, counts, numbers in self.shards.blocks(size):
            local = self.prototypes[rows]
            of_all = gather_rows_reduce_grad(local, gather_rows(local.detach(), group, counts), group, counts)
            yield of_all, self.shards.local_labels(numbers.to(local.device))

    def all_reduced(self, part: Tensor) -> Tensor:
        return all_reduce_sum(part, self.shards.group)

    def per_row(self, losses: Tensor) -> Tensor:
        return scatter_rows(losses, self.shards.group, self.counts)

    def as_partial_sums(self) -> Batch:
        common = {name: value for name, value in vars(self).items() if name in Batch.__dataclass_fields__}
        return PartialBatch(
            **common | {"embeddings": self.partial_embeddings, "labels": self.local_labels},
            shards=self.shards,
            global_labels=self.labels,
            counts=self.counts,
        )

    def _to_partial(self, replicated: Tensor | float) -> Tensor | float:
        return replicate_to_partial(replicated, self.shards.group) if isinstance(replicated, Tensor) else replicated

    def _from_owners(self, local: Tensor) -> Tensor:
        """(N, ...): each row from the rank that has its class; 0 where the label is -1."""
        owned = (self.local_labels >= 0).view(-1, *[1] * (local.dim() - 1))
        return self.all_reduced(torch.where(owned, local, 0.0))


@dataclass(frozen=True, kw_only=True)
class PartialBatch(Batch):
    """This process's part of the sum over classes: a row of another process's class is labelled -1.

    Args:
        shards: the classes of each rank.
        global_labels: (N,), the labels among all classes.
        counts: how many of the rows every process gave.
    """

    shards: ClassShards
    global_labels: Tensor
    counts: list[int]

    @property
    def num_classes(self) -> int:
        return self.shards.num_classes

    @property
    def other_rows(self) -> None:
        return None

    def at_labels(self, per_class: Tensor) -> Tensor:
        labels = self.global_labels if len(per_class) == self.shards.num_classes else self.labels
        return entries(per_class, labels, self.embeddings.dtype)

    def replicated(self, parameter: Tensor) -> Tensor:
        return replicate_to_partial(parameter, self.shards.group)

    def per_row(self, losses: Tensor) -> Tensor:
        return scatter_rows(all_reduce_sum(losses, self.shards.group), self.shards.group, self.counts)

    def mean(self, losses: Tensor, keep: Tensor | None = None) -> Tensor:
        """Average the rows' losses: one all-reduce of one number."""
        part = losses.sum() if keep is None else torch.where(keep, losses, 0.0).sum()
        count = max(1, len(losses)) if keep is None else (self.global_labels >= 0).sum().clamp(min=1)
        return all_reduce_sum(part, self.shards.group) / count
