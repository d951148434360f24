"""The plan's check: bytes and seconds of 1 to 4 gloo processes started here, beside the forecast."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed
from torch.multiprocessing.spawn import start_processes

from bench.contestants import Size
from bench.plan import PLANNED, WARM_UP, forecast_for, seconds_of_steps
from hypersphere.core import read_json
from hypersphere.distributed import Group
from hypersphere.heads import Cost, ring_bytes

CHECKED = Size(rows=240, dim=256, classes=24_000, device="cpu", threads=1)
_STEPS = 12


class Checked(NamedTuple):
    """One loss on P processes: bytes and seconds of a step, as planned and as they were."""

    loss: str
    processes: int
    planned_bytes: float
    sent_bytes: float
    planned_seconds: float
    measured_seconds: float


def core_count() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_plan() -> Iterator[Checked]:
    """Start 1 to 4 gloo processes of one thread each, and compare bytes and seconds with the forecast.

    The forecast's rate is that of the one process, with all classes and with a quarter of them, slowed down where there
    are fewer cores than processes; its network is measured between the processes with small and large messages.
    """
    classes = CHECKED.classes
    rates: dict[str, Cost] = {}
    for count in range(1, 5):
        found = measure_processes(count)
        for name in PLANNED.values() if count == 1 else ():
            rates[name] = Cost.through(classes // 4, found[f"{name}, a quarter"][1], classes, found[name][1])
        network = Cost.through(*found["network"]) if count > 1 else Cost(0.0, 0.0)
        for title, name in PLANNED.items():
            plan = forecast_for(name, CHECKED, count, rates[name], network)
            seconds = plan.compute * max(1.0, count / core_count()) + plan.exchange
            sent, measured = found[name]
            yield Checked(title, count, plan.sent, sent, seconds, measured)
            if abs(sent - plan.sent) > 0.5:
                raise ValueError(f"{name} on {count} processes sent {sent:.0f} bytes, planned were {plan.sent:.0f}")


def check_lines() -> Iterator[str]:
    """The lines of a table of `check_plan`."""
    shape = f"{CHECKED.classes:,} classes, {CHECKED.rows} x {CHECKED.dim}, one thread each"
    yield f"\nCheck against gloo processes here, {core_count()} cores: {shape}"
    yield f"{'':14}{'processes':>10}{'sent: plan':>14}{'counted':>12}{'ms: plan':>11}{'measured':>10}{'ratio':>7}"
    for one in check_plan():
        ratio = one.measured_seconds / one.planned_seconds
        yield (
            f"{one.loss:14}{one.processes:10}{one.planned_bytes / 1e3:11.1f} kB{one.sent_bytes / 1e3:9.1f} kB"
            f"{1e3 * one.planned_seconds:11.2f}{1e3 * one.measured_seconds:10.2f}{ratio:7.2f}"
        )


class _Counted(Group):
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
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=count)
    world = distributed.group.WORLD
    assert world is not None
    group = _Counted(world)
    found: dict[str, Any] = {}
    size = replace(CHECKED, rows=CHECKED.rows // count)
    for name in PLANNED.values():
        group.sent = 0.0
        distributed.barrier()
        times = seconds_of_steps(name, size, shard=group, steps=_STEPS)
        found[name] = group.sent / (_STEPS + WARM_UP), statistics.median(times)
        if count == 1:
            quarter = replace(size, classes=size.classes // 4)
            times = seconds_of_steps(name, quarter, shard=group, steps=_STEPS)
            found[f"{name}, a quarter"] = 0.0, statistics.median(times)
    found["network"] = _two_messages(group)
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


def _two_messages(group: Group) -> list[float]:
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
