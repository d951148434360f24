"""The machine that is measured: its name, the memory of a process, and the file that rows are appended to."""

from __future__ import annotations

import csv
import platform
import resource
import sys
from pathlib import Path
from typing import Any

import torch

from hypersphere.core import check_choice, choose_device


def choose_measured_device(name: str | None) -> str:
    """The device that --device names, or the best there is: heads are timed on the CPU and on the first GPU."""
    return check_choice("--device", choose_device(name), ("cpu", "cuda"))


def device_name(device: str) -> str:
    """The model of the GPU, or of the processor."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name()
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "CPU"


def append_row(path: str | Path, row: dict[str, Any]) -> None:
    """Add a row to a CSV file, with a header if it is new; a file with other columns is refused."""
    path = Path(path)
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


def resident_bytes() -> int:
    """Memory that this process holds now; the most it ever held where the system does not say."""
    return _status("VmRSS") or peak_bytes()


def peak_bytes() -> int:
    """The most memory this process ever held; what its parent held counts where the system does not say more."""
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(key: str) -> int | None:
    path = Path("/proc/self/status")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{key}:")), None)
