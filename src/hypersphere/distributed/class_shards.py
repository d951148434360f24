"""Classes over several processes: which rank has which rows, and the tensors made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, distributed, nn

from hypersphere.distributed.collectives import Group, gather_rows, is_sharded, to_local

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

    GroupLike: TypeAlias = ProcessGroup | DeviceMesh | Group
else:
    GroupLike: TypeAlias = Any

_ROWS = 2**14


class ClassShards:
    """The classes of one head over P ranks: runs of ceil(C / P), the last ones shorter or empty, as `Shard(0)` cuts.

    Args:
        over: a process group, or a device mesh of one dimension; or a `Group`, and then tensors stay plain ones.
        num_classes: C, of all ranks together.
        device: of the prototypes.
    """

    def __init__(self, over: GroupLike, num_classes: int, device: torch.device | str | None) -> None:
        self.num_classes = num_classes
        self.mesh: DeviceMesh | None = None
        if isinstance(over, Group):
            self.group = over
        else:
            self.mesh = _mesh(over, device)
            self.group = Group(self.mesh.get_group())

    @cached_property
    def counts(self) -> list[int]:
        """How many classes each rank has."""
        size = -(-self.num_classes // self.group.size)
        return [max(0, min(size, self.num_classes - size * rank)) for rank in range(self.group.size)]

    @property
    def rows(self) -> slice:
        """The classes of this rank."""
        start = sum(self.counts[: self.group.rank])
        return slice(start, start + self.counts[self.group.rank])

    def blocks(self, size: int) -> Iterator[tuple[slice, list[int], Tensor]]:
        """Go through all classes, about `size` at a time, some of each rank.

        Yields this rank's rows of the block, how many each rank has of it, and the numbers of all of its classes.
        """
        starts = [sum(self.counts[:rank]) for rank in range(self.group.size)]
        step = max(1, size // self.group.size)
        for done in range(0, max(self.counts), step):
            here = [max(0, min(step, count - done)) for count in self.counts]
            numbers = [torch.arange(start + done, start + done + n) for start, n in zip(starts, here, strict=True)]
            yield slice(done, done + step), here, torch.cat(numbers)

    def local_labels(self, labels: Tensor) -> Tensor:
        """Return each label as a row of this rank's shard; -1 for classes of other ranks, and for -1."""
        local = labels - self.rows.start
        return torch.where((local >= 0) & (labels < self.rows.stop), local, -1)

    def shard_of(self, whole: Tensor) -> Tensor:
        """Return a copy of this rank's rows of a per-class tensor."""
        return whole[self.rows].clone()

    def to_dtensor(self, rows: Tensor) -> Tensor:
        """Return the rows of all ranks as one `Shard(0)` DTensor; nothing is sent."""
        if self.mesh is None:
            return rows
        from torch.distributed.tensor import DTensor, Shard

        shape = torch.Size((self.num_classes, *rows.shape[1:]))
        stride = torch.empty(shape, device="meta").stride()
        return DTensor.from_local(rows, self.mesh, [Shard(0)], run_check=False, shape=shape, stride=stride)

    def draw(self, like: Tensor, draw: Callable[[Tensor], Tensor]) -> Tensor:
        """Return rows for the classes of this rank, filled by `draw`.

        Each rank draws all rows on the CPU, some at a time, and keeps its own: the same seed gives the same
        prototypes on any number of ranks, and leaves the generators alike.
        """
        rows, dim = self.rows, like.shape[1]
        shard = like.new_empty((rows.stop - rows.start, dim))
        for start in range(0, self.num_classes, _ROWS):
            stop = min(start + _ROWS, self.num_classes)
            block = draw(torch.empty((stop - start, dim), dtype=like.dtype, device="cpu"))
            first, last = max(start, rows.start), min(stop, rows.stop)
            if first < last:
                shard[first - rows.start : last - rows.start] = block[first - start : last - start]
        return shard

    def shard_parameters(self, module: nn.Module, names: Iterable[str]) -> None:
        """Replace per-class parameters and buffers of a module by this rank's entries of them."""
        for name in names:
            whole = getattr(module, name)
            if isinstance(whole, Tensor) and whole.dim() > 0:
                shard = self.to_dtensor(self.shard_of(whole.detach()))
                setattr(module, name, nn.Parameter(shard) if isinstance(whole, nn.Parameter) else shard)

    def products(self, x: Tensor, prototypes: Tensor) -> Tensor:
        """Return (N, num_classes): this rank's rows times the prototypes of all ranks."""
        counts = self.group.row_counts(len(x), x.device)
        columns = prototypes @ gather_rows(x, self.group, counts).T
        start = sum(counts[: self.group.rank])
        return self.gather_classes(columns.T, slice(start, start + len(x)))

    def gather_classes(self, scores: Tensor, rows: slice) -> Tensor:
        """Return (n, num_classes): of the scores of all rows and this rank's classes, `rows` with all classes."""
        return gather_rows(scores.T, self.group, self.counts)[:, rows].T

    def best_class(self, value: Tensor, local_class: Tensor) -> Tensor:
        """Return (N,): the class of the largest value of all ranks, the lowest one on ties.

        Args:
            value: (N,), the largest of this rank's classes.
            local_class: its row of this rank's shard, -1 where there is none.
        """
        values = self.group.all_gather(value)
        classes = self.group.all_gather(torch.where(local_class < 0, self.num_classes, local_class + self.rows.start))
        return torch.where(values == values.max(0).values, classes, self.num_classes).min(0).values

    @torch.no_grad()
    def full_tensor(self, value: Tensor, keep: bool = True) -> Tensor | None:
        """Return all rows of a sharded tensor on the CPU, brought there some at a time; all ranks must call this.

        Args:
            value: the tensor.
            keep: whether this rank wants them; it gets None otherwise.
        """
        rows = to_local(value)
        everything = torch.empty(value.shape, dtype=value.dtype) if keep else None
        for block, counts, numbers in self.blocks(_ROWS):
            of_all = gather_rows(rows[block], self.group, counts)
            if everything is not None:
                everything[numbers] = of_all.cpu()
        return everything

    @torch.no_grad()
    def first_rows(self, value: Tensor, count: int) -> Tensor:
        """Return the first rows of a sharded tensor, on every rank."""
        wanted = [max(0, min(n, count - sum(self.counts[:rank]))) for rank, n in enumerate(self.counts)]
        return gather_rows(to_local(value)[: wanted[self.group.rank]], self.group, wanted)

    def shard_state_dict(self, sharded: Mapping[str, Tensor], given: Mapping[str, Any]) -> dict[str, Tensor]:
        """Return the whole per-class tensors of a state dict, cut as those in `sharded` are."""
        return {
            name: self.to_dtensor(self.shard_of(value).to(sharded[name].device))
            for name, value in given.items()
            if is_sharded(sharded.get(name)) and _is_whole(value, sharded[name])
        }


def _is_whole(value: Any, like: Tensor) -> bool:
    return isinstance(value, Tensor) and not is_sharded(value) and value.shape == like.shape


def _mesh(over: GroupLike, device: torch.device | str | None) -> DeviceMesh:
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
