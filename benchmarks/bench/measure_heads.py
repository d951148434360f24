"""Time and memory of heads side by side, forward and backward, over those of the three products they need."""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import importlib.util
import itertools
import math
import multiprocessing
import platform
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import torch

from bench.contestants import FLOOR, Size, Step, contestants, draw
from bench.machine import device_name, peak_bytes, resident_bytes
from hypersphere import __version__
from hypersphere.plots import Line, Panel, draw_panels

MIB = 2**20
Report = Callable[[int, int, str], None]
_HOT_SECONDS, _SLOW_MS = 0.7, 300.0
_PEERS = {"pytorch-metric-learning": "pytorch_metric_learning", "Liger": "liger_kernel", "CCE": "cut_cross_entropy"}


class Measured(NamedTuple):
    """Milliseconds of a step: median and quartiles of a burst, and when the device is hot; peak memory in MiB."""

    median: float
    low: float
    high: float
    hot: float
    memory: float


def measure_heads(size: Size, repeats: int, only: str | None, report: Report) -> dict[str, Measured | str]:
    """Return the measurements of every contestant, or in words why there are none.

    Args:
        size: of the problem.
        repeats: measured steps.
        only: contestants whose names hold one of these words, separated by commas; all by default.
        report: called as `report(done, total, note)`.
    """
    torch.set_num_threads(size.threads)
    words = [word.strip() for word in only.split(",")] if only else [""]
    chosen = [name for name in contestants(size) if any(word in name for word in words)]
    if not chosen:
        raise ValueError(f"--only {only}: no contestant has such a name; there are {', '.join(contestants(size))}")
    if FLOOR not in chosen:
        chosen.insert(0, FLOOR)
    results: dict[str, Measured | str] = {}
    for name in chosen:
        package = next((package for peer, package in _PEERS.items() if name.startswith(peer)), None)
        if package is not None and importlib.util.find_spec(package) is None:
            results[name] = "not installed"
    runnable = [name for name in chosen if name not in results]
    if size.gpu:
        for done, name in enumerate(runnable, 1):
            results[name] = measure_on_gpu(name, size, repeats)
            report(done, len(runnable), name)
    else:
        results |= measure_on_cpu(runnable, size, repeats, report)
    return {name: results[name] for name in chosen}


