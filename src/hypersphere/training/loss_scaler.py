"""Loss scaling under float16. Torch's part of it takes a second to import: only what needs it imports this file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

from hypersphere.distributed import is_sharded, to_local


class LossScaler(ShardedGradScaler):
    """Scale the loss under float16, and skip the step on every rank if any rank overflowed.

    Sharded gradients and whole ones may stand beside each other.
    """

    def _unscale_grads_(
        self, optimizer: torch.optim.Optimizer, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool = True
    ) -> dict[torch.device, Tensor]:
        """Unscale as torch does, but the rows of this rank: torch's mixes no sharded gradients with whole ones."""
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        local: Any = SimpleNamespace(param_groups=[{"params": [_with_local_gradient(p) for p in parameters]}])
        return super()._unscale_grads_(local, inv_scale, found_inf, allow_fp16)


def _with_local_gradient(parameter: Tensor) -> Any:
    grad = parameter.grad
    return parameter if grad is None or not is_sharded(grad) else SimpleNamespace(grad=to_local(grad))
