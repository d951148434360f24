"""The state of a head and its optimizer in two parts: what has a row per class, and the small rest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from hypersphere.distributed import is_sharded
from hypersphere.distributed.tensor_shards import check_shards, load_shards, save_shards, shapes_of_shards
from hypersphere.heads import Head


def save_state(folder: str | Path, head: Head, optimizer: Optimizer) -> None:
    """Write prototypes, other per-class parameters, and what the optimizer keeps for them; all processes call it.

    Any number of processes reads it with `load_state`. The rest of the state is `replicated_state`.
    """
    save_shards(folder, _tensors(head, optimizer), _group(head))


def load_state(folder: str | Path, head: Head, optimizer: Optimizer, *, verify: bool = True) -> None:
    """Read what `save_state` wrote, on any number of processes; all of them call it.

    The optimizer's replicated state must have been loaded before: that clears what it kept.

    Args:
        folder: of `save_state`.
        head, optimizer: what to fill.
        verify: compare digests first, unless `check_shards` has just done it.
    """
    folder = Path(folder)
    if verify:
        check_shards(folder)
    parameters, kept = head.per_class(), []
    for name, (shape, dtype) in shapes_of_shards(folder).items():
        kind, _, rest = name.partition(".")
        owner, _, key = rest.rpartition(".") if kind == "optimizer" else (rest, "", "")
        if kind not in ("head", "optimizer") or owner not in parameters:
            raise ValueError(f"{folder}: {name!r} belongs to no parameter of this head ({', '.join(parameters)})")
        if shape[:1] != parameters[owner].shape[:1]:
            raise ValueError(f"{folder}: {name!r} has {shape[0]} classes, this head {len(parameters[owner])}")
        if kind == "optimizer":
            kept.append((parameters[owner], key, shape, dtype))
    for parameter, key, shape, dtype in kept:
        optimizer.state[parameter][key] = _empty(head, parameter, shape, dtype)
    load_shards(folder, _tensors(head, optimizer), _group(head), verify=False)


def replicated_state(head: Head, optimizer: Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the state dicts of head and optimizer without what `save_state` writes."""
    per_class = head.per_class()
    of_head = {name: value for name, value in head.state_dict().items() if name not in per_class}
    of_optimizer = optimizer.state_dict()
    places = {id(p): place for place, p in enumerate(p for group in optimizer.param_groups for p in group["params"])}
    for parameter in per_class.values():
        state = of_optimizer["state"].get(places.get(id(parameter)))
        if state is not None:
            of_optimizer["state"][places[id(parameter)]] = {
                key: value for key, value in state.items() if not _has_rows(value)
            }
    return of_head, of_optimizer


def load_replicated_state(
    head: Head, optimizer: Optimizer, of_head: Mapping[str, Tensor], of_optimizer: Mapping[str, Any]
) -> None:
    """Take up what `replicated_state` gave."""
    own = {name: value for name, value in head.state_dict().items() if name in head.per_class()}
    head.load_state_dict({**own, **of_head})
    optimizer.load_state_dict(dict(of_optimizer))


def _tensors(head: Head, optimizer: Optimizer) -> dict[str, Tensor]:
    parameters = head.per_class()
    found = {f"head.{name}": value.detach() for name, value in parameters.items()}
    for name, parameter in parameters.items():
        for key, value in optimizer.state.get(parameter, {}).items():
            if _has_rows(value):
                found[f"optimizer.{name}.{key}"] = _joined(head, value)
    return found


def _has_rows(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0


def _joined(head: Head, value: Tensor) -> Tensor:
    """Return a state of the optimizer as a DTensor: it may keep plain tensors for the rows of this rank."""
    return value if head.sharding is None or is_sharded(value) else head.sharding.to_dtensor(value)


def _empty(head: Head, like: Tensor, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    if head.sharding is None:
        return torch.empty(shape, dtype=dtype, device=like.device)
    rows = head.sharding.counts[head.sharding.group.rank]
    return head.sharding.to_dtensor(torch.empty((rows, *shape[1:]), dtype=dtype, device=like.device))


def _group(head: Head) -> Any:
    return None if head.sharding is None or head.sharding.mesh is None else head.sharding.mesh.get_group()
