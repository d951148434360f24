"""The batch that every loss sees, and the base classes that turn its samples into one number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from hypersphere.core import Registry
from hypersphere.distributed import Group, gather_rows, to_local
from hypersphere.engines import (
    EngineOptions,
    Kind,
    Recorder,
    Reduced,
    Reduction,
    RowLoss,
    ScoreFunction,
    Similarity,
    reduce_negatives,
    reduce_to_loss,
)
from hypersphere.geometry import EPS, norm
from hypersphere.losses.logits import Logits
from hypersphere.losses.sampled import Sample


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Embeddings, labels and prototypes of one call, and the engine that reduces over the negatives.

    A loss reads its tensors, calls `reduce`, and meets four hooks at most, which a batch of sharded or sampled classes
    answers in its own way: `at_labels` and `shard_of` for a parameter with an entry per class, `replicated` for one
    that all classes share, `all_reduced` for a sum over classes that the loss has made itself.

    Args:
        embeddings: (N, d) in float32 or float64.
        labels: (N,) int64; -1 means none of these classes.
        prototypes: (C, d) in their own dtype.
        normalizes_prototypes: whether the head's main loss does.
        eps: the epsilon of every norm.
        options: of the engine.
        rows: (N,) parameters of single samples, by name.
        validate: whether the values of `rows` are looked at.
        sample: which of the classes the prototypes are; all of them without it.
        unit_gradients: the prototypes' gradient is that of their unit vectors.
        subcenters: prototypes of every class, side by side in `prototypes`.
        recorder: of the head's launches, for `reduce_to_loss`.
    """

    embeddings: Tensor
    labels: Tensor
    prototypes: Tensor
    normalizes_prototypes: bool = True
    eps: float = EPS
    options: EngineOptions = field(default_factory=EngineOptions)
    rows: Mapping[str, Tensor] = field(default_factory=dict)
    validate: bool = True
    sample: Sample | None = None
    unit_gradients: bool = False
    subcenters: int = 1
    recorder: Recorder | None = None

    @property
    def num_classes(self) -> int:
        """The number of classes that a sum over classes stands for, those of other processes included."""
        return len(self.prototypes) // self.subcenters if self.weighting is None else self.weighting.classes

    @property
    def weighting(self) -> Sample | None:
        """The sample of the classes if its classes are weighted (`unbiased=True`), else None."""
        return self.sample if self.sample is not None and self.sample.positive is not None else None

    @property
    def local_labels(self) -> Tensor:
        """(N,): each row's class as an index of `prototypes`, -1 for none of them."""
        return self.labels

    @property
    def labelled(self) -> Tensor:
        """(N,) bool: the row has a class."""
        return self.labels >= 0

    @property
    def norms(self) -> Tensor:
        """(N,): ||x||, with epsilon (NormFace sec. 3.2)."""
        return norm(self.embeddings, self.eps)[:, 0]

    def shard_of(self, per_class: Tensor) -> Tensor:
        """Return the entries of a per-class parameter that belong to `prototypes`, in the embeddings' dtype.

        These are the classes of this process and, of those, the sampled ones.
        """
        rows = to_local(per_class) if self.sample is None else self.sample.rows(per_class)
        return rows.to(self.embeddings.dtype)

    def sampled(self, sample: Sample, prototypes: Tensor) -> Batch:
        """Return the same rows against a sample of the classes, whose prototypes are given."""
        return replace(self, sample=sample, prototypes=prototypes, labels=sample.local_labels(self.labels))

    def at_labels(self, per_class: Tensor) -> Tensor:
        """Return each row's entry of a per-class tensor, in the embeddings' dtype; an arbitrary one for label -1.

        The tensor has an entry for all classes or, as `shard_of` returns it, for those of `prototypes`.
        """
        labels = self.labels
        if self.sample is not None and len(per_class) == self.sample.classes:
            labels = self.sample.classes_at(labels)
        return entries(per_class, labels, self.embeddings.dtype)

    def total(self, per_class: Tensor) -> Tensor:
        """Sum a tensor with an entry for each of `prototypes` over all classes, in the embeddings' dtype."""
        dtype = self.embeddings.dtype
        if self.weighting is None:
            return per_class.sum(0, dtype=dtype)
        weighted: Tensor = torch.tensordot(self.weighting.weight.to(dtype), per_class.to(dtype), 1)
        return weighted

    def target_cosines(self) -> Tensor:
        """Return (N,): cos_y alone, for losses whose negatives depend on it; 0 where the label is -1."""
        x = self.embeddings / norm(self.embeddings, self.eps)
        prototypes = self.at_labels(self.prototypes)
        return (x * (prototypes / norm(prototypes, self.eps))).sum(1) * self.labelled

    def target_norms(self) -> Tensor:
        """Return (N,): ||w_y||, with epsilon; 1 where the label is -1."""
        return torch.where(self.labelled, norm(self.at_labels(self.prototypes), self.eps)[:, 0], 1.0)

    def prototype_blocks(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all prototypes, about `size` at a time: (rows, d), and the index of each in `prototypes`, or -1."""
        index = torch.arange(len(self.prototypes), device=self.prototypes.device)
        for start in range(0, len(index), size):
            yield self.prototypes[start : start + size], index[start : start + size]

    def replicated(self, parameter: Tensor) -> Tensor:
        """Return a parameter that all classes share as it enters the loss: its gradient is summed over the shards."""
        return parameter

    def all_reduced(self, part: Tensor) -> Tensor:
        """Add up over all processes what the loss has summed over its `prototypes`."""
        return part

    @property
    def other_rows(self) -> Group | None:
        """The processes that hold other rows of this step; None if the batch has the rows of all."""
        world = torch.distributed.group.WORLD if torch.distributed.is_available() else None
        return None if world is None else Group(world)

    def summed_over_rows(self, sums: Tensor) -> Tensor:
        """Add up over all processes what the loss has summed over the rows of this call, without gradient."""
        group = self.other_rows
        return sums if group is None else group.all_reduce(sums)

    def rows_of_all_processes(self) -> tuple[Tensor, Tensor]:
        """Return the embeddings of all processes, without gradient, and their classes as rows of a per-class buffer.

        The class is -1 where a row has none, or one of another process's shard.
        """
        x, labels, group = self.embeddings.detach(), self.labels, self.other_rows
        if self.sample is not None:
            labels = torch.where(self.labelled, self.sample.classes_at(labels), -1)
        if group is None:
            return x, labels
        counts = group.row_counts(len(x), x.device)
        return gather_rows(x, group, counts), gather_rows(labels, group, counts)

    def mean(self, losses: Tensor, keep: Tensor | None = None) -> Tensor:
        """Average the rows' losses, or the kept ones; 0, connected to the graph, if there is none."""
        if keep is None:
            return losses.sum() / max(1, losses.shape[0])
        return mean_where(losses, keep)

    def per_row(self, losses: Tensor) -> Tensor:
        """Return the losses of the rows that this process gave."""
        return losses

    def as_partial_sums(self) -> Batch:
        """Return the batch for a loss that is a sum over classes (`Objective.sums_over_classes`)."""
        return self

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
        """Return the target's score and the reduced negatives of every row; see `engines.reduce_negatives`."""
        reduction = Reduction(
            kind,
            score_function or Similarity(),
            normalize_prototypes=normalize_prototypes,
            normalize_embeddings=normalize_embeddings,
            eps=self.eps,
            unit_gradients=self.unit_gradients,
            subcenters=self.subcenters,
        )
        return self._reduce(reduction, scale, offset, bias)

    def reduce_to_loss(
        self, kind: Kind, score_function: ScoreFunction, row_loss: RowLoss, *, bias: Tensor | None = None
    ) -> Tensor | None:
        """Return the mean of a loss of cosines where the engine computes it whole, else None.

        The value and the gradients are those of `reduce` and the loss's own formula; it takes fewer launches. `bias` is
        one number that all classes share.
        """
        if self.weighting is not None:
            return None
        reduction = Reduction(
            kind,
            score_function,
            normalize_embeddings=True,
            eps=self.eps,
            unit_gradients=self.unit_gradients,
            subcenters=self.subcenters,
        )
        tensors = self.embeddings, self.prototypes, self.labels
        return reduce_to_loss(*tensors, reduction, row_loss, bias=bias, options=self.options, recorder=self.recorder)

    def _reduce(
        self, reduction: Reduction, scale: Tensor | float, offset: Tensor | float | None, bias: Tensor | None
    ) -> Reduced:
        sample, dtype = self.weighting, self.embeddings.dtype
        reduced = partial(reduce_negatives, self.embeddings, scale=scale, offset=offset, options=self.options)
        if sample is not None and reduction.kind == "logsumexp":
            heavier = sample.weight.log().to(dtype)
            bias = heavier if bias is None else heavier + bias
        drawn = reduced(self.prototypes, self.labels, reduction, bias=bias)
        if sample is None or reduction.kind == "logsumexp":
            return drawn
        known, multiple = sample.positives, sample.multiple.to(dtype)
        labels = torch.where(self.labelled, torch.searchsorted(known, self.labels), -1)
        positives = reduced(self.prototypes[known], labels, reduction, bias=None if bias is None else bias[known])
        return drawn._replace(value=multiple * drawn.value + (1 - multiple) * positives.value)


def entries(table: Tensor, labels: Tensor, dtype: torch.dtype) -> Tensor:
    """table[labels] in a dtype, and any row where the label is -1; zeros from a table without rows."""
    if not len(table):
        return table.sum(0, dtype=dtype).expand(len(labels), *table.shape[1:])
    index = labels.clamp(min=0)
    if table.dtype.itemsize >= dtype.itemsize:
        return table[index].to(dtype)
    return _Gather.apply(table, index, dtype)  # type: ignore[no-any-return,no-untyped-call]


class _Gather(torch.autograd.Function):
    """table[index] in a wider dtype, whose gradient is summed in that dtype too."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape, ctx.dtype = table.shape, table.dtype
        return table[index].to(dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (index,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).index_add_(0, index, grad).to(ctx.dtype), None, None


class Objective(nn.Module):
    """A number to be minimised, made from a batch.

    Subclasses take keyword arguments only. The head passes its `dim` and `num_classes` to those that declare them.
    """

    name: ClassVar[str]
    normalizes_prototypes: bool = True
    """Whether the loss sees prototypes only through their directions."""
    depends_on_scores_only: ClassVar[bool] = True
    """Whether prototypes enter the loss only through their scores with the embeddings."""
    row_parameters: ClassVar[tuple[str, ...]] = ()
    """What a call may give sample by sample."""
    per_class: ClassVar[tuple[str, ...]] = ()
    """Parameters and buffers with an entry per class: they are sharded as the prototypes are."""
    sums_over_classes: ClassVar[bool] = False
    """Whether a row's loss is a sum over classes whose terms need one prototype each: then sharded classes exchange
    nothing but that sum."""
    takes_subcenters: ClassVar[bool] = False
    """Whether a class may have several prototypes: the loss must see them through `Batch.reduce` alone."""
    options: Mapping[str, Any] = MappingProxyType({})
    """The keywords it was made with, to be shown."""

    def forward(self, batch: Batch) -> Tensor:
        raise TypeError(f"{type(self).__name__} does not say how to compute itself")

    def reset_parameters(self) -> None:
        """Draw what the loss starts from at random; the head calls it after its prototypes are drawn."""

    def advance(self) -> None:
        """Move schedules by one optimizer step."""

    def logits(self, batch: Batch) -> Logits | None:
        """What the loss compares before any margin, for rows of unknown class; None if it compares no prototypes.

        A `SampleLoss` that says nothing compares cosines.
        """
        return None

    def sampling_error(self, unbiased: bool) -> str | None:
        """Say why the loss cannot be computed from a sample of the classes (an `unbiased` one); None if it can."""
        return None

    def with_margin(self, cosine: Tensor) -> Tensor:
        """What the margin makes of the target's cosine, to be compared with the negatives'; itself without one."""
        return cosine

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Buffers hold running means and margins: `head.half()` leaves them in the precision they need."""
        kept = {name: buffer for name, buffer in self.named_buffers(recurse=False) if buffer.is_floating_point()}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, buffer in kept.items():
            moved = self.get_buffer(name)
            if moved.dtype.itemsize < torch.float32.itemsize:
                setattr(self, name, buffer.to(moved.device))
        return self


class SampleLoss(Objective):
    """An objective that is a mean over samples.

    A row labelled -1 has no loss and does not count, unless `counts_unlabelled`: then its target term alone is absent.
    """

    counts_unlabelled: ClassVar[bool] = False

    def forward(self, batch: Batch) -> Tensor:
        whole = self.whole(batch)
        if whole is not None:
            return whole
        if self.sums_over_classes:
            batch = batch.as_partial_sums()
        return batch.mean(self.samples(batch), None if self.counts_unlabelled else batch.labelled)

    def logits(self, batch: Batch) -> Logits | None:
        return Logits(normalize_prototypes=self.normalizes_prototypes)

    def per_sample(self, batch: Batch) -> Tensor:
        """(N,): the loss of every row of this process; 0 for one that the mean leaves out."""
        if self.sums_over_classes:
            batch = batch.as_partial_sums()
        losses = self.samples(batch)
        return batch.per_row(losses if self.counts_unlabelled else torch.where(batch.labelled, losses, 0.0))

    def whole(self, batch: Batch) -> Tensor | None:
        """The mean of `samples` by `Batch.reduce_to_loss`, for losses that can state their formula in numbers."""
        return None

    def samples(self, batch: Batch) -> Tensor:
        """(N,): the loss of every row, as in the paper."""
        raise TypeError(f"{type(self).__name__} does not say what a sample's loss is")


def mean_where(values: Tensor, keep: Tensor) -> Tensor:
    """The mean of the kept values; 0, connected to the graph, if none is."""
    return torch.where(keep, values, 0.0).sum() / keep.sum().clamp(min=1)


def check_class_counts(class_counts: Sequence[float] | Tensor | None, num_classes: int) -> Tensor:
    """The number of training samples of every class as float64, all positive."""
    if class_counts is None:
        raise ValueError("class_counts is missing: give the number of training samples of every class")
    if not isinstance(class_counts, Tensor | Sequence | np.ndarray):
        raise ValueError(f"class_counts must be a list or tensor of numbers, not {type(class_counts).__name__}")
    try:
        counts = torch.as_tensor(class_counts, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(f"class_counts={class_counts!r:.80} must be numbers ({error!s:.100})") from None
    if counts.shape != (num_classes,) or not bool((counts > 0).all()) or not bool(counts.isfinite().all()):
        raise ValueError(
            f"class_counts must be {num_classes} positive numbers, one per class, not {tuple(counts.shape)} values"
            f" between {counts.min().item() if counts.numel() else 'none'} and"
            f" {counts.max().item() if counts.numel() else 'none'}"
        )
    return counts


OBJECTIVES: Registry[Any] = Registry("loss")
"""All objectives by name."""
