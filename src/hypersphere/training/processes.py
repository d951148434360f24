"""The processes of a run: one by default, those of torchrun where it started us."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import torch
from torch import Tensor, distributed

_TIMEOUT = timedelta(hours=2)


@dataclass(frozen=True)
class Processes:
    """This process among those that train together.

    Args:
        rank: its number, from 0.
        size: how many there are.
        device: what it computes on.
    """

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def first(self) -> bool:
        """Whether this is the one that writes."""
        return self.rank == 0

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.size > 1:
            value = value.clone()
            distributed.all_reduce(value)
        return value

    def average_(self, gradients: list[Tensor]) -> None:
        """Replace each tensor by its mean over all processes."""
        if self.size == 1:
            return
        for gradient in gradients:
            distributed.all_reduce(gradient)
            gradient.div_(self.size)

    def any(self, mine: bool) -> bool:
        """Whether it is true of any process."""
        return bool(self.sum(torch.tensor(int(mine), device=self.device)))

    def wait(self) -> None:
        """Go on when all have come here."""
        self.any(False)


@contextmanager
def join_processes(device: str | None = None) -> Iterator[Processes]:
    """The processes that torchrun started together; this one alone without it.

    Args:
        device: `cpu` or `cuda`; what there is by default. Each process takes a GPU of its own.
    """
    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if kind.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device={kind!r}, but there is no CUDA device here: use cpu")
    if "WORLD_SIZE" not in os.environ:
        yield Processes(device=torch.device(kind))
        return
    own = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if kind == "cuda" else torch.device(kind)
    if own.type == "cuda":
        torch.cuda.set_device(own)
    distributed.init_process_group("nccl" if own.type == "cuda" else "gloo", timeout=_TIMEOUT)
    processes = Processes(distributed.get_rank(), distributed.get_world_size(), own)
    try:
        yield processes
        processes.wait()
    finally:
        distributed.destroy_process_group()
