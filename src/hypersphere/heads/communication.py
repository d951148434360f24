"""How many bytes a sharded head sends: the head itself is run alone, with collectives that only count."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from hypersphere.core import check_integer
from hypersphere.distributed import Group
from hypersphere.heads.create import create_head

_RING = {"all-gather": (1.0, 0), "all-reduce": (2.0, 1), "reduce-scatter": (1.0, 1)}
"""How often each process passes everything on, and whether in P pieces."""


class Sent(NamedTuple):
    """One collective: its name, and the bytes that each process sends in it."""

    collective: str
    bytes: float


def ring_bytes(collective: str, processes: int, size: int) -> float:
    """The bytes that each of P processes sends in a ring, of tensors of so many bytes."""
    often, in_pieces = _RING[collective]
    return often * (processes - 1) * size / (processes if in_pieces else 1)


def step_collectives(
    name: str,
    *,
    rows: int,
    dim: int,
    processes: int,
    num_classes: int | None = None,
    dtype: torch.dtype = torch.float32,
    **options: Any,
) -> list[Sent]:
    """The collectives of one forward and backward pass of a sharded head, in their order.

    A ring is assumed, with which each process sends (P - 1) n bytes to gather n bytes of each, (P - 1) / P n to sum n
    bytes and scatter the sum, and twice that to give the sum to all.

    Args:
        name: of the loss, as in `create_head`.
        rows: of all processes together, a multiple of `processes`.
        dim: width of the embeddings.
        processes: P.
        num_classes: the number only matters to `hyperspherical_energy`, which sends the prototypes around. By default
            two for each process.
        dtype: of the embeddings.
        options: further arguments of `create_head`.
    """
    check_integer("rows", rows, 0)
    if rows % check_integer("processes", processes, 1):
        raise ValueError(f"rows={rows} must be a multiple of processes={processes}")
    count = _Counted(processes)
    head = create_head(name, dim=dim, num_classes=num_classes or 2 * processes, shard=count, **options)
    embeddings = torch.ones(rows // processes, dim, dtype=dtype, requires_grad=True)
    labels = torch.zeros(rows // processes, dtype=torch.int64)
    head(embeddings, labels).backward()
    return count.sent


def step_bytes(name: str, **settings: Any) -> float:
    """The bytes that each process sends in one forward and backward pass: the sum of `step_collectives(name, ...)`.

    Example:
        >>> f"{step_bytes('sphereface2', rows=1024, dim=512, processes=8):,.0f}"
        '3,677,254'
    """
    return sum(sent.bytes for sent in step_collectives(name, **settings))


class _Counted(Group):
    """Collectives among copies of this process: they send nothing, and note what they would have."""

    def __init__(self, size: int) -> None:
        self.rank, self.size = 0, size
        self._host = True
        self.sent: list[Sent] = []

    def all_gather(self, local: Tensor) -> Tensor:
        self.sent.append(Sent("all-gather", ring_bytes("all-gather", self.size, local.nbytes)))
        return local.expand(self.size, *local.shape).clone()

    def all_reduce(self, local: Tensor) -> Tensor:
        self.sent.append(Sent("all-reduce", ring_bytes("all-reduce", self.size, local.nbytes)))
        return local * self.size

    def reduce_scatter(self, parts: Tensor) -> Tensor:
        self.sent.append(Sent("reduce-scatter", ring_bytes("reduce-scatter", self.size, parts.nbytes)))
        return parts[self.rank] * self.size
