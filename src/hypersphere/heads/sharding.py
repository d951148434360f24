"""Prototypes shared out over processes: who has which rows, and how a batch is brought together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, distributed, nn

from hypersphere.distributed import Exchange, common_rows, gather_rows, local_rows, rows_used_in_parts
from hypersphere.losses import Batch, Classes, Objective, ShardedBatch

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

    Over: TypeAlias = ProcessGroup | DeviceMesh | Exchange
else:
    Over: TypeAlias = Any

_ROWS = 2**14


class Sharding:
    """The classes of one head over a group of processes.

    Args:
        over: a process group, or a device mesh of one dimension; or the collectives themselves, and then tensors stay
            plain ones.
        num_classes: of all processes together.
        device: of the prototypes.
    """

    def __init__(self, over: Over, num_classes: int, device: torch.device | str | None) -> None:
        self.mesh: DeviceMesh | None = None
        if isinstance(over, Exchange):
            self.exchange = over
        else:
            self.mesh = _mesh(over, device)
            self.exchange = Exchange(self.mesh.get_group())
        self.classes = Classes(num_classes, self.exchange)

    def own_rows(self, whole: Tensor) -> Tensor:
        """This process's rows of a per-class tensor."""
        return whole[self.classes.rows].clone()

    def joined(self, rows: Tensor) -> Tensor:
        """The rows of all processes as one `Shard(0)` DTensor; nothing is sent."""
        if self.mesh is None:
            return rows
        from torch.distributed.tensor import DTensor, Shard

        shape = torch.Size((self.classes.num_classes, *rows.shape[1:]))
        stride = torch.empty(shape, device="meta").stride()
        return DTensor.from_local(rows, self.mesh, [Shard(0)], run_check=False, shape=shape, stride=stride)

    def drawn(self, like: Tensor, draw: Callable[[Tensor], Tensor]) -> Tensor:
        """Rows of the classes of this process, each block of them filled by `draw`.

        Each process draws all rows on the CPU, some at a time, and keeps its own: the same seed gives the same
        prototypes on any number of processes, and leaves the generators alike.
        """
        rows, dim = self.classes.rows, like.shape[1]
        own = like.new_empty((rows.stop - rows.start, dim))
        for start in range(0, self.classes.num_classes, _ROWS):
            stop = min(start + _ROWS, self.classes.num_classes)
            block = draw(torch.empty((stop - start, dim), dtype=like.dtype, device="cpu"))
            first, last = max(start, rows.start), min(stop, rows.stop)
            if first < last:
                own[first - rows.start : last - rows.start] = block[first - start : last - start]
        return own

    def cut(self, objective: Objective) -> None:
        """Keep this process's entries of the loss's per-class parameters."""
        for name in objective.per_class:
            parameter = getattr(objective, name)
            if isinstance(parameter, Tensor) and parameter.dim() > 0:
                setattr(objective, name, nn.Parameter(self.joined(self.own_rows(parameter.detach()))))

    def join(self, batch: Batch, wire: torch.dtype) -> ShardedBatch:
        """The rows of all processes, in the order of the ranks.

        Args:
            batch: this process's rows, with this process's prototypes.
            wire: the dtype that embeddings travel in: their own, before they were widened for the loss.
        """
        exchange, mine = self.exchange, batch.embeddings
        counts = exchange.counts(len(mine), mine.device)
        given = {field.name: getattr(batch, field.name) for field in fields(Batch)}
        gathered = gather_rows(mine.detach().to(wire), exchange, counts).to(mine.dtype)
        given["labels"] = gather_rows(batch.labels, exchange, counts)
        given["embeddings"] = common_rows(mine, gathered, exchange, counts, exchange.size)
        given["rows"] = {
            name: common_rows(row, gather_rows(row.detach(), exchange, counts), exchange, counts, exchange.size)
            for name, row in sorted(batch.rows.items())
        }
        part = rows_used_in_parts(mine, gathered, exchange, counts, exchange.size)
        return ShardedBatch(**given, part=part, classes=self.classes, counts=counts)

    def products(self, x: Tensor, prototypes: Tensor) -> Tensor:
        """(N, num_classes): this process's rows times the prototypes of all."""
        counts = self.exchange.counts(len(x), x.device)
        columns = prototypes @ gather_rows(x, self.exchange, counts).T
        start = sum(counts[: self.exchange.rank])
        return self.all_classes(columns.T, slice(start, start + len(x)))

    def all_classes(self, scores: Tensor, mine: slice) -> Tensor:
        """(n, num_classes): of the scores of all rows and this process's classes, those of its rows and all classes."""
        return gather_rows(scores.T, self.exchange, self.classes.counts)[:, mine].T

    def best_class(self, value: Tensor, place: Tensor) -> Tensor:
        """(N,): the class of the largest value of all processes, the lowest one on ties.

        Args:
            value: (N,), the largest of this process's classes.
            place: its place among them, -1 where there are none.
        """
        values = self.exchange.gather(value)
        classes = self.exchange.gather(
            torch.where(place < 0, self.classes.num_classes, place + self.classes.rows.start)
        )
        return torch.where(values == values.max(0).values, classes, self.classes.num_classes).min(0).values

    @torch.no_grad()
    def whole(self, value: Tensor, keep: bool = True) -> Tensor | None:
        """All rows of a sharded tensor on the CPU, brought there some at a time; all processes ask for them.

        Args:
            value: the tensor.
            keep: whether this process wants them; those that do not have None.
        """
        rows = local_rows(value)
        everything = torch.empty(value.shape, dtype=value.dtype) if keep else None
        for mine, counts, numbers in self.classes.blocks(_ROWS):
            of_all = gather_rows(rows[mine], self.exchange, counts)
            if everything is not None:
                everything[numbers] = of_all.cpu()
        return everything

    @torch.no_grad()
    def first(self, value: Tensor, count: int) -> Tensor:
        """The first rows of a sharded tensor, for all processes."""
        missing = [max(0, min(n, count - sum(self.classes.counts[:p]))) for p, n in enumerate(self.classes.counts)]
        return gather_rows(local_rows(value)[: missing[self.exchange.rank]], self.exchange, missing)

    def like(self, mine: Mapping[str, Tensor], given: Mapping[str, Any]) -> dict[str, Tensor]:
        """The whole per-class tensors of a state dict, cut as this head's are."""
        return {
            name: self.joined(self.own_rows(value).to(mine[name].device))
            for name, value in given.items()
            if is_sharded(mine.get(name)) and _whole(value, mine[name])
        }


def is_sharded(value: Any) -> bool:
    """Whether a tensor has rows in several processes."""
    return hasattr(value, "to_local")


def _whole(value: Any, like: Tensor) -> bool:
    return isinstance(value, Tensor) and not is_sharded(value) and value.shape == like.shape


def _mesh(over: Over, device: torch.device | str | None) -> DeviceMesh:
    if not distributed.is_available() or not distributed.is_initialized():
        raise ValueError("shard needs processes: start them with torchrun and call init_process_group first")
    from torch.distributed.device_mesh import DeviceMesh

    if isinstance(over, DeviceMesh):
        if over.ndim != 1:
            raise ValueError(f"shard has {over.ndim} dimensions; a mesh of one dimension is wanted: mesh['name']")
        return over
    if not isinstance(over, distributed.ProcessGroup):
        raise ValueError(f"shard must be a process group or a device mesh, not {type(over).__name__}")
    kind = torch.get_default_device() if device is None else torch.device(device)
    return DeviceMesh.from_group(over, kind.type)
