"""Differentiable collectives between replicated and partial tensors (DTensor's words).

Every rank computes the same loss L and calls `backward` on it. A *replicated* tensor is equal on all ranks, and so is
its gradient dL/d(tensor). A *partial* tensor differs between ranks, and a sum or other combination of the parts is
replicated. Six operations lead from one kind to the other:

| operation | forward | backward |
|---|---|---|
| `all_reduce_sum` of a partial tensor | sum over the ranks | identity |
| `all_gather_stack` of a partial tensor | all parts, stacked | this rank's slot |
| `all_gather_rows` of a rank's rows | the rows of all ranks, replicated | this rank's rows |
| `gather_rows_reduce_grad` of a rank's rows | the rows of all ranks, for partial arithmetic | reduce-scatter |
| `replicate_to_partial` of a replicated tensor | identity | sum over the ranks |
| `scatter_rows` of a replicated tensor | this rank's rows | all-gather, divided by the number of ranks |

After the last one, what is minimised is the mean over the ranks of what each computes from its own rows, as with
`DistributedDataParallel`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, distributed

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class Group:
    """A process group and its collectives without gradients, each of which every rank of the group must call.

    Args:
        process_group: the ranks that share the classes.
    """

    def __init__(self, process_group: ProcessGroup) -> None:
        self.process_group = process_group
        self.rank, self.size = distributed.get_rank(process_group), distributed.get_world_size(process_group)
        if self.rank < 0:
            raise ValueError("this process is not in the group that shards the classes")
        self._host = "cpu:" in distributed.get_backend_config(process_group)

    def all_gather(self, part: Tensor) -> Tensor:
        """Return (size, *shape): the tensors of all ranks, which have one shape."""
        everything = part.new_empty((self.size, *part.shape))
        _all_gather()(everything.view(-1), part.contiguous().view(-1), group=self.process_group)
        return everything

    def all_reduce(self, part: Tensor) -> Tensor:
        """Return the sum over the ranks."""
        total = part.clone()
        distributed.all_reduce(total, group=self.process_group)
        return total

    def reduce_scatter(self, parts: Tensor) -> Tensor:
        """Return (*shape): of the sum over the ranks of (size, *shape), the slot of this rank."""
        total = parts.new_empty(parts.shape[1:])
        _reduce_scatter()(total.view(-1), parts.contiguous().view(-1), group=self.process_group)
        return total

    def row_counts(self, count: int, device: torch.device) -> list[int]:
        """Return how many rows each rank has. A group with a CPU backend (`cpu:gloo,cuda:nccl`) waits for no GPU."""
        where = torch.device("cpu") if self._host else device
        counts: list[int] = self.all_gather(torch.tensor([count], device=where))[:, 0].tolist()
        return counts

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def _all_gather() -> Any:
    """Torch 2.13 gave the same call a new name."""
    return getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor


def _reduce_scatter() -> Any:
    return getattr(distributed, "reduce_scatter_single", None) or distributed.reduce_scatter_tensor


def gather_rows(rows: Tensor, group: Group, counts: list[int]) -> Tensor:
    """Return the rows of all ranks, `counts[r]` of rank r, in the order of the ranks; without a gradient."""
    most = max(counts)
    if most == 0:
        return rows
    everything = group.all_gather(_padded(rows, most))
    if min(counts) == most:
        return everything.flatten(0, 1)
    return torch.cat([part[:count] for part, count in zip(everything, counts, strict=True)])


def all_gather_rows(rows: Tensor, gathered: Tensor, group: Group, counts: list[int], factor: float = 1.0) -> Tensor:
    """Return the rows of all ranks as a replicated tensor.

    Args:
        rows: this rank's rows, which get their part of the gradient times `factor`.
        gathered: `gather_rows` of them.
        group: the ranks.
        counts: how many rows each rank has.
        factor: of the gradient.
    """
    return _AllGatherRows.apply(rows, gathered, group, counts, factor)  # type: ignore[no-any-return,no-untyped-call]


def gather_rows_reduce_grad(
    rows: Tensor, gathered: Tensor, group: Group, counts: list[int], factor: float = 1.0
) -> Tensor:
    """Return the rows of all ranks for partial arithmetic: the backward pass sums the gradients over the ranks.

    Args:
        rows: this rank's rows, which get their part of the summed gradient times `factor`.
        gathered: `gather_rows` of them.
        group: the ranks.
        counts: how many rows each rank has.
        factor: of the gradient.
    """
    return _GatherRowsReduceGrad.apply(rows, gathered, group, counts, factor)  # type: ignore[no-any-return,no-untyped-call]


def all_reduce_sum(part: Tensor, group: Group) -> Tensor:
    """Return the sum over the ranks of a partial tensor."""
    return _AllReduceSum.apply(part, group)  # type: ignore[no-any-return,no-untyped-call]


def all_gather_stack(part: Tensor, group: Group) -> Tensor:
    """Return (size, *shape): the parts of all ranks."""
    return _AllGatherStack.apply(part, group)  # type: ignore[no-any-return,no-untyped-call]


def replicate_to_partial(replicated: Tensor, group: Group) -> Tensor:
    """Return a replicated tensor for arithmetic that differs between ranks: the backward pass sums its gradients."""
    return _ReplicateToPartial.apply(replicated, group)  # type: ignore[no-any-return,no-untyped-call]


def scatter_rows(replicated: Tensor, group: Group, counts: list[int]) -> Tensor:
    """Return this rank's rows of a replicated tensor that has `counts[r]` rows of rank r."""
    return _ScatterRows.apply(replicated, group, counts)  # type: ignore[no-any-return,no-untyped-call]


