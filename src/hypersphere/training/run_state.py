"""The state of a run on disk: the recipe of its folder, and checkpoints that it goes on from bit for bit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from hypersphere.core import as_table, digest, to_toml, write_atomically
from hypersphere.training.shard_state import load_replicated_state, load_state, replicated_state, save_state

if TYPE_CHECKING:
    from hypersphere.training.trainer import Trainer

_RECIPE = re.compile(rb"# recipe ([0-9a-f]{12})\n")


def resume(trainer: Trainer) -> None:
    """Continue from the newest checkpoint, or write down the recipe of a new run."""
    name, folder, checkpoints = digest(trainer.recipe), trainer.folder, trainer.checkpoints
    found = checkpoints.load_newest(sharded=trainer.sharded)
    if not trainer.world.agree(-1 if found is None else found[0]):
        raise ValueError(f"{folder}: the processes do not see the same checkpoints; they need one file system")
    if found is None:
        if trainer.begun and trainer.recipe.train.start is not None:
            raise ValueError(
                f"{checkpoints.folder}: none can be read; remove this folder to begin from train.start again"
            )
        _refuse_another_recipe(trainer, name)
        if trainer.world.is_main:
            text = f"# recipe {name}\n{to_toml(as_table(trainer.recipe))}"
            write_atomically(folder / "recipe.toml", text.encode())
        return
    step, state = found
    if state.get("recipe") != name:
        raise ValueError(_another(folder, state.get("recipe"), name))
    try:
        _take_up(trainer, step, state)
    except torch.OutOfMemoryError:
        raise
    except (LookupError, TypeError, AttributeError, RuntimeError, ValueError) as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(
            f"{checkpoints.folder}: the checkpoint of step {step} does not fit this recipe and version of hypersphere "
            f"({cause:.300}); remove it to go on from the one before, or {folder} to begin anew"
        ) from error
    trainer.snapshots.check()
    trainer.step = step


def _take_up(trainer: Trainer, step: int, state: dict[str, Any]) -> None:
    """Load the state of a checkpoint into the parts of a trainer."""
    trainer.snapshots.digests = dict(state.get("snapshots", {}))
    trainer.backbone.load_state_dict(state["backbone"])
    if trainer.sharded:
        load_replicated_state(trainer.head, trainer.optimizer, state["head"], state["optimizer"])
        load_state(trainer.checkpoints.shards(step), trainer.head, trainer.optimizer, verify=False)
    else:
        trainer.head.load_state_dict(state["head"])
        trainer.optimizer.load_state_dict(state["optimizer"])
    trainer.scaler.load_state_dict(state["scaler"])
    trainer.images.batches.load_state_dict(state["batches"])
    trainer.monitor.load_state_dict(state["monitor"])
    for average, kept in trainer.averages.items():
        kept.module.load_state_dict(state[average])
    if trainer.whole_step is not None:
        trainer.whole_step.begin()


def save_sharded(trainer: Trainer) -> None:
    """Write what has a row per class, where the recipe shards it; every process calls this, before `save`."""
    if trainer.sharded:
        save_state(trainer.checkpoints.shards(trainer.step), trainer.head, trainer.optimizer)


def save(trainer: Trainer, score: float | None) -> None:
    """Write a checkpoint, in the main process alone; `score` decides which one is the best."""
    head: dict[str, Any]
    if trainer.sharded:
        head, optimizer = replicated_state(trainer.head, trainer.optimizer)
    else:
        head, optimizer = trainer.head.state_dict(), trainer.optimizer.state_dict()
    state = {
        "recipe": digest(trainer.recipe),
        "backbone": trainer.backbone.state_dict(),
        "head": head,
        "optimizer": optimizer,
        "scaler": trainer.scaler.state_dict(),
        "batches": trainer.images.batches.state_dict(),
        "monitor": trainer.monitor.state_dict(),
        "average": None,
        "snapshots": trainer.snapshots.digests,
        **{average: kept.module.state_dict() for average, kept in trainer.averages.items()},
    }
    trainer.checkpoints.save(trainer.step, state, score)


def _refuse_another_recipe(trainer: Trainer, name: str) -> None:
    """Raise ValueError for a folder that holds a run of another recipe which has no checkpoint yet."""
    path = trainer.folder / "recipe.toml"
    found = _RECIPE.match(path.read_bytes()) if path.is_file() else None
    if trainer.world.any(found is not None and found[1].decode() != name):
        raise ValueError(_another(trainer.folder, found[1].decode() if found else "", name))


def _another(folder: Path, there: str | None, name: str) -> str:
    return f"{folder} holds a run of another recipe ({there}, not {name}): choose another folder"
