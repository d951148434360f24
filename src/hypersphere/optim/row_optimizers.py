"""SGD and AdamW that move some rows of a matrix and leave the others alone, with all that is remembered of them.

The gradient of a sampled head's prototypes is sparse: the rows that took part, and nothing for the others. A row with
none is frozen: weight, momentum, averages and its number of steps stay as they are, and no decay touches it.
Everything else (a network's weights, a head that samples nothing) is left to the torch optimizer of the same name, but
for SGD of very many rows on a GPU, where our kernel is faster, and of sharded rows, which torch's fused step refuses.
One optimizer has both, so that a gradient scaler skips the step of all of them or of none.

State is one row per class, like the weight, so that it is sharded and saved like it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, distributed, nn

from hypersphere.core import check_positive
from hypersphere.distributed import is_sharded, to_local
from hypersphere.optim.row_steps import AdamState, adamw_rows, sgd_rows

_MANY_ROWS = 2**18
RowStep = Callable[[dict[str, Any], Tensor, Tensor], bool]


class RowSGD(torch.optim.SGD):
    """`torch.optim.SGD` for sampled rows: v <- momentum v + g + decay w, w <- w - lr v, where there is a gradient.

    On a CUDA device the rows' step is one Triton kernel, and so is that of a quarter million rows with dense gradients.

    Args:
        params: parameters or groups.
        lr: learning rate.
        momentum, weight_decay: as of `torch.optim.SGD`.
        unit_eps: for groups whose gradients are those of the unit vectors w / sqrt(||w||^2 + eps): the step takes them
            through the normalisation (NormFace eq. 4) in the same pass. None where gradients are those of the weight,
            which is what heads give unless made with `unit_gradients=True`.
        fused: torch's own fused step for dense gradients.

    Example:
        >>> head = hs.create_head("arcface", dim=512, num_classes=100_000, sample=0.1)
        >>> optimizer = RowSGD([*net.parameters(), *head.parameters()], lr=0.1, momentum=0.9, weight_decay=5e-4)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        unit_eps: float | None = None,
        fused: bool | None = None,
    ) -> None:
        self._unit_eps = None if unit_eps is None else check_positive("unit_eps", unit_eps)
        super().__init__(params, lr, momentum, weight_decay=weight_decay, fused=fused)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        param_group.setdefault("unit_eps", self._unit_eps)
        super().add_param_group(param_group)
        _check_unit(self, param_group["unit_eps"] is not None)

    def _init_group(self, group: dict[str, Any], *lists: list[Any]) -> bool:
        others = _without_rows(group, self._step_rows)
        return bool(super()._init_group(others, *lists))  # type: ignore[no-untyped-call]

    def steps_as_torch(self) -> bool:
        """Whether torch steps every parameter, as long as gradients are dense: then a rate may be a tensor."""
        return all(
            group["unit_eps"] is None and not any(is_sharded(each) or _many_rows(each) for each in group["params"])
            for group in self.param_groups
        )

    def _step_rows(self, group: dict[str, Any], weight: Tensor, grad: Tensor) -> bool:
        plain = not grad.is_sparse and group["unit_eps"] is None
        if plain and not is_sharded(weight) and not _many_rows(weight):
            return False
        state = self.state[weight]
        if group["momentum"] and state.get("momentum_buffer") is None:
            state["momentum_buffer"] = torch.zeros_like(weight)
        buffer = state["momentum_buffer"] if group["momentum"] else None
        index, values = rows_of(grad)
        sgd_rows(
            _local(weight),
            _unscaled(self, values),
            None if buffer is None else _local(buffer),
            index,
            lr=float(group["lr"]),
            momentum=group["momentum"],
            weight_decay=group["weight_decay"],
            unit_eps=group["unit_eps"],
            found_inf=getattr(self, "found_inf", None),
        )
        return True


