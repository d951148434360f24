"""What processes that share the classes tell each other, and what it does to gradients.

Every process computes the same loss L and calls `backward` on it. Two kinds of numbers occur: *common* ones, equal in
all processes, whose gradient is dL/d(number) in each of them; and *parts*, which differ, and whose sum or other
combination is common. Six operations lead from one kind to the other:

| operation | forward | backward |
|---|---|---|
| `common_sum` of parts | sum over the processes | as it comes |
| `common_stack` of parts | all parts, stacked | the own slot |
| `common_rows` of a process's own rows | the rows of all, concatenated | the own rows |
| `used_in_parts` of a common tensor | as it is | sum over the processes |
| `rows_used_in_parts` of own rows | the rows of all | sum over the processes, the own rows of it |
| `own_rows` of a common tensor | the own rows | those of all processes, divided by their number |

After the last, what is minimised is the mean over the processes of what each makes of its own rows, as
`DistributedDataParallel` has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, distributed

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class Exchange:
    """The collectives of one process group; all of them are here, each called by every process of the group.

    Args:
        group: the processes that share the classes.
    """

    def __init__(self, group: ProcessGroup) -> None:
        self.group = group
        self.rank, self.size = distributed.get_rank(group), distributed.get_world_size(group)
        if self.rank < 0:
            raise ValueError("this process is not in the group that shards the classes")
        self._host = "cpu:" in distributed.get_backend_config(group)

    def gather(self, mine: Tensor) -> Tensor:
        """(size, *shape): what every process gave, all of one shape."""
        everything = mine.new_empty((self.size, *mine.shape))
        _all_gather()(everything.view(-1), mine.contiguous().view(-1), group=self.group)
        return everything

    def sum(self, mine: Tensor) -> Tensor:
        """The sum of what every process gave."""
        total = mine.clone()
        distributed.all_reduce(total, group=self.group)
        return total

    def sum_of_mine(self, parts: Tensor) -> Tensor:
        """(*shape): of (size, *shape) from every process, the sum of what is at this one's place."""
        total = parts.new_empty(parts.shape[1:])
        _reduce_scatter()(total.view(-1), parts.contiguous().view(-1), group=self.group)
        return total

    def counts(self, mine: int, device: torch.device) -> list[int]:
        """How many rows every process has. A group with a CPU backend (`cpu:gloo,cuda:nccl`) waits for no GPU."""
        where = torch.device("cpu") if self._host else device
        counts: list[int] = self.gather(torch.tensor([mine], device=where))[:, 0].tolist()
        return counts

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def _all_gather() -> Any:
    """Torch 2.13 gave the same call a new name."""
    return getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor


def _reduce_scatter() -> Any:
    return getattr(distributed, "reduce_scatter_single", None) or distributed.reduce_scatter_tensor


def gather_rows(mine: Tensor, exchange: Exchange, counts: list[int]) -> Tensor:
    """The rows of all processes, `counts[p]` of process p, in their order; no gradient."""
    most = max(counts)
    if most == 0:
        return mine
    everything = exchange.gather(_padded(mine, most))
    if min(counts) == most:
        return everything.flatten(0, 1)
    return torch.cat([rows[:count] for rows, count in zip(everything, counts, strict=True)])


def common_rows(mine: Tensor, gathered: Tensor, exchange: Exchange, counts: list[int], factor: float = 1.0) -> Tensor:
    """`gathered` as a common tensor made of each process's own rows, whose gradient is multiplied by `factor`."""
    return _CommonRows.apply(mine, gathered, exchange, counts, factor)  # type: ignore[no-any-return,no-untyped-call]


def rows_used_in_parts(
    mine: Tensor, gathered: Tensor, exchange: Exchange, counts: list[int], factor: float = 1.0
) -> Tensor:
    """`gathered` for arithmetic that differs between processes: its gradients are summed over them."""
    return _RowsInParts.apply(mine, gathered, exchange, counts, factor)  # type: ignore[no-any-return,no-untyped-call]


def common_sum(part: Tensor, exchange: Exchange) -> Tensor:
    """The sum of the parts of all processes."""
    return _CommonSum.apply(part, exchange)  # type: ignore[no-any-return,no-untyped-call]


def common_stack(part: Tensor, exchange: Exchange) -> Tensor:
    """(size, *shape): the parts of all processes."""
    return _CommonStack.apply(part, exchange)  # type: ignore[no-any-return,no-untyped-call]


def used_in_parts(common: Tensor, exchange: Exchange) -> Tensor:
    """A common tensor for arithmetic that differs between processes."""
    return _UsedInParts.apply(common, exchange)  # type: ignore[no-any-return,no-untyped-call]


def own_rows(common: Tensor, exchange: Exchange, counts: list[int]) -> Tensor:
    """This process's rows of a common tensor that has `counts[p]` of process p."""
    return _OwnRows.apply(common, exchange, counts)  # type: ignore[no-any-return,no-untyped-call]


def local_rows(tensor: Tensor) -> Tensor:
    """This process's rows of a sharded tensor, differentiable; any other tensor as it is."""
    to_local = getattr(tensor, "to_local", None)
    return tensor if to_local is None else to_local()


def _padded(rows: Tensor, count: int) -> Tensor:
    if len(rows) == count:
        return rows
    return torch.cat([rows, rows.new_zeros((count - len(rows), *rows.shape[1:]))])


class _CommonRows(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, mine: Tensor, gathered: Tensor, exchange: Exchange, counts: list[int], factor: float
    ) -> Tensor:
        ctx.start, ctx.count, ctx.factor = sum(counts[: exchange.rank]), counts[exchange.rank], factor
        return gathered.view_as(gathered)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return grad[ctx.start : ctx.start + ctx.count] * ctx.factor, None, None, None, None


class _RowsInParts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, mine: Tensor, gathered: Tensor, exchange: Exchange, counts: list[int], factor: float
    ) -> Tensor:
        ctx.exchange, ctx.counts, ctx.factor = exchange, counts, factor
        return gathered.view_as(gathered)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        counts, exchange = ctx.counts, ctx.exchange
        most, mine = max(counts), counts[exchange.rank]
        if most == 0:
            return grad, None, None, None, None
        parts = torch.stack([_padded(part, most) for part in torch.split(grad, counts)])
        return exchange.sum_of_mine(parts)[:mine].mul_(ctx.factor), None, None, None, None


class _OwnRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, common: Tensor, exchange: Exchange, counts: list[int]) -> Tensor:
        ctx.exchange, ctx.counts = exchange, counts
        start = sum(counts[: exchange.rank])
        return common[start : start + counts[exchange.rank]].clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return gather_rows(grad, ctx.exchange, ctx.counts) / ctx.exchange.size, None, None


class _CommonSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, exchange: Exchange) -> Tensor:
        return exchange.sum(part)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


class _CommonStack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, exchange: Exchange) -> Tensor:
        ctx.rank = exchange.rank
        return exchange.gather(part)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad[ctx.rank], None


class _UsedInParts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, common: Tensor, exchange: Exchange) -> Tensor:
        ctx.exchange = exchange
        return common.view_as(common)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.exchange.sum(grad), None
