"""What a step of a head with few classes costs on a GPU: time, launches, host time and allocations.

    python benchmarks/head_steps.py --classes 10572 85742 --csv benchmarks/results/head_steps.csv

Each contestant runs alone: the median of bursts of ten steps, forward and backward to embeddings and prototypes, with
gradients set to None. Launches and allocations are counted over one step after five; host time is that of a step whose
work the device is not waited for.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import hypersphere as hs

HEADS: dict[str, dict[str, Any]] = {
    "arcface": {"scale": 64.0, "margin": 0.5},
    "cosface": {"scale": 64.0, "margin": 0.35},
    "normface": {"scale": 30.0, "learnable_scale": False},
    "sphereface2": {},
    "arcface sample=0.1": {"scale": 64.0, "margin": 0.5, "sample": 0.1},
    "arcface validated": {"scale": 64.0, "margin": 0.5, "validate": True},
    "arcface bfloat16 embeddings": {"scale": 64.0, "margin": 0.5},
}


class PlainArcFace(nn.Module):
    """ArcFace as it is usually written."""

    def __init__(self, classes: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, dim, device="cuda"))

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        cosines = nn.functional.linear(nn.functional.normalize(embeddings), nn.functional.normalize(self.weight))
        own = labels[:, None]
        angle = torch.arccos(cosines.gather(1, own).float().clamp(-1 + 1e-7, 1 - 1e-7))
        logits = cosines.scatter(1, own, torch.cos(angle + 0.5).to(cosines.dtype))
        return nn.functional.cross_entropy(64.0 * logits, labels)


def make_step(name: str, classes: int, rows: int, dim: int) -> Callable[[], None]:
    """A step of the contestant of this name."""
    torch.manual_seed(0)
    dtype = torch.bfloat16 if "bfloat16" in name else torch.float32
    embeddings = torch.randn(rows, dim, device="cuda", dtype=dtype, requires_grad=True)
    labels = torch.randint(classes, (rows,), device="cuda")
    plain = name.startswith("plain")
    if plain:
        loss: Any = torch.compile(module := PlainArcFace(classes, dim))
    else:
        options = {"validate": False, "precision": "bfloat16", **HEADS[name]}
        loss = module = hs.create_head(name.partition(" ")[0], dim=dim, num_classes=classes, device="cuda", **options)

    def step() -> None:
        module.zero_grad(set_to_none=True)
        embeddings.grad = None
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=plain):
            value = loss(embeddings, labels)
        value.backward()

    return step


def measure(step: Callable[[], None]) -> dict[str, float]:
    """Milliseconds of a step on the device and on the host, launches and allocations."""
    for _ in range(8):
        step()
    torch.cuda.synchronize()
    device, host = [], []
    for _ in range(9):
        time.sleep(0.02)
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        began = time.perf_counter()
        start.record()
        for _ in range(10):
            step()
        stop.record()
        host.append((time.perf_counter() - began) * 100)
        torch.cuda.synchronize()
        device.append(start.elapsed_time(stop) / 10)
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    step()
    allocations = torch.cuda.memory_stats()["allocation.all.allocated"] - before
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU], acc_events=True) as found:
        step()
        torch.cuda.synchronize()
    kernels = [event for event in found.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    busy = sum(event.device_time for event in kernels) / 1000
    low, median, high = statistics.quantiles(device, n=4)
    return {
        "ms": median,
        "low_ms": low,
        "high_ms": high,
        "host_ms": statistics.median(host),
        "busy_ms": busy,
        "launches": len(kernels),
        "allocations": allocations,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", type=int, nargs="+", default=[10_572, 85_742])
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--note", default="", help="what was measured, for the CSV: a commit, say")
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {options.rows} x {options.dim}")
    print(f"{'':30}{'classes':>9}{'ms':>8}{'host':>8}{'busy':>8}{'launches':>10}{'allocs':>8}")
    rows = []
    for classes in options.classes:
        for name in ("plain compiled", *HEADS):
            numbers = measure(make_step(name, classes, options.rows, options.dim))
            shown = "".join(f"{numbers[key]:8.3f}" for key in ("ms", "host_ms", "busy_ms"))
            print(f"{name:30}{classes:9,}{shown}{numbers['launches']:10.0f}{numbers['allocations']:8.0f}", flush=True)
            rows.append({
                "date_utc": datetime.now(UTC).isoformat(timespec="seconds"),
                "device": torch.cuda.get_device_name(),
                "torch": torch.__version__,
                "hypersphere": hs.__version__,
                "note": options.note,
                "rows": options.rows,
                "dim": options.dim,
                "classes": classes,
                "contestant": name,
                **{key: round(value, 4) for key, value in numbers.items()},
            })  # fmt: skip
    if options.csv:
        new = not options.csv.exists()
        with options.csv.open("a", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            if new:
                writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
