"""Checkpoints that survive a crash: written whole, verified by digest, the last few and the best kept."""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hypersphere.core import bytes_digest, digest, file_digest, read_json, write_atomically
from hypersphere.distributed.tensor_shards import check_shards, shards_digest
from hypersphere.models import check_directory, open_safetensors, read_torch_file
from hypersphere.models.torch_file import check_dense, check_finite

_SIDE_LIMIT = 2**16
_NAME = re.compile(r"step-(\d{9,18})\.(?:pt|json)")


class Checkpoints:
    """The checkpoints of one run.

    Each is a file `step-000000123.pt` (read with `weights_only=True`) and a `.json` beside it with its digest, without
    which it does not count. A run with sharded classes has them in a folder `step-000000123.shards` besides. The three
    are bound to each other and to their step: the `.pt` and the `.json` name the step, and the `.json` the digests of
    the `.pt`, of the shards and of itself.

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
        torch.save({**state, "step": step}, buffer)
        data = buffer.getvalue()
        path, shards = self._path(step), self.shards(step)
        self._side(step).unlink(missing_ok=True)
        write_atomically(path, data)
        about = {
            "step": step,
            "score": None if score is None or not math.isfinite(score) else score,
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "shards": shards_digest(shards) if shards.is_dir() else None,
        }
        self._write_side(step, about)
        self._prune(step)
        return path

    def forget_scores(self) -> None:
        """Let no checkpoint be the best: a run that goes on without choosing one must not end with an old choice."""
        for step in self.steps():
            about = self._about(step)
            if not isinstance(about, str) and about["score"] is not None:
                self._write_side(step, {**about, "score": None})

    def _write_side(self, step: int, about: dict[str, Any]) -> None:
        write_atomically(self._side(step), json.dumps({**about, "digest": digest(about)}).encode())

    def shards(self, step: int) -> Path:
        """Return the folder for what has a row per class; to be written before `save`."""
        return self._path(step).with_suffix(".shards")

    def steps(self) -> list[int]:
        """Return the steps of all complete checkpoints, oldest first."""
        return [step for step in self._named() if not isinstance(self._about(step), str)]

    def best(self) -> int | None:
        """Return the step with the highest score; a checkpoint that cannot be looked at is named in a warning."""
        scored, left_out = [], []
        for step in self._named():
            about = self._about(step)
            if not isinstance(about, str):
                scored += [(about["score"], step)] if about["score"] is not None else []
            elif self._side(step).exists():
                left_out.append(about)
        if left_out:
            warnings.warn(f"{'; '.join(left_out)}; the best is one of the others", RuntimeWarning, stacklevel=2)
        return max(scored)[1] if scored else None

    def load(self, step: int) -> dict[str, Any]:
        """Return the state after `step` steps, verified: its digest, its step, and that its shards are its own."""
        path, about = self._path(step), self._about(step)
        if isinstance(about, str):
            there = f"; there are {self.steps() or 'none'}" if step not in self._named() else ""
            raise ValueError(f"{about}{there}")
        data = path.read_bytes()
        if len(data) != about["bytes"] or hashlib.sha256(data).hexdigest() != about["sha256"]:
            raise ValueError(f"{path}: damaged ({len(data)} bytes, digest differs from its .json)")
        shards = self.shards(step)
        if (shards_digest(shards) if shards.is_dir() else None) != about["shards"]:
            raise ValueError(f"{shards}: not the shards of this checkpoint (their digest differs from its .json)")
        try:
            check_directory(io.BytesIO(data))
            state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        except Exception as error:
            raise ValueError(f"{path}: not readable ({error})") from None
        if not isinstance(state, dict) or state.get("step") != step:
            raise ValueError(f"{path}: its state is not that of step {step}")
        return state

    def load_newest(self, *, sharded: bool = False) -> tuple[int, dict[str, Any]] | None:
        """Return the newest undamaged checkpoint, None if there is none; damaged ones are passed over with a warning.

        Args:
            sharded: look at its folder of shards too.
        """
        found, damaged = None, []
        for step in reversed(self._named()):
            try:
                found = step, self.load(step)
                if sharded:
                    check_shards(self.shards(step))
                break
            except (ValueError, OSError) as error:
                found = None
                damaged.append(str(error))
        if damaged:
            instead = "there is no other" if found is None else f"the one of step {found[0]} is taken instead"
            warnings.warn(f"{'; '.join(damaged)}; {instead}", RuntimeWarning, stacklevel=2)
        return found

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:09d}.pt"

    def _side(self, step: int) -> Path:
        return self._path(step).with_suffix(".json")

    def _named(self) -> list[int]:
        """Return the steps of all files, complete or not, oldest first."""
        return sorted({int(match[1]) for path in self.folder.glob("step-*") if (match := _NAME.fullmatch(path.name))})

    def _about(self, step: int) -> dict[str, Any] | str:
        """Return what the `.json` says; or, where the checkpoint does not count, why."""
        path, side = self._path(step), self._side(step)
        if not side.exists():
            return f"{path}: no complete checkpoint (its .json is missing)"
        try:
            about = read_json(side, limit=_SIDE_LIMIT)
        except ValueError as error:
            return f"{path}: damaged ({error})"
        if not isinstance(about, dict) or about.pop("digest", None) != digest(about):
            return f"{path}: damaged ({side}: its content differs from its own digest)"
        if about.get("step") != step:
            return f"{path}: not of this step ({side} is of step {about.get('step')})"
        return about if path.exists() else f"{path}: missing (its .json is there)"

    def _prune(self, newest: int) -> None:
        """Remove the older ones; not those that are damaged, which somebody may want to look at."""
        steps = self.steps()
        kept = {*steps[-self.keep :], self.best()}
        for step in self._named():
            if step < newest and step not in kept and (step in steps or not self._side(step).exists()):
                self._side(step).unlink(missing_ok=True)
                self._path(step).unlink(missing_ok=True)
        left = {self._path(step).stem for step in self._named()}
        for folder in self.folder.glob("*.shards"):
            if folder.stem not in left:
                shutil.rmtree(folder, ignore_errors=True)


class Snapshots:
    """Weights of the network at its last few steps, each in a file of its own, for scores averaged over them.

    NormFace (sec. 4.1) trains 5,000 steps beyond convergence and averages the scores of five, one every 1,000 steps.

    Args:
        folder: where they go.
        total: steps of the run; the last snapshot is its end.
        count: how many.
        every: steps between two.

    Attributes:
        digests: by step, of the files; a checkpoint has them, for the run that goes on from it.
    """

    def __init__(self, folder: Path, total: int, count: int, every: int) -> None:
        self.folder = folder
        self.digests: dict[int, str] = {}
        count = min(count, (total - 1) // every + 1)
        self.steps = range(total - every * (count - 1), total + 1, every)

    def due(self, step: int) -> bool:
        """Return whether one is to be taken after this step."""
        return step in self.steps

    def save(self, step: int, network: nn.Module) -> None:
        """Write the weights."""
        buffer = io.BytesIO()
        torch.save(network.state_dict(), buffer)
        write_atomically(self._path(step), buffer.getvalue())
        self.digests[step] = bytes_digest(buffer.getvalue())

    def check(self) -> None:
        """Raise ValueError unless the files of the steps that were done are those that were written."""
        for step, digest_then in self.digests.items():
            path = self._path(step)
            if not path.is_file() or file_digest(path) != digest_then:
                raise ValueError(
                    f"{path}: missing or damaged, and the run is beyond its step: remove {self.folder.parent} to train "
                    "anew"
                )

    def paths(self) -> tuple[Path, ...]:
        """Return those that are there, oldest first."""
        return tuple(path for path in map(self._path, self.steps) if path.exists())

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:09d}.pt"


def load_weights(path: str | Path) -> dict[str, torch.Tensor]:
    """Return the weights of a network from a model file, or one of `torch.save`, read with `weights_only=True`."""
    safe = Path(path).suffix == ".safetensors"
    weights = open_safetensors(Path(path))[1] if safe else read_torch_file(path)
    if not isinstance(weights, dict) or not all(isinstance(value, torch.Tensor) for value in weights.values()):
        raise ValueError(f"{path}: expected the weights of a network by name, a state dict")
    for name, value in weights.items():
        check_dense(str(name), value, Path(path))
        check_finite(str(name), value, Path(path))
    return weights
