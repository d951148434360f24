"""Images a second of whole training steps: reading JPEG files, augmentation, network, head and optimizer."""

from __future__ import annotations

import datetime as dt
import os
import platform
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.machine import device_name
from hypersphere import __version__
from hypersphere.core import build, check_choice, check_integer
from hypersphere.data import ImageSource, Indices, Labels, open_source, write_records
from hypersphere.distributed import World, default_workers, join_world
from hypersphere.pocket import PocketFaces
from hypersphere.training import Recipe, Trainer

_IDENTITIES, _IMAGES = 64, 16
_KINDS = ("flip", "shift", "rotate", "zoom", "crop", "low_resolution", "photometric", "grey", "erase")
AUGMENTS = {"all": dict.fromkeys(_KINDS, 0.5), "flip": {"flip": 0.5}}
"""What may be done to the images: every kind of change, each to half of them, or flips alone."""


@dataclass(frozen=True, kw_only=True)
class TrainingBench:
    """How training steps are measured.

    Args:
        batch_size: images a step.
        size: height and width of the images.
        classes: of the head, CosFace.
        steps: measured, after `warmup` more.
        warmup: steps before the clock starts.
        precision: float32, bfloat16 or float16.
        workers: processes that load images; the device's usual number by default.
        compile: whether the network is handed to torch.compile.
        augment: one of `AUGMENTS`.
    """

    batch_size: int
    size: int
    classes: int
    steps: int
    warmup: int
    precision: str
    workers: int | None
    compile: bool
    augment: str

    def __post_init__(self) -> None:
        for name, least in (("batch_size", 1), ("steps", 1), ("warmup", 1), ("classes", 2)):
            check_integer(f"--{name.replace('_', '-')}", getattr(self, name), least)
        if self.workers is not None:
            check_integer("--workers", self.workers, 0)
        check_choice("--augment", self.augment, AUGMENTS)
        if "WORLD_SIZE" in os.environ:
            raise ValueError("bench train measures one process: start it without torchrun")

    def describe(self, device: str) -> str:
        """Return what is measured in a sentence."""
        workers = default_workers(torch.device(device)) if self.workers is None else self.workers
        return (
            f"whole training steps on {device_name(device)}: {self.size}x{self.size} JPEG files,"
            f" {'every kind of augmentation' if self.augment == 'all' else 'flips alone'}, batch {self.batch_size},"
            f" {self.precision}, CosFace with {self.classes:,} classes, {workers} loading processes,"
            f" {'compiled' if self.compile else 'not compiled'}"
        )

    def rows(self, backbones: Sequence[str], device: str | None) -> Iterator[dict[str, Any]]:
        """Measure each backbone; yields a row for a table."""
        with join_world(device) as world, tempfile.TemporaryDirectory() as place:
            faces = Path(place) / "faces.rec"
            write_records(PocketFaces(_IDENTITIES, _IMAGES, self.size), faces, quality=95)
            images = self.batch_size * (self.warmup + self.steps)
            source = Crowd(open_source(str(faces)), images, self.classes)
            for name in backbones:
                yield self._measure(name, source, Path(place) / name, world)

    def _measure(self, name: str, source: ImageSource, folder: Path, world: World) -> dict[str, Any]:
        """Train a network for some steps, and time those after the warm-up."""
        steps, gpu = self.warmup + self.steps, world.device.type == "cuda"
        workers = default_workers(world.device) if self.workers is None else self.workers
        recipe = measured_recipe(name, self.size, self.augment, steps, self.batch_size, self.precision)
        trainer = Trainer(recipe, folder, world=world, source=source, workers=workers, compile=self.compile)
        clock = StepClock(trainer, (self.warmup, steps))
        if gpu:
            torch.cuda.reset_peak_memory_stats()
        trainer.run(clock, until=steps)
        (began, waited), (ended, waited_then) = clock.marks
        seconds = ended - began
        peak = torch.cuda.max_memory_allocated() / 2**30 if gpu else 0.0
        return {
            "date_utc": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "backbone": name,
            "batch": self.batch_size,
            "size": self.size,
            "classes": self.classes,
            "precision": self.precision,
            "compiled": self.compile,
            "augment": self.augment,
            "workers": workers,
            "images_per_s": round(self.steps * self.batch_size / seconds, 1),
            "ms": round(1000 * seconds / self.steps, 2),
            "waiting": round((waited_then - waited) / seconds, 4),
            "gpu_gib": round(peak, 2),
            "torch": torch.__version__,
            "hypersphere": __version__,
            "python": platform.python_version(),
            "device": device_name(world.device.type),
        }


def measured_recipe(
    backbone: str, size: int, augment: str, steps: int, batch_size: int, precision: str, **train: Any
) -> Recipe:
    """Return the recipe of a run of which `steps` are timed: CosFace, without a log or a checkpoint in between."""
    table = {
        "data": {"source": "unused", "size": [size, size]},
        "augment": AUGMENTS[augment],
        "backbone": {"name": backbone, "dim": 512},
        "head": {"name": "cosface"},
        "optimizer": {"lr": 0.001},
        "train": {
            "steps": steps + 1,
            "batch_size": batch_size,
            "precision": precision,
            "log_every": steps + 1,
            "checkpoint_every": steps + 1,
            **train,
        },
    }
    return build(Recipe, table)


class Crowd:
    """The images of a source over and over, in many more classes: the reading is real, the identities are not."""

    def __init__(self, source: ImageSource, images: int, num_classes: int) -> None:
        self.source, self.num_classes = source, num_classes
        self.labels: Labels = np.arange(images) % num_classes

    def __len__(self) -> int:
        return len(self.labels)

    def read(self, index: int) -> Any:
        return self.source.read(index % len(self.source))

    def describe(self, index: int) -> str:
        return self.source.describe(index % len(self.source))

    def batch(self, indices: Indices) -> Tensor:
        return self.source.batch(np.asarray(indices) % len(self.source))


class StepClock:
    """Notes the time, and the time spent waiting, after some steps of a run."""

    def __init__(self, trainer: Trainer, steps: tuple[int, ...]) -> None:
        self.trainer, self.steps = trainer, steps
        self.marks: list[tuple[float, float]] = []

    def begin(self, done: int) -> None:
        pass

    def __call__(self, done: int, total: int, note: str = "") -> None:
        if done in self.steps:
            if self.trainer.world.device.type == "cuda":
                torch.cuda.synchronize()
            self.marks.append((time.monotonic(), self.trainer.take_step.waited))
