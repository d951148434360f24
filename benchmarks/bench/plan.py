"""The measured half of a plan for several processes: seconds of a step of one process over its classes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from bench.contestants import Size
from bench.machine import device_name
from hypersphere.distributed import Group
from hypersphere.heads import Cost, Forecast, create_head, forecast

PLANNED = {"CosFace": "cosface", "SphereFace2": "sphereface2"}
"""The losses of a plan, by the names they are shown with."""
WARM_UP = 2
_MOST_PRODUCTS = 1e11


def forecast_for(name: str, size: Size, processes: int, rate: Cost, network: Cost) -> Forecast:
    """Return the forecast for a problem of this size."""
    sizes = {"rows": size.rows, "dim": size.dim, "num_classes": size.classes}
    return forecast(name, **sizes, processes=processes, rate=rate, network=network, gpu=size.gpu)


def describe_plan(size: Size) -> str:
    """Return what is planned, in words."""
    rows = f"{size.rows} x {size.dim} embeddings in all"
    return f"{size.classes:,} classes, {rows}, float32 prototypes with gradient and momentum."


def describe_measured(size: Size) -> str:
    """Return what is measured for a plan, in words."""
    return (
        f"Measured here: seconds of one process ({device_name(size.device)}"
        f"{'' if size.gpu else f', {size.threads} threads'}), as a straight line over its classes."
    )


def measure_rate(name: str, size: Size, report: Callable[[int, int], None]) -> Cost:
    """Seconds of a step of one process over its number of classes, from two sizes that are quickly done."""
    torch.set_num_threads(size.threads)
    most = min(size.classes, 1_000_000 if size.gpu else max(64, int(_MOST_PRODUCTS / (6 * size.rows * size.dim))))
    sizes = max(2, most // 4), max(3, most)
    found = []
    for classes in sizes:
        found.append(statistics.median(seconds_of_steps(name, replace(size, classes=classes))))
        report(len(found), len(sizes))
    return Cost.through(sizes[0], found[0], sizes[1], found[1])


def seconds_of_steps(name: str, size: Size, *, shard: Group | None = None, steps: int = 5) -> list[float]:
    """Forward and backward on one process, or on this one of several."""
    torch.manual_seed(0)
    where: dict[str, Any] = {"precision": "bfloat16" if size.gpu else None, "device": size.device, "shard": shard}
    head = create_head(name, dim=size.dim, num_classes=size.classes, validate=False, **where)
    x = torch.randn(size.rows, size.dim, device=size.device, requires_grad=True)
    labels = torch.randint(size.classes, (size.rows,), device=size.device)
    times = []
    for step in range(steps + WARM_UP):
        head.weight.grad = x.grad = None
        if size.gpu:
            torch.cuda.synchronize()
        started = time.perf_counter()
        head(x, labels).backward()
        if size.gpu:
            torch.cuda.synchronize()
        if step >= WARM_UP:
            times.append(time.perf_counter() - started)
    return times
