"""`hypersphere bench head --plan C N d P`: what sharing the classes over P processes will cost, and a check of that."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed
from torch.multiprocessing.spawn import start_processes

from hypersphere.cli.bench_rows import device_name, measured_device
from hypersphere.cli.output import Results
from hypersphere.core import Progress, check_finite_number, check_integer, check_positive, read_json
from hypersphere.distributed import Group
from hypersphere.engines import Precision
from hypersphere.heads import create_head
from hypersphere.heads.communication import ring_bytes, step_collectives

LOSSES = {"CosFace": "cosface", "SphereFace2": "sphereface2"}
_MOST_PRODUCTS = 1e11
_CHECK = {"classes": 24_000, "rows": 240, "dim": 256}
_CHECK_STEPS, _WARM_UP = 12, 2


@dataclass(frozen=True)
class Line:
    """Seconds (or anything) as a straight line: fixed + slope x."""

    fixed: float
    slope: float

    def __call__(self, x: float) -> float:
        return self.fixed + self.slope * x

    @classmethod
    def through(cls, x1: float, y1: float, x2: float, y2: float) -> Line:
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


def run_plan(options: argparse.Namespace) -> Results:
    """Print the forecast for 1, 2, 4 .. P processes and, with --check, compare with processes started here."""
    classes, rows, dim, processes = (
        check_integer(f"--plan's {name}", value, least)
        for name, value, least in zip(("C", "N", "d", "P"), options.plan, (2, 1, 1, 1), strict=True)
    )
    if rows % processes:
        raise ValueError(f"--plan's N={rows} must be a multiple of P={processes}: each process has as many rows")
    check_positive("--bandwidth", options.bandwidth)
    if check_finite_number("--latency", options.latency) < 0:
        raise ValueError(f"--latency={options.latency:g} must be at least 0")
    device = measured_device(options.device)
    torch.set_num_threads(check_integer("--threads", options.threads, 1))
    print(
        f"{classes:,} classes, {rows} x {dim} embeddings in all, float32 prototypes with gradient and momentum.\n"
        f"Measured here: seconds of one process ({device_name(device)}"
        f"{'' if device == 'cuda' else f', {options.threads} threads'}), as a straight line over its classes.\n"
        f"Assumed: each process sends {options.bandwidth:g} GB/s, {options.latency:g} microseconds for a collective to"
        f" begin (--bandwidth, --latency)."
    )
    network = Line(options.latency * 1e-6, 1e-9 / options.bandwidth)
    counts = sorted({*itertools.takewhile(lambda p: p <= processes, (2**k for k in range(40))), processes})
    counts = [count for count in counts if rows % count == 0]
    forecasts: dict[str, list[Forecast]] = {title: [] for title in LOSSES}
    for title, name in LOSSES.items():
        rate = measure_rate(name, rows, dim, classes, device)
        print(f"\n{title}: {1e3 * rate.fixed:.2f} ms + {1e9 * rate.slope:.3f} ms a million classes, forward + backward")
        print(f"{'':29}{'milliseconds':>30}{'of a process':>20}")
        print(f"{'processes':>9}{'images/s':>11}{'speed-up':>9}{'step':>10}", end="")
        print(f"{'computing':>11}{'exchange':>9}{'sent':>9}{'memory':>11}")
        first: Forecast | None = None
        for count in counts:
            own = forecast(name, classes, rows, dim, count, rate, network, gpu=device == "cuda")
            first = first or own
            forecasts[title].append(own)
            print(
                f"{count:9}{rows / own.seconds:11,.0f}{first.seconds / own.seconds:9.2f}{1e3 * own.seconds:10.2f}"
                f"{1e3 * own.compute:11.2f}{1e3 * own.exchange:9.3f}{own.sent / 1e6:6.1f} MB"
                f"{own.memory / 2**30:7.2f} GiB",
                flush=True,
            )
    if options.check:
        check()
    return Results({"classes": classes, "rows": rows, "dim": dim, "forecasts": forecasts})


def forecast(
    name: str, classes: int, rows: int, dim: int, processes: int, rate: Line, network: Line, *, gpu: bool
) -> Forecast:
    """What each of P processes does: all rows against ceil(C / P) classes, and the loss's collectives."""
    share = -(-classes // processes)
    sent = step_collectives(name, rows=rows, dim=dim, processes=processes) if processes > 1 else []
    parameters = 3 * 4 * share * dim
    working = share * (2 * dim + 2 * rows) if gpu else 3 * 4 * 2**20
    return Forecast(
        processes,
        rate(share),
        sum(network(one.bytes) for one in sent),
        sum(one.bytes for one in sent),
        parameters + working + 2 * 4 * rows * dim,
    )


def measure_rate(name: str, rows: int, dim: int, classes: int, device: str) -> Line:
    """Seconds of a step of one process over its number of classes, from two sizes that are quickly done."""
    most = min(classes, 1_000_000 if device == "cuda" else max(64, int(_MOST_PRODUCTS / (6 * rows * dim))))
    sizes = max(2, most // 4), max(3, most)
    with Progress(f"measuring {name}", "sizes") as report:
        found = []
        for size in sizes:
            found.append(statistics.median(seconds_of_steps(name, rows, dim, size, device)))
            report(len(found), len(sizes))
    return Line.through(sizes[0], found[0], sizes[1], found[1])


def seconds_of_steps(
    name: str, rows: int, dim: int, classes: int, device: str, *, shard: Group | None = None, steps: int = 5
) -> list[float]:
    """Forward and backward on one process, or on this one of several."""
    torch.manual_seed(0)
    precision: Precision | None = "bfloat16" if device == "cuda" else None
    head = create_head(name, dim=dim, num_classes=classes, precision=precision, device=device, shard=shard)
    head.checked = False
    x = torch.randn(rows, dim, device=device, requires_grad=True)
    labels = torch.randint(classes, (rows,), device=device)
    times = []
    for step in range(steps + _WARM_UP):
        head.weight.grad = x.grad = None
        if device == "cuda":
            torch.cuda.synchronize()
        started = time.perf_counter()
        head(x, labels).backward()
        if device == "cuda":
            torch.cuda.synchronize()
        if step >= _WARM_UP:
            times.append(time.perf_counter() - started)
    return times


class Counted(Group):
    """The collectives of a group, with the bytes that each process sends in a ring."""

    sent = 0.0

    def all_gather(self, mine: Tensor) -> Tensor:
        self.sent += ring_bytes("all-gather", self.size, mine.nbytes)
        return super().all_gather(mine)

    def all_reduce(self, mine: Tensor) -> Tensor:
        self.sent += ring_bytes("all-reduce", self.size, mine.nbytes)
        return super().all_reduce(mine)

    def reduce_scatter(self, parts: Tensor) -> Tensor:
        self.sent += ring_bytes("reduce-scatter", self.size, parts.nbytes)
        return super().reduce_scatter(parts)


def check() -> None:
    """Start 1 to 4 gloo processes of one thread each, and compare bytes and seconds with the forecast.

    The forecast's rate is that of the one process, with all classes and with a quarter of them, slowed down where there
    are fewer cores than processes; its network is measured between the processes with small and large messages.
    """
    classes, rows, dim = _CHECK["classes"], _CHECK["rows"], _CHECK["dim"]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    print(f"\nCheck against gloo processes here, {cores} cores: {classes:,} classes, {rows} x {dim}, one thread each")
    print(f"{'':14}{'processes':>10}{'sent: plan':>14}{'counted':>12}{'ms: plan':>11}{'measured':>10}{'ratio':>7}")
    rates: dict[str, Line] = {}
    for count in range(1, 5):
        found = measure_processes(count)
        if count == 1:
            rates = {
                name: Line.through(classes // 4, found[f"{name}, a quarter"][1], classes, found[name][1])
                for name in LOSSES.values()
            }
        network = Line.through(*found["network"]) if count > 1 else Line(0.0, 0.0)
        for title, name in LOSSES.items():
            plan = forecast(name, classes, rows, dim, count, rates[name], network, gpu=False)
            seconds = plan.compute * max(1.0, count / cores) + plan.exchange
            sent, measured = found[name]
            ratio = measured / seconds
            print(
                f"{title:14}{count:10}{plan.sent / 1e3:11.1f} kB{sent / 1e3:9.1f} kB{1e3 * seconds:11.2f}"
                f"{1e3 * measured:10.2f}{ratio:7.2f}",
                flush=True,
            )
            if abs(sent - plan.sent) > 0.5:
                raise ValueError(f"{name} on {count} processes sent {sent:.0f} bytes, planned were {plan.sent:.0f}")


def measure_processes(count: int) -> dict[str, Any]:
    """By loss, bytes and the slowest process's median seconds of a step; `network`: two points of bytes and seconds."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        start_processes(_work, (count, folder), nprocs=count)  # type: ignore[no-untyped-call]
        found = [read_json(Path(folder) / f"{rank}.json") for rank in range(count)]
    slowest: dict[str, Any] = {"network": found[0]["network"]}
    for name in found[0].keys() - slowest.keys():
        slowest[name] = found[0][name][0], max(own[name][1] for own in found)
    return slowest


def _work(rank: int, count: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=count)
    world = distributed.group.WORLD
    assert world is not None
    group = Counted(world)
    found: dict[str, Any] = {}
    rows, dim, classes, steps = _CHECK["rows"] // count, _CHECK["dim"], _CHECK["classes"], _CHECK_STEPS
    for name in LOSSES.values():
        group.sent = 0.0
        distributed.barrier()
        times = seconds_of_steps(name, rows, dim, classes, "cpu", shard=group, steps=steps)
        found[name] = group.sent / (steps + _WARM_UP), statistics.median(times)
        if count == 1:
            times = seconds_of_steps(name, rows, dim, classes // 4, "cpu", shard=group, steps=steps)
            found[f"{name}, a quarter"] = 0.0, statistics.median(times)
    found["network"] = _two_messages(group)
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


def _two_messages(group: Counted) -> list[float]:
    """Bytes sent and seconds of an all-gather, for a small and a large one."""
    points: list[float] = []
    for numbers in (64, 2**18):
        message, times = torch.zeros(numbers), []
        for _ in range(9):
            started = time.perf_counter()
            group.all_gather(message)
            times.append(time.perf_counter() - started)
        points += [max(1, group.size - 1) * message.nbytes, statistics.median(times)]
    return points
