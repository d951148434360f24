"""The world of a run: one process by default, those of torchrun where it started us."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import torch
from torch import Tensor, distributed

from hypersphere.core import Failure, choose_device, hold_folder

_TIMEOUT = timedelta(hours=2)


@dataclass(frozen=True)
class World:
    """The processes that train together, and this one's place among them.

    Args:
        rank: the number of this process, from 0.
        size: how many processes there are.
        device: what this process computes on.
    """

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files."""
        return self.rank == 0

    def all_reduce(self, value: Tensor) -> Tensor:
        """Return the sum over all processes."""
        if self.size > 1:
            value = value.clone()
            distributed.all_reduce(value)
        return value

    def all_reduce_mean_(self, gradients: list[Tensor]) -> None:
        """Replace each tensor by its mean over all processes."""
        if self.size == 1:
            return
        for gradient in gradients:
            distributed.all_reduce(gradient)
            gradient.div_(self.size)

    def agree(self, number: int) -> bool:
        """Say whether all processes have the same number."""
        return not self.any(int(self.all_reduce(torch.tensor(number, device=self.device))) != number * self.size)

    def any(self, local: bool) -> bool:
        """Say whether it is true of any process."""
        return bool(self.all_reduce(torch.tensor(int(local), device=self.device)))

    @contextmanager
    def hold(self, folder: Path) -> Iterator[None]:
        """Hold a folder (`hold_folder`) in the main process; refuse all processes where it cannot be had."""
        cause = None
        with ExitStack() as stack:
            try:
                if self.is_main:
                    stack.enter_context(hold_folder(folder))
            except Failure as failure:
                cause = failure
            if self.any(cause is not None):
                raise cause or Failure(f"{folder} is in use, as the main process says")
            yield

    def barrier(self) -> None:
        """Wait until all processes have come here."""
        self.any(False)


def default_workers(device: torch.device) -> int:
    """Return how many processes load images: none beside a CPU that trains, up to 8 beside a GPU."""
    return min(8, os.cpu_count() or 1) if device.type == "cuda" else 0


@contextmanager
def join_world(device: str | None = None) -> Iterator[World]:
    """Join the processes that torchrun started together; without it, this process is alone.

    Args:
        device: `cpu`, `cuda` or `mps`; by default `cuda` where there is one. Each process takes a GPU of its own.
    """
    kind = choose_device(device)
    if "WORLD_SIZE" not in os.environ:
        yield World(device=torch.device(kind))
        return
    if kind == "mps":
        raise ValueError("device='mps': several processes work on cpu or cuda; leave torchrun out")
    own = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if kind == "cuda" else torch.device(kind)
    if own.type == "cuda":
        torch.cuda.set_device(own)
    distributed.init_process_group("cpu:gloo,cuda:nccl" if own.type == "cuda" else "gloo", timeout=_TIMEOUT)
    world = World(distributed.get_rank(), distributed.get_world_size(), own)
    try:
        yield world
        world.barrier()
    finally:
        distributed.destroy_process_group()