class RowAdamW(torch.optim.AdamW):
    """`torch.optim.AdamW` for sampled rows, each with its own number of steps.

    Counted so, a row's path is AdamW of the gradients it has had. With a common count, the first step of a row that is
    first seen late would be (1 - beta1) / sqrt(1 - beta2) times too large, 3.2 times by default. Dense gradients before
    or after sparse ones count for every row.

    Args:
        params: parameters or groups.
        lr, betas, eps, weight_decay: as of `torch.optim.AdamW`.
        fused: torch's own fused step for dense gradients.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, fused=fused)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        _check_unit(self, False)

    def _init_group(self, group: dict[str, Any], *lists: list[Any]) -> bool:
        others = _without_rows(group, self._step_rows)
        return bool(super()._init_group(others, *lists))  # type: ignore[no-untyped-call]

    def _step_rows(self, group: dict[str, Any], weight: Tensor, grad: Tensor) -> bool:
        state = self.state[weight]
        if not grad.is_sparse and (not state or state["step"].dim() == 0):
            return False
        if not state:
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
        if state.get("step") is None or state["step"].dim() == 0:  # dense gradients have one count for all rows
            done = float(state.get("step", 0.0))
            state["step"] = torch.full_like(_first_column(weight), done, dtype=torch.float32)
        if state["step"].device != weight.device:  # a state that was read from a file
            state["step"] = state["step"].to(weight.device)
        index, values = rows_of(grad)
        adamw_rows(
            _local(weight),
            _unscaled(self, values),
            AdamState(*(_local(state[name]) for name in ("exp_avg", "exp_avg_sq", "step"))),
            index,
            lr=float(group["lr"]),
            betas=group["betas"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            found_inf=getattr(self, "found_inf", None),
        )
        return True


def _check_unit(optimizer: torch.optim.Optimizer, unit: bool) -> None:
    """Refuse the newest group if its gradients are not what they are taken for, as far as their tensors say it."""
    for weight in optimizer.param_groups[-1]["params"]:
        told = getattr(weight, "unit_gradients", weight.dim() == 2 and unit)
        if told != unit:
            del optimizer.param_groups[-1]
            if told:
                raise ValueError("a head with unit_gradients=True needs RowSGD with unit_eps=head.eps for its weight")
            raise ValueError(
                f"unit_eps is set for a parameter of shape {tuple(weight.shape)}, whose gradient is its own: set it in"
                ' a group {"params": [head.weight], "unit_eps": head.eps} of a head with unit_gradients=True'
            )


def rows_of(grad: Tensor) -> tuple[Tensor | None, Tensor]:
    """The rows that have a gradient, each once, and the gradient there; None and itself of a dense one."""
    if not grad.is_sparse:
        return None, _local(grad)
    grad = grad.coalesce()
    return grad.indices()[0], grad.values()


@torch.no_grad()
def clip_grad_norm_(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """`torch.nn.utils.clip_grad_norm_` that takes sparse gradients, and those of sharded prototypes, too.

    Returns the norm before. Rows of other processes count; these must call it as well.
    """
    given = [parameter for parameter in parameters if parameter.grad is not None]
    if not any(
        is_sharded(parameter) or (parameter.grad is not None and parameter.grad.is_sparse) for parameter in given
    ):
        return nn.utils.clip_grad_norm_(given, max_norm)
    everywhere: list[Tensor] = []
    here: list[Tensor] = []
    group = None
    for parameter in given:
        assert parameter.grad is not None
        if parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
        values = rows_of(parameter.grad)[1]
        (here if is_sharded(parameter) else everywhere).append(values)
        mesh = getattr(parameter, "device_mesh", None)
        group = group if mesh is None else mesh.get_group()
    total = nn.utils.get_total_norm(everywhere if group is not None else everywhere + here)
    if group is not None:
        shards = nn.utils.get_total_norm(here).square()
        distributed.all_reduce(shards, group=group)
        total = (total.to(shards.device).square() + shards).sqrt()
    factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for values in everywhere + here:
        values.mul_(factor.to(values.device))
    return total


def _without_rows(group: dict[str, Any], step: RowStep) -> dict[str, Any]:
    """Step the parameters of a group that are stepped by rows; return the group with the others, for torch's step.

    `_init_group` is where torch's optimizers choose the parameters of a group that have a gradient.
    """
    others = [weight for weight in group["params"] if weight.grad is None or not step(group, weight, weight.grad)]
    return {**group, "params": others}


def _unscaled(optimizer: torch.optim.Optimizer, grad: Tensor) -> Tensor:
    """The gradient, divided by the scale that a gradient scaler has left for the step to take off."""
    scale = getattr(optimizer, "grad_scale", None)
    return grad if scale is None else grad / scale.to(grad.dtype)


def _first_column(weight: Tensor) -> Tensor:
    weight = weight.detach()
    while weight.dim() > 1:
        weight = weight.select(-1, 0)
    return weight


def _local(tensor: Tensor) -> Tensor:
    """The rows of a tensor that this process holds: all but for a sharded one."""
    return to_local(tensor).detach()


def _many_rows(weight: Tensor) -> bool:
    """Whether the kernel beats torch's fused step on dense gradients: by 15 % at a million rows, not at 85,742."""
    return weight.device.type == "cuda" and weight.dim() == 2 and len(_local(weight)) >= _MANY_ROWS
