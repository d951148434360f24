"""How long the runs of settings will take: from earlier runs of this machine, or from a few measured steps."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from hypersphere.core import digest
from hypersphere.data import ImageSource
from hypersphere.distributed import World
from hypersphere.training import Recipe, Trainer
from hypersphere_papers.engine.class_images import class_images
from hypersphere_papers.engine.record import Record, describe_machine, read_record
from hypersphere_papers.engine.setting import Setting, unique

_WARMUP, _MEASURED = 3, 10
TRIED_STEPS = _WARMUP + _MEASURED
"""Trained to measure how long a step takes."""


@dataclass(frozen=True)
class Plan:
    """What settings and seeds need.

    Args:
        runs: setting and seed by key.
        records: by key, of the runs that are in the cache.
    """

    runs: Mapping[str, tuple[Setting, int]]
    records: Mapping[str, Record]

    @property
    def left(self) -> dict[str, tuple[Setting, int]]:
        """The runs that have to be trained."""
        return {key: run for key, run in self.runs.items() if key not in self.records}

    @property
    def steps(self) -> int:
        """The optimizer steps of the runs that have to be trained."""
        return sum(steps_of(setting, seed) for setting, seed in self.left.values())


def plan_runs(settings: Iterable[Setting], seeds: Sequence[int], cache: Path) -> Plan:
    """Return the runs of all settings and seeds, each once, and the records that the cache has of them."""
    runs = unique(settings, seeds)
    return Plan(runs, {key: record for key in runs if (record := read_record(cache, key)) is not None})


def steps_of(setting: Setting, seed: int) -> int:
    """Return the optimizer steps of a run, of both stages where it has two."""
    steps = [stage.train.steps for stage in setting.recipe(seed).stages()]
    if None in steps:
        raise ValueError(f"{setting.title}: a setting states train.steps, not epochs")
    return sum(number for number in steps if number is not None)


def estimate_seconds(plan: Plan, cache: Path, *, jobs: int, device: str) -> float:
    """Return about how long the runs that are left will take in `jobs` processes.

    Earlier runs on this machine of the same network, image size and batch tell how long a step takes; where there are
    none, a few steps are trained and thrown away.

    Args:
        plan: what there is to train.
        cache: folder of decoded images.
        jobs: processes that train at once.
        device: of all of them.
    """
    here = describe_machine()
    trained = [(*plan.runs[key], record) for key, record in plan.records.items() if record.machine == here]
    told = [
        (setting.recipe(seed), record.seconds / steps_of(setting, seed))
        for setting, seed, record in trained
        if not record.stopped
    ]
    left = []
    for setting, seed in plan.left.values():
        recipe, images = setting.recipe(seed), partial(_images, setting, seed, cache)
        left.append((recipe, steps_of(setting, seed), partial(seconds_a_step, recipe, images, device)))
    return expected_seconds(told, left, jobs=jobs)


def _images(setting: Setting, seed: int, cache: Path) -> ImageSource:
    """What a run is trained on."""
    return class_images(setting.recipe(seed).data, cache / "images")[0]


def expected_seconds(
    told: Iterable[tuple[Recipe, float]],
    left: Sequence[tuple[Recipe, int, Callable[[], float]]],
    *,
    jobs: int,
) -> float:
    """Return about how long runs take in `jobs` processes.

    Args:
        told: recipes of runs that were trained on this machine, and the seconds that a step took.
        left: recipes of the runs, their steps, and what measures the seconds that a step takes: it is called once for
            a network, image size and batch that nothing tells of.
        jobs: processes that train at once.
    """
    seconds: dict[str, list[float]] = {}
    for recipe, each in told:
        seconds.setdefault(_kind(recipe), []).append(each)
    total = 0.0
    for recipe, steps, measure in left:
        of_kind = seconds.setdefault(_kind(recipe), [])
        if not of_kind:
            of_kind.append(measure())
        total += steps * sum(of_kind) / len(of_kind)
    return total / max(1, min(jobs, len(left)))


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


def seconds_a_step(recipe: Recipe, images: Callable[[], ImageSource], device: str) -> float:
    """Train a few steps on images and throw them away; 0 for a run that breaks, which its training reports."""
    source = images()
    first = recipe.stages()[0]
    quiet = replace(first, train=replace(first.train, log_every=10**9, checkpoint_every=10**9))
    clock = _Clock()
    try:
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(quiet, Path(folder), source=source, world=World(device=torch.device(device)))
            trainer.run(clock, until=TRIED_STEPS)
    except ValueError:
        return 0.0
    return clock.seconds_a_step()
