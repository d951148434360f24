"""Checkpoints that survive a crash: written whole, verified by digest, the last few and the best kept."""

from __future__ import annotations

import hashlib
import io
import json
import math
import pickle
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hypersphere.core.files import write_atomically
from hypersphere.training.shards import check_shards

_NAME = re.compile(r"step-(\d{9})\.pt")


class Checkpoints:
    """The checkpoints of one run.

    Each is a file `step-000000123.pt` (read with `weights_only=True`) and a `.json` beside it with its digest, without
    which it does not count. A run with sharded classes has them in a folder `step-000000123.shards` besides.

    Args:
        folder: where they lie; made when the first is saved.
        keep: how many of the newest to keep; the best is kept besides.
    """

    def __init__(self, folder: str | Path, keep: int = 3) -> None:
        if keep < 1:
            raise ValueError(f"keep={keep} must be at least 1")
        self.folder = Path(folder)
        self.keep = keep

    def save(self, step: int, state: dict[str, Any], score: float | None = None) -> Path:
        """Write the state after `step` steps; `score` (higher is better) decides which one is the best."""
        buffer = io.BytesIO()
        torch.save(state, buffer)
        data = buffer.getvalue()
        path = self._path(step)
        self.folder.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".json").unlink(missing_ok=True)
        write_atomically(path, data)
        about = {"step": step, "score": score, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        write_atomically(path.with_suffix(".json"), json.dumps(about).encode())
        self._prune()
        return path

    def shards(self, step: int) -> Path:
        """The folder for what has a row per class; to be written before `save`."""
        return self._path(step).with_suffix(".shards")

    def steps(self) -> list[int]:
        """The steps of all complete checkpoints, oldest first."""
        found = (_NAME.fullmatch(path.name) for path in self.folder.glob("step-*.pt"))
        return sorted(int(match[1]) for match in found if match and self._about(int(match[1])) is not None)

    def best(self) -> int | None:
        """The step with the highest score."""
        scored = [
            (about["score"], step)
            for step in self.steps()
            if (about := self._about(step)) and about["score"] is not None and math.isfinite(about["score"])
        ]
        return max(scored)[1] if scored else None

    def load(self, step: int) -> dict[str, Any]:
        """The state after `step` steps, verified by its digest."""
        path, about = self._path(step), self._about(step)
        if about is None:
            raise ValueError(f"{path}: no complete checkpoint; there are {self.steps() or 'none'}")
        data = path.read_bytes()
        if len(data) != about["bytes"] or hashlib.sha256(data).hexdigest() != about["sha256"]:
            raise ValueError(f"{path}: damaged ({len(data)} bytes, digest differs from its .json)")
        state: dict[str, Any] = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        return state

    def load_newest(self, *, sharded: bool = False) -> tuple[int, dict[str, Any]] | None:
        """The newest undamaged checkpoint, None if there is none; damaged ones are passed over with a warning.

        Args:
            sharded: look at its folder of shards too.
        """
        found, damaged = None, []
        for step in reversed(self.steps()):
            try:
                if sharded:
                    check_shards(self.shards(step))
                found = step, self.load(step)
                break
            except (ValueError, OSError) as error:
                damaged.append(str(error))
        if damaged:
            instead = "there is no other" if found is None else f"the one of step {found[0]} is taken instead"
            warnings.warn(f"{'; '.join(damaged)}; {instead}", RuntimeWarning, stacklevel=2)
        return found

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:09d}.pt"

    def _about(self, step: int) -> dict[str, Any] | None:
        try:
            about: dict[str, Any] = json.loads(self._path(step).with_suffix(".json").read_text())
        except (OSError, json.JSONDecodeError):
            return None
        return about if {"step", "score", "bytes", "sha256"} <= set(about) else None

    def _prune(self) -> None:
        steps = self.steps()
        kept = {*steps[-self.keep :], self.best()}
        for step in steps:
            if step not in kept:
                self._path(step).with_suffix(".json").unlink(missing_ok=True)
                self._path(step).unlink(missing_ok=True)
        for folder in self.folder.glob("*.shards"):
            if folder.stem not in {self._path(step).stem for step in kept if step is not None}:
                shutil.rmtree(folder, ignore_errors=True)


class Snapshots:
    """Weights of the network at its last few steps, each in a file of its own, for scores averaged over them.

    NormFace (sec. 4.1) trains 5,000 steps beyond convergence and averages the scores of five, one every 1,000 steps.

    Args:
        folder: where they go.
        total: steps of the run; the last snapshot is its end.
        count: how many.
        every: steps between two.
    """

    def __init__(self, folder: Path, total: int, count: int, every: int) -> None:
        self.folder = folder
        self.steps = [step for step in (total - every * back for back in reversed(range(count))) if step > 0]

    def due(self, step: int) -> bool:
        """Whether one is to be taken after this step."""
        return step in self.steps

    def save(self, step: int, network: nn.Module) -> None:
        """Write the weights."""
        self.folder.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        torch.save(network.state_dict(), buffer)
        write_atomically(self._path(step), buffer.getvalue())

    def paths(self) -> tuple[Path, ...]:
        """Those that are there, oldest first."""
        return tuple(path for path in map(self._path, self.steps) if path.exists())

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:09d}.pt"


def load_weights(path: str | Path) -> dict[str, torch.Tensor]:
    """The weights of a network from a file of `torch.save`, read with `weights_only=True`."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError) as error:
        raise ValueError(f"{path}: no file of weights ({str(error).splitlines()[0]})") from None
    if not isinstance(weights, dict) or not all(isinstance(value, torch.Tensor) for value in weights.values()):
        raise ValueError(f"{path}: expected the weights of a network by name, a state dict")
    return weights
