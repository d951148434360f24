"""What sharing the classes over P processes costs, from one process that was measured and a network that is assumed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypersphere.core import check_finite_number, check_integer, check_positive
from hypersphere.heads.communication import step_collectives

_LONG = 10.0
"""Seconds of a step from which on a table is in seconds."""


@dataclass(frozen=True)
class Cost:
    """Seconds (or anything) as a straight line: fixed + slope x."""

    fixed: float
    slope: float

    def __call__(self, x: float) -> float:
        return self.fixed + self.slope * x

    @classmethod
    def through(cls, x1: float, y1: float, x2: float, y2: float) -> Cost:
        """Return the line through two points; noise in the measurements never makes a part of it negative."""
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
        """Seconds of a step, where no part of the exchange overlaps with computing."""
        return self.compute + self.exchange


def forecast(
    name: str, *, rows: int, dim: int, num_classes: int, processes: int, rate: Cost, network: Cost, gpu: bool = False
) -> Forecast:
    """Return what each of P processes does in a step: all rows against ceil(C / P) classes, and the loss's collectives.

    Args:
        name: of the loss.
        rows: embeddings of all processes together, a multiple of `processes`.
        dim: width of the embeddings.
        num_classes: C, of all processes together.
        processes: P.
        rate: seconds of one process over its number of classes.
        network: seconds of a collective over the bytes that a process sends in it.
        gpu: whether the working memory is that of the fused engine, in bfloat16, or of chunks in float32.
    """
    share = -(-num_classes // processes)
    sent = step_collectives(name, rows=rows, dim=dim, processes=processes) if processes > 1 else []
    parameters = 3 * 4 * share * dim
    working = share * (2 * dim + 2 * rows) if gpu else 3 * 4 * 2**20
    return Forecast(
        processes,
        rate(share),
        sum(network(collective.bytes) for collective in sent),
        sum(collective.bytes for collective in sent),
        parameters + working + 2 * 4 * rows * dim,
    )


def network_cost(bandwidth: float, latency: float) -> Cost:
    """Return seconds over bytes of a network that sends `bandwidth` GB/s, after `latency` microseconds."""
    check_positive("bandwidth", bandwidth)
    if check_finite_number("latency", latency) < 0:
        raise ValueError(f"latency={latency:g} must be at least 0")
    return Cost(latency * 1e-6, 1e-9 / bandwidth)


def process_counts(rows: int, processes: int) -> list[int]:
    """Return the counts 1, 2, 4 .. P that divide the rows."""
    if rows % check_integer("processes", processes, 1):
        raise ValueError(f"rows={rows} must be a multiple of processes={processes}: each process has as many rows")
    counts = sorted({*itertools.takewhile(lambda p: p <= processes, (2**k for k in range(40))), processes})
    return [count for count in counts if rows % count == 0]


def forecast_table(title: str, rows: int, rate: Cost, forecasts: Sequence[Forecast]) -> str:
    """Return the forecasts of one loss as the lines of a table."""
    unit, factor = ("seconds", 1.0) if forecasts[0].seconds >= _LONG else ("milliseconds", 1e3)
    lines = [
        f"\n{title}: {factor * rate.fixed:.2f} + {1e6 * factor * rate.slope:.3f} {unit} a million classes, forward + "
        "backward",
        f"{'':29}{unit:>30}{'of a process':>20}",
        f"{'processes':>9}{'images/s':>11}{'speed-up':>9}{'step':>10}"
        f"{'computing':>11}{'exchange':>9}{'sent':>9}{'memory':>11}",
    ]
    for row in forecasts:
        speed_up = forecasts[0].seconds / row.seconds
        lines.append(
            f"{row.processes:9} {rows / row.seconds:10,.0f} {speed_up:8.2f} {factor * row.seconds:9.2f}"
            f" {factor * row.compute:10.2f} {factor * row.exchange:8.3f} {readable_bytes(row.sent):>8}"
            f" {readable_bytes(row.memory):>10}"
        )
    return "\n".join(lines)


def memory_table(forecasts: Mapping[str, Sequence[Forecast]]) -> str:
    """Return what a process holds and sends in a step, by loss: arithmetic, without any measurement."""
    lines = [f"{'processes':>9}{'loss':>14}{'memory of each':>16}{'sent by each':>14}"]
    for title, rows in forecasts.items():
        lines += [
            f"{row.processes:9}{title:>14}{readable_bytes(row.memory):>16}{readable_bytes(row.sent):>14}"
            for row in rows
        ]
    return "\n".join(lines)


def readable_bytes(count: float) -> str:
    """Return a number of bytes in the unit that leaves one to four digits before the point."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = min(len(units) - 1, int(math.log2(max(count, 1)) // 10))
    return f"{count / 1024**power:.{1 if power else 0}f} {units[power]}"
