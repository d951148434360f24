"""How many steps runs have, and about how long they will take."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from hypersphere.core import digest
from hypersphere.data import ImageSource, Subset
from hypersphere.distributed import World
from hypersphere.training import (
    Recipe,
    Task,
    Trainer,
    TrainingStopped,
    make_batches,
    same_first_stages,
    total_steps,
    training_source,
)

_WARMUP, _MEASURED = 3, 10
TRIED_STEPS = _WARMUP + _MEASURED
"""Trained to measure how long a step takes."""


class RunPlan:
    """The steps of runs, and about how long they take; a first stage that several share counts once.

    Args:
        tasks: the runs, by key.
    """

    def __init__(self, tasks: Mapping[str, Task]) -> None:
        self.tasks = tasks
        self._sources: dict[str, ImageSource] = {}
        firsts = same_first_stages([task.recipe for task in tasks.values()])
        self.steps = {
            key: sum(self._steps_of(task, stage) for stage in task.recipe.stages()[0 if first is None else 1 :])
            for (key, task), first in zip(tasks.items(), firsts, strict=True)
        }

    def _source(self, task: Task) -> ImageSource:
        name = digest(task.recipe.data)
        if name not in self._sources:
            own = task.source(task.recipe) if task.source is not None else None
            self._sources[name] = own or training_source(task.recipe.data)
        return self._sources[name]

    def _steps_of(self, task: Task, stage: Recipe) -> int:
        if stage.train.steps is not None:
            return stage.train.steps
        return total_steps(stage, make_batches(stage, self._source(task), World()))

    def seconds(self, known: Iterable[tuple[Recipe, float]], *, jobs: int, device: str) -> float:
        """Return about how long the runs take in `jobs` processes.

        Runs of the same network, image size and batch tell how long a step takes; where there are none, a few steps are
        trained and thrown away.

        Args:
            known: recipes of runs that were trained on this machine, and the seconds that a step took.
            jobs: processes that train at once.
            device: of all of them.
        """
        by_kind: dict[str, list[float]] = {}
        for recipe, seconds in known:
            by_kind.setdefault(_kind(recipe), []).append(seconds)
        total = 0.0
        for key, task in self.tasks.items():
            of_kind = by_kind.setdefault(_kind(task.recipe), [])
            if not of_kind:
                of_kind.append(self._tried(task, device))
            total += self.steps[key] * sum(of_kind) / len(of_kind)
        return total / max(1, min(jobs, len(self.tasks)))

    def _tried(self, task: Task, device: str) -> float:
        """Seconds a step, of a few on no more images than they need: all would have to be decoded."""
        source = self._source(task)
        count = min(len(source), TRIED_STEPS * task.recipe.train.batch_size)
        some = np.sort(np.random.default_rng(0).permutation(len(source))[:count])
        return seconds_a_step(task.recipe, Subset(source, some), device)


def _kind(recipe: Recipe) -> str:
    """What decides how long a step takes."""
    return digest({"backbone": recipe.backbone, "size": recipe.data.size, "batch": recipe.train.batch_size})


class _Clock:
    """Notes the time of every step."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def begin(self, done: int) -> None:
        self.times.append(time.monotonic())

    def __call__(self, done: int, total: int, note: str = "") -> None:
        self.times.append(time.monotonic())

    def seconds_a_step(self) -> float:
        """The mean after the warm-up."""
        first = min(_WARMUP, len(self.times) - 2)
        return (self.times[-1] - self.times[first]) / (len(self.times) - 1 - first)


def seconds_a_step(recipe: Recipe, source: ImageSource, device: str) -> float:
    """Train a few steps on images and throw them away; 0 for one that breaks or stops, which its training reports."""
    first = recipe.stages()[0]
    quiet = replace(first, train=replace(first.train, log_every=10**9, checkpoint_every=10**9))
    clock = _Clock()
    try:
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(quiet, Path(folder), source=source, world=World(device=torch.device(device)))
            trainer.run(clock, until=TRIED_STEPS)
    except (ValueError, TrainingStopped):
        return 0.0
    return clock.seconds_a_step()
