"""Rows of measurements: who measured, and a file that they are appended to."""

from __future__ import annotations

import csv
import platform
from pathlib import Path
from typing import Any

import torch

from hypersphere.core import check_choice, choose_device


def measured_device(name: str | None) -> str:
    """The device that --device names, or the best there is: heads are timed on the CPU and on the first GPU."""
    return check_choice("--device", choose_device(name), ("cpu", "cuda"))


def device_name(device: str) -> str:
    """The model of the GPU, or of the processor."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "CPU"


def append_row(path: Path, row: dict[str, Any]) -> None:
    """Add a row to a CSV file, with a header if it is new; a file with other columns is refused."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8", newline="") as file:
        file.seek(0)
        header = next(csv.reader(file), None)
        if header is not None and header != list(row):
            raise ValueError(f"{path}: its columns are {header}, not {list(row)}; name another file")
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if header is None:
            writer.writeheader()
        writer.writerow(row)