def measure_on_gpu(name: str, size: Size, repeats: int) -> Measured | str:
    """One contestant alone on the device: a burst after a pause, then steps until the device is hot.

    Of one that takes more than 0.3 s, two steps are enough. The memory of a CUDA graph is what it keeps reserved.
    """
    step: Step | None = None
    try:
        inputs = draw(size)
        held = torch.cuda.memory_allocated()
        step = contestants(size)[name](inputs, size)
        del inputs
        device_times(step, 2)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        (once,) = device_times(step, 1)
        captured = name.endswith("(captured)")
        peak = torch.cuda.memory_reserved() if captured else torch.cuda.max_memory_allocated()
        memory = (peak - held) / MIB
        slow = once > _SLOW_MS
        time.sleep(0.5)
        burst = device_times(step, 2 if slow else repeats)
        count = max(repeats, int(_HOT_SECONDS * 1000 / statistics.median(burst)))
        hot = statistics.median(burst if slow else device_times(step, count)[count // 2 :])
        low, _, high = statistics.quantiles(burst, n=4, method="inclusive")
        return Measured(statistics.median(burst), low, high, hot, memory)
    except torch.cuda.OutOfMemoryError:
        return "out of memory"
    except Exception as problem:
        lines = str(problem).strip().splitlines() or [""]
        return f"fails: {type(problem).__name__}: {lines[0][:60]}"
    finally:
        step = None
        torch.compiler.reset()
        gc.collect()
        with contextlib.suppress(RuntimeError):  # after an illegal access nothing works on the device any more
            torch.cuda.empty_cache()


def device_times(step: Step, repeats: int) -> list[float]:
    """Milliseconds on the device of steps that do not wait for each other."""
    events = [
        torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        for _ in range(repeats + 1)
    ]
    events[0].record()
    for event in events[1:]:
        step()
        event.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(stop) for start, stop in itertools.pairwise(events)]


def measure_on_cpu(names: list[str], size: Size, repeats: int, report: Report) -> dict[str, Measured]:
    """Everybody in turn, round after round, after one of warm-up; peak memory in a process of its own for each."""
    peaks = {}
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        for name in names:
            peaks[name] = pool.submit(peak_of_step, name, size).result()
            report(len(peaks), 2 * len(names), f"memory of {name}")
    inputs = draw(size)
    copies = {name: inputs._replace(prototypes=inputs.prototypes.clone()) for name in names}
    steps = {name: contestants(size)[name](copies[name], size) for name in names}
    times: dict[str, list[float]] = {name: [] for name in names}
    for step in steps.values():
        step()
    for done in range(1, repeats + 1):
        for name, step in steps.items():
            started = time.perf_counter()
            step()
            times[name].append(1000 * (time.perf_counter() - started))
        report(len(names) + len(names) * done // repeats, 2 * len(names), f"round {done} of {repeats}")
    measured = {}
    for name, own in times.items():
        low, median, high = statistics.quantiles(own, n=4, method="inclusive")
        measured[name] = Measured(median, low, high, median, peaks[name])
    return measured


def peak_of_step(name: str, size: Size) -> float:
    """MiB that one step takes beyond what the process, with inputs and prototypes, held before; for a fresh process."""
    torch.set_num_threads(size.threads)
    make = contestants(size)[name]
    small = replace(size, rows=8, classes=64)
    make(draw(small), small)()
    step = make(draw(size), size)
    before = resident_bytes()
    step()
    return max(peak_bytes() - before, resource.getpagesize()) / MIB


def head_table(size: Size, results: dict[str, Measured | str]) -> str:
    """Return time, ratio to the floor and memory of every contestant as the lines of a table."""
    floor = results[FLOOR]
    kind = "bfloat16 products" if size.gpu else f"float32, {size.threads} thread{'s' * (size.threads != 1)}"
    hot = f"{'hot ms':>8}" if size.gpu else ""
    lines = [
        f"\n{device_name(size.device)}:",
        f"{size.rows} x {size.dim}, {size.classes:,} classes, forward + backward, {kind}",
        f"{'':36}{'ms':>8} {'(quartiles)':>15}{hot}{'x floor':>8}{'MiB':>8}",
    ]
    for name, own in results.items():
        if isinstance(own, str):
            lines.append(f"{name:36}{own:>8}")
            continue
        ratio = f"{own.median / floor.median:.2f}" if isinstance(floor, Measured) else "-"
        hot = f"{own.hot:8.2f}" if size.gpu else ""
        quartiles = f"({own.low:.2f}-{own.high:.2f})"
        lines.append(f"{name:36}{own.median:8.2f} {quartiles:>15}{hot}{ratio:>8}{own.memory:8,.0f}")
    return "\n".join(lines)


def head_rows(size: Size, results: dict[str, Measured | str]) -> Iterator[dict[str, Any]]:
    """One row per contestant for a CSV file, with the versions and the machine."""
    floor = results[FLOOR]
    for name, own in results.items():
        measured = isinstance(own, Measured)
        numbers = [f"{value:.3f}" for value in own] if isinstance(own, Measured) else [""] * 5
        over = own.median / floor.median if isinstance(own, Measured) and isinstance(floor, Measured) else math.nan
        yield {
            "date_utc": datetime.now(UTC).isoformat(timespec="seconds"),
            "device": device_name(size.device),
            "threads": "" if size.gpu else size.threads,
            "rows": size.rows,
            "dim": size.dim,
            "classes": size.classes,
            "contestant": name,
            **dict(zip(("median_ms", "low_ms", "high_ms", "hot_ms", "memory_mib"), numbers, strict=True)),
            "times_floor": f"{over:.3f}" if measured else "",
            "note": "" if measured else own,
            "torch": torch.__version__,
            "triton": _version("triton"),
            "hypersphere": __version__,
            "peers": " ".join(f"{name} {_version(name)}" for name in _distributions(name)),
            "python": platform.python_version(),
        }


def _distributions(contestant: str) -> Iterable[str]:
    names = {"pytorch-metric": "pytorch-metric-learning", "Liger": "liger-kernel", "CCE": "cut-cross-entropy"}
    return [package for start, package in names.items() if contestant.startswith(start)]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def draw_head_panels(results: dict[int, dict[str, Measured | str]]) -> Any:
    """Time and memory over the number of classes, both axes logarithmic."""
    names = list(dict.fromkeys(name for found in results.values() for name in found))
    times, memories = [], []
    for name in names:
        own = {size: one for size, found in results.items() if isinstance(one := found.get(name), Measured)}
        if own:
            style = "--" if name == FLOOR else "-"
            times.append(Line(name, list(own), [one.median for one in own.values()], style))
            memories.append(Line(name, list(own), [one.memory / 1024 for one in own.values()], style))
    return draw_panels(
        [
            Panel("Forward and backward", "classes", "milliseconds", times, log_x=True, log_y=True),
            Panel("Memory beyond the parameters", "classes", "GiB", memories, log_x=True, log_y=True),
        ],
        width=5.4,
        height=4.2,
    )
