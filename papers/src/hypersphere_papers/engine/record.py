"""Records: what is kept of a run, a few kilobytes in one file."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hypersphere.core import parse_json, whole_file
from hypersphere.data import read_npz

_NOTES = "notes.json"


@dataclass(frozen=True, eq=False)
class Record:
    """One run.

    Args:
        title: of the setting that asked for it first.
        seed: of the run.
        seconds: training and measuring.
        machine: that trained it.
        stopped: why training ended early (a collapse, a loss that is no number); then nothing was measured.
        numbers: by name.
        arrays: by name: decisions by pair or probe, histograms, features.
        steps: of the optimizer in the last stage, for a recipe that states epochs instead.
    """

    title: str
    seed: int
    seconds: float
    machine: str = ""
    stopped: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    arrays: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    steps: int = 0


def record_path(cache: Path, key: str) -> Path:
    """Where the record of a run is."""
    return cache / "records" / f"{key}.npz"


def write_record(cache: Path, key: str, record: Record) -> None:
    """Write it whole or not at all."""
    notes = {
        "key": key,
        "title": record.title,
        "seed": record.seed,
        "seconds": round(record.seconds, 2),
        "machine": record.machine,
        "stopped": record.stopped,
        "numbers": {name: float(value) for name, value in record.numbers.items() if math.isfinite(value)},
    }
    arrays: dict[str, Any] = {_NOTES: np.frombuffer(json.dumps(notes).encode(), dtype=np.uint8), **record.arrays}
    with whole_file(record_path(cache, key)) as partial:
        np.savez_compressed(partial, **arrays)


def read_record(cache: Path, key: str) -> Record | None:
    """The record of a run; None where there is none."""
    path = record_path(cache, key)
    if not path.is_file():
        return None
    try:
        arrays = read_npz(path)
        notes = parse_json(arrays.pop(_NOTES).tobytes(), _NOTES)
        if notes.pop("key", key) != key:
            raise ValueError("it is the record of another run")
        return Record(arrays=arrays, **notes)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: no readable record ({error}); delete it to run it again") from None


def describe_machine() -> str:
    """Processor, cores and system; the GPU, where there is one."""
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        processor = names[0] if names else processor
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{processor}, {os.cpu_count()} cores{gpu}, {platform.system()}"
