"""`hypersphere bench`: images a second of the whole training step, by backbone; heads (bench_head)."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.cli.bench_rows import append_row, device_name
from hypersphere.cli.output import Results, note
from hypersphere.core import check_integer
from hypersphere.core.config import build
from hypersphere.data import open_source, write_records
from hypersphere.data.source import ImageSource, Indices, Labels
from hypersphere.distributed import World, default_workers, join_world
from hypersphere.pocket import PocketFaces
from hypersphere.training import Recipe, Trainer
from hypersphere.version import __version__

_IDENTITIES, _IMAGES = 64, 16


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


def run_train(options: argparse.Namespace) -> Results:
    """Measure each backbone and print a line for it."""
    for name, least in (("batch_size", 1), ("steps", 1), ("warmup", 1), ("classes", 2)):
        check_integer(f"--{name.replace('_', '-')}", getattr(options, name), least)
    if options.workers is not None:
        check_integer("--workers", options.workers, 0)
    if "WORLD_SIZE" in os.environ:
        raise ValueError("bench train measures one process: start it without torchrun")
    with join_world(options.device) as world, tempfile.TemporaryDirectory() as place:
        device = device_name(world.device.type)
        if options.workers is None:
            options.workers = default_workers(world.device)
        what = (
            f"whole training steps on {device}: {options.size}x{options.size} JPEG files, batch {options.batch_size},"
            f" {options.precision}, CosFace with {options.classes:,} classes, {options.workers} loading processes,"
            f" {'compiled' if options.compile else 'not compiled'}"
        )
        note(f"{textwrap.fill(what, 79)}\n")
        print(
            f"{'backbone':<14}{'images/s':>10}{'ms a step':>11}{'waiting for data':>18}{'GPU memory':>12}", flush=True
        )
        faces = Path(place) / "faces.rec"
        write_records(PocketFaces(_IDENTITIES, _IMAGES, options.size), faces, quality=95)
        steps = options.warmup + options.steps
        source = Crowd(open_source(str(faces)), options.batch_size * steps, options.classes)
        rows = []
        for name in options.backbones.split(","):
            row = measure(name, source, Path(place) / name, world, options)
            memory = f"{row['gpu_gib']:.1f} GiB" if row["gpu_gib"] else "-"
            speed = f"{row['images_per_s']:>10,.0f}{row['ms']:>11.1f}{row['waiting']:>18.1%}"
            print(f"{name:<14}{speed}{memory:>12}", flush=True)
            rows.append({**row, "device": device})
            if options.csv is not None:
                append_row(options.csv, rows[-1])
    return Results({"rows": rows})


def measure(name: str, source: ImageSource, folder: Path, world: World, options: argparse.Namespace) -> dict[str, Any]:
    """Train a network for some steps, and time those after the warm-up."""
    steps = options.warmup + options.steps
    table = {
        "data": {"source": "unused", "size": [options.size, options.size]},
        "augment": {"flip": 0.5},
        "backbone": {"name": name, "dim": 512},
        "head": {"name": "cosface"},
        "optimizer": {"lr": 0.001},
        "train": {
            "steps": steps + 1,
            "batch_size": options.batch_size,
            "precision": options.precision,
            "log_every": steps + 1,
            "checkpoint_every": steps + 1,
        },
    }
    recipe = build(Recipe, table)
    trainer = Trainer(recipe, folder, world=world, source=source, workers=options.workers, compile=options.compile)
    clock = _Clock(trainer, (options.warmup, steps))
    if world.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    trainer.run(clock, until=steps)
    (began, waited), (ended, waited_then) = clock.marks
    seconds = ended - began
    peak = torch.cuda.max_memory_allocated() / 2**30 if world.device.type == "cuda" else 0.0
    return {
        "date_utc": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "backbone": name,
        "batch": options.batch_size,
        "size": options.size,
        "classes": options.classes,
        "precision": options.precision,
        "compiled": options.compile,
        "workers": options.workers,
        "images_per_s": round(options.steps * options.batch_size / seconds, 1),
        "ms": round(1000 * seconds / options.steps, 2),
        "waiting": round((waited_then - waited) / seconds, 4),
        "gpu_gib": round(peak, 2),
        "torch": torch.__version__,
        "hypersphere": __version__,
        "python": platform.python_version(),
    }


class _Clock:
    """Notes the time, and the time spent waiting, after some steps of a run."""

    def __init__(self, trainer: Trainer, steps: tuple[int, ...]) -> None:
        self.trainer, self.steps = trainer, steps
        self.marks: list[tuple[float, float]] = []

    def begin(self, done: int) -> None:
        pass

    def __call__(self, done: int, total: int, note: str = "") -> None:
        if done in self.steps:
            if self.trainer.device.type == "cuda":
                torch.cuda.synchronize()
            self.marks.append((time.monotonic(), self.trainer.waited))
