"""The processes of a run: one by default, those of torchrun where it started us."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

from hypersphere.core import Failure, choose_device, hold_folder
from hypersphere.distributed import local_rows

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

    def agree(self, number: int) -> bool:
        """Whether all processes have the same number."""
        return not self.any(int(self.sum(torch.tensor(number, device=self.device))) != number * self.size)

    def any(self, mine: bool) -> bool:
        """Whether it is true of any process."""
        return bool(self.sum(torch.tensor(int(mine), device=self.device)))

    @contextmanager
    def hold(self, folder: Path) -> Iterator[None]:
        """Hold a folder (`hold_folder`) in the first process; where it cannot be had, all processes are refused."""
        cause = None
        with ExitStack() as stack:
            try:
                if self.first:
                    stack.enter_context(hold_folder(folder))
            except Failure as failure:
                cause = failure
            if self.any(cause is not None):
                raise cause or Failure(f"{folder} is in use, as the first process says")
            yield

    def wait(self) -> None:
        """Go on when all have come here."""
        self.any(False)


class LossScaler(ShardedGradScaler):
    """Scales the loss under float16: an overflow in one process is one in all. Takes sharded gradients too."""

    def _unscale_grads_(
        self, optimizer: torch.optim.Optimizer, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool = True
    ) -> dict[torch.device, Tensor]:
        """Torch's, on the rows of this process: it mixes no sharded gradients with whole ones."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        local: Any = SimpleNamespace(param_groups=[{"params": [_with_local_gradient(p) for p in parameters]}])
        return super()._unscale_grads_(local, inv_scale, found_inf, allow_fp16)


def _with_local_gradient(parameter: Tensor) -> Any:
    if parameter.grad is None or not hasattr(parameter.grad, "to_local"):
        return parameter
    return SimpleNamespace(grad=local_rows(parameter.grad))


def default_workers(device: torch.device) -> int:
    """How many processes load images: none beside a CPU that trains, up to 8 beside a GPU."""
    return min(8, os.cpu_count() or 1) if device.type == "cuda" else 0


@contextmanager
def join_processes(device: str | None = None) -> Iterator[Processes]:
    """The processes that torchrun started together; this one alone without it.

    Args:
        device: `cpu`, `cuda` or `mps`; by default `cuda` where there is one. Each process takes a GPU of its own.
    """
    kind = choose_device(device)
    if "WORLD_SIZE" not in os.environ:
        yield Processes(device=torch.device(kind))
        return
    if kind == "mps":
        raise ValueError("device='mps': several processes work on cpu or cuda; leave torchrun out")
    own = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if kind == "cuda" else torch.device(kind)
    if own.type == "cuda":
        torch.cuda.set_device(own)
    distributed.init_process_group("cpu:gloo,cuda:nccl" if own.type == "cuda" else "gloo", timeout=_TIMEOUT)
    processes = Processes(distributed.get_rank(), distributed.get_world_size(), own)
    try:
        yield processes
        processes.wait()
    finally:
        distributed.destroy_process_group()
