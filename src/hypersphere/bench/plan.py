"""What sharing the classes over P processes will cost, from one process measured here and a network that is assumed."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from hypersphere.bench.contestants import Size
from hypersphere.bench.machine import device_name
from hypersphere.core import check_finite_number, check_integer, check_positive
from hypersphere.distributed import Group
from hypersphere.heads import create_head
from hypersphere.heads.communication import step_collectives

PLANNED = {"CosFace": "cosface", "SphereFace2": "sphereface2"}
"""The losses of a plan, by the names they are shown with."""
WARM_UP = 2
_MOST_PRODUCTS = 1e11


@dataclass(frozen=True)
class Cost:
    """Seconds (or anything) as a straight line: fixed + slope x."""

    fixed: float
    slope: float

    def __call__(self, x: float) -> float:
        return self.fixed + self.slope * x

    @classmethod
    def through(cls, x1: float, y1: float, x2: float, y2: float) -> Cost:
        """Through two points; never with a negative part, which noise may give."""
        slope = max(0.0, (y2 - y1) / (x2 - x1))
        return cls(max(0.0, y1 - slope * x1), slope)


@dataclass(frozen=True)
class Forecast:
    """One loss on P processes: what each of them computes, sends and holds in a step."""

    processes: int
    compute: float
    exchange: float
    sent: float
    memory: float

    @property
    def seconds(self) -> float:
        """Nothing of the exchange is hidden."""
        return self.compute + self.exchange


def forecast(name: str, size: Size, processes: int, rate: Cost, network: Cost) -> Forecast:
    """What each of P processes does: all rows against ceil(C / P) classes, and the loss's collectives.

    Args:
        name: of the loss.
        size: of the whole problem.
        processes: P.
        rate: seconds of one process over its number of classes.
        network: seconds of a collective over the bytes that a process sends in it.
    """
    share = -(-size.classes // processes)
    sent = step_collectives(name, rows=size.rows, dim=size.dim, processes=processes) if processes > 1 else []
    parameters = 3 * 4 * share * size.dim
    working = share * (2 * size.dim + 2 * size.rows) if size.gpu else 3 * 4 * 2**20
    return Forecast(
        processes,
        rate(share),
        sum(network(one.bytes) for one in sent),
        sum(one.bytes for one in sent),
        parameters + working + 2 * 4 * size.rows * size.dim,
    )


def network_cost(bandwidth: float, latency: float) -> Cost:
    """Return seconds over bytes of a network that sends so many GB/s, after so many microseconds."""
    check_positive("--bandwidth", bandwidth)
    if check_finite_number("--latency", latency) < 0:
        raise ValueError(f"--latency={latency:g} must be at least 0")
    return Cost(latency * 1e-6, 1e-9 / bandwidth)


def describe_plan(size: Size) -> str:
    """Return what is planned, and what is measured for it, in words."""
    return (
        f"{size.classes:,} classes, {size.rows} x {size.dim} embeddings in all, float32 prototypes with gradient and"
        f" momentum.\nMeasured here: seconds of one process ({device_name(size.device)}"
        f"{'' if size.gpu else f', {size.threads} threads'}), as a straight line over its classes."
    )


def forecast_table(title: str, rows: int, rate: Cost, forecasts: Sequence[Forecast]) -> str:
    """Return the forecasts of one loss as the lines of a table."""
    lines = [
        f"\n{title}: {1e3 * rate.fixed:.2f} ms + {1e9 * rate.slope:.3f} ms a million classes, forward + backward",
        f"{'':29}{'milliseconds':>30}{'of a process':>20}",
        f"{'processes':>9}{'images/s':>11}{'speed-up':>9}{'step':>10}"
        f"{'computing':>11}{'exchange':>9}{'sent':>9}{'memory':>11}",
    ]
    for own in forecasts:
        faster = forecasts[0].seconds / own.seconds
        lines.append(
            f"{own.processes:9} {rows / own.seconds:10,.0f} {faster:8.2f} {1e3 * own.seconds:9.2f}"
            f" {1e3 * own.compute:10.2f} {1e3 * own.exchange:8.3f} {own.sent / 1e6:5.1f} MB"
            f" {own.memory / 2**30:6.2f} GiB"
        )
    return "\n".join(lines)


def process_counts(rows: int, processes: int) -> list[int]:
    """Return 1, 2, 4 .. P, where each process has as many of the rows."""
    if rows % check_integer("--plan's P", processes, 1):
        raise ValueError(f"--plan's N={rows} must be a multiple of P={processes}: each process has as many rows")
    counts = sorted({*itertools.takewhile(lambda p: p <= processes, (2**k for k in range(40))), processes})
    return [count for count in counts if rows % count == 0]


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
