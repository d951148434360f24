"""The state of a run on disk: the recipe of its folder, and checkpoints that it goes on from bit for bit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

from hypersphere.core import as_table, digest, to_toml, write_atomically
from hypersphere.distributed import World
from hypersphere.training.build import sharded_head
from hypersphere.training.checkpoints import Checkpoints, Snapshots
from hypersphere.training.recipe import Recipe
from hypersphere.training.shard_state import load_replicated_state, load_state, replicated_state, save_state
from hypersphere.training.train_state import TrainState

_RECIPE = re.compile(rb"# recipe ([0-9a-f]{12})\n")


def resume(
    folder: Path, recipe: Recipe, world: World, checkpoints: Checkpoints, snapshots: Snapshots, state: TrainState
) -> None:
    """Continue from the newest checkpoint, or write down the recipe of a new run."""
    name = digest(recipe)
    newest = checkpoints.load_newest(sharded=sharded_head(recipe))
    if not world.agree(-1 if newest is None else newest[0]):
        raise ValueError(f"{folder}: the processes do not see the same checkpoints; they need one file system")
    if newest is None:
        if checkpoints.steps() and recipe.train.start is not None:
            raise ValueError(
                f"{checkpoints.folder}: none can be read; remove this folder to begin from train.start again"
            )
        _refuse_another_recipe(folder, world, name)
        if world.is_main:
            text = f"# recipe {name}\n{to_toml(as_table(recipe))}"
            write_atomically(folder / "recipe.toml", text.encode())
        return
    step, saved = newest
    if saved.get("recipe") != name:
        raise ValueError(_another(folder, saved.get("recipe"), name))
    try:
        _take_up(recipe, checkpoints.shards(step), snapshots, state, saved)
    except torch.OutOfMemoryError:
        raise
    except (LookupError, TypeError, AttributeError, RuntimeError, ValueError) as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(
            f"{checkpoints.folder}: the checkpoint of step {step} does not fit this recipe and version of hypersphere "
            f"({cause:.300}); remove it to go on from the one before, or {folder} to begin anew"
        ) from error
    snapshots.check()
    state.step = step


def _take_up(recipe: Recipe, shards: Path, snapshots: Snapshots, state: TrainState, saved: dict[str, Any]) -> None:
    """Load a checkpoint, and what has a row per class from its shards where the recipe shards the head."""
    snapshots.digests = dict(saved.get("snapshots", {}))
    state.backbone.load_state_dict(saved["backbone"])
    if sharded_head(recipe):
        load_replicated_state(state.head, state.optimizer, saved["head"], saved["optimizer"])
        load_state(shards, state.head, state.optimizer, verify=False)
    else:
        state.head.load_state_dict(saved["head"])
        state.optimizer.load_state_dict(saved["optimizer"])
    state.scaler.load_state_dict(saved["scaler"])
    state.batches.load_state_dict(saved["batches"])
    state.monitor.load_state_dict(saved["monitor"])
    for name, average in state.averages.items():
        average.module.load_state_dict(saved[name])


def save_sharded(recipe: Recipe, checkpoints: Checkpoints, state: TrainState) -> None:
    """Write what has a row per class, where the recipe shards it; every process calls this, before `save`."""
    if sharded_head(recipe):
        save_state(checkpoints.shards(state.step), state.head, state.optimizer)


def save(
    recipe: Recipe, checkpoints: Checkpoints, snapshots: Snapshots, state: TrainState, score: float | None
) -> None:
    """Write a checkpoint, in the main process alone; `score` decides which one is the best."""
    head: dict[str, Any]
    if sharded_head(recipe):
        head, optimizer = replicated_state(state.head, state.optimizer)
    else:
        head, optimizer = state.head.state_dict(), state.optimizer.state_dict()
    saved = {
        "recipe": digest(recipe),
        "backbone": state.backbone.state_dict(),
        "head": head,
        "optimizer": optimizer,
        "scaler": state.scaler.state_dict(),
        "batches": state.batches.state_dict(),
        "monitor": state.monitor.state_dict(),
        "average": None,
        "snapshots": snapshots.digests,
        **{name: average.module.state_dict() for name, average in state.averages.items()},
    }
    checkpoints.save(state.step, saved, score)


def _refuse_another_recipe(folder: Path, world: World, name: str) -> None:
    """Raise ValueError for a folder that holds a run of another recipe which has no checkpoint yet."""
    path = folder / "recipe.toml"
    there = _RECIPE.match(path.read_bytes()) if path.is_file() else None
    if world.any(there is not None and there[1].decode() != name):
        raise ValueError(_another(folder, there[1].decode() if there else "", name))


def _another(folder: Path, there: str | None, name: str) -> str:
    return f"{folder} holds a run of another recipe ({there}, not {name}): choose another folder"