def is_sharded(value: Any) -> bool:
    """Say whether a value is a DTensor: a tensor of which this rank has only a part."""
    return hasattr(value, "to_local")


def to_local(tensor: Tensor) -> Tensor:
    """Return this rank's part of a sharded tensor, differentiably; any other tensor as it is."""
    return tensor.to_local() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def _padded(rows: Tensor, count: int) -> Tensor:
    if len(rows) == count:
        return rows
    return torch.cat([rows, rows.new_zeros((count - len(rows), *rows.shape[1:]))])


class _AllGatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, gathered: Tensor, group: Group, counts: list[int], factor: float) -> Tensor:
        ctx.start, ctx.count, ctx.factor = sum(counts[: group.rank]), counts[group.rank], factor
        return gathered.view_as(gathered)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return grad[ctx.start : ctx.start + ctx.count] * ctx.factor, None, None, None, None


class _GatherRowsReduceGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, gathered: Tensor, group: Group, counts: list[int], factor: float) -> Tensor:
        ctx.group, ctx.counts, ctx.factor = group, counts, factor
        return gathered.view_as(gathered)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        counts, group = ctx.counts, ctx.group
        most, count = max(counts), counts[group.rank]
        if most == 0:
            return grad, None, None, None, None
        parts = torch.stack([_padded(part, most) for part in torch.split(grad, counts)])
        return group.reduce_scatter(parts)[:count].mul_(ctx.factor), None, None, None, None


class _ScatterRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, replicated: Tensor, group: Group, counts: list[int]) -> Tensor:
        ctx.group, ctx.counts = group, counts
        start = sum(counts[: group.rank])
        return replicated[start : start + counts[group.rank]].clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return gather_rows(grad, ctx.group, ctx.counts) / ctx.group.size, None, None


class _AllReduceSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, group: Group) -> Tensor:
        return group.all_reduce(part)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


class _AllGatherStack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, group: Group) -> Tensor:
        ctx.rank = group.rank
        return group.all_gather(part)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad[ctx.rank], None


class _ReplicateToPartial(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, replicated: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return replicated.view_as(replicated)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.group.all_reduce(grad), None
