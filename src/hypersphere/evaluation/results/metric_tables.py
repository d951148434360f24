"""Metrics as rows of tables: FNMR beside TAR, and all that cannot be measured in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypersphere.evaluation.statistics.estimate import (
    Estimate,
    NotMeasurable,
    RatePoint,
    complement,
    rate_name,
    read_rate_name,
)
from hypersphere.plots import interval, percent

Metrics = Mapping[str, Estimate | NotMeasurable]

_AXES = {"fmr": "far"}
"""Axes that are called otherwise and are the same."""


@dataclass(frozen=True)
class MetricTable:
    """Measured metrics as a table of words."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str


def shown_value(number: float, estimate: Estimate) -> str:
    """A number in the unit of an estimate."""
    match estimate.unit:
        case "share":
            return percent(number)
        case "degrees":
            return f"{number:.4g}°"
        case "cosine" | "ratio":
            return f"{number:.4g}"


def estimate_cells(estimate: Estimate | NotMeasurable) -> list[str]:
    """Value, interval, count and kind of interval of an estimate, in words."""
    if isinstance(estimate, NotMeasurable):
        return [str(estimate), "", f"{estimate.n:,}", f"needs n={estimate.needed:,}"]
    value, low, high = (shown_value(number, estimate) for number in (estimate.value, estimate.low, estimate.high))
    return [value, f"{low} to {high}", f"{estimate.n:,}", estimate.interval]


def metric_tables(metrics: Metrics) -> list[MetricTable]:
    """The measured metrics: first those that are not read off at a rate, then a table for each axis of rates."""
    plain: dict[str, Estimate] = {}
    axes: dict[str, dict[str, dict[str, Estimate]]] = {}
    for name, estimate in metrics.items():
        point = read_rate_name(name)
        if isinstance(estimate, NotMeasurable):
            continue
        if point is None:
            plain[name] = estimate
        else:
            axes.setdefault(_axis(point), {}).setdefault(_place(point), {})[point.metric] = estimate
    first = [_plain_table(plain)] if plain else []
    return first + [_rate_table(rows) for rows in axes.values()]


def not_measurable(metrics: Metrics) -> str:
    """A sentence on all metrics that the data are too few for; empty where there is none."""
    places: dict[str, list[bool]] = {}
    for name, estimate in metrics.items():
        point = read_rate_name(name)
        places.setdefault(name if point is None else _place(point), []).append(isinstance(estimate, Estimate))
    missing: dict[int, dict[str, int]] = {}
    for name, estimate in metrics.items():
        if isinstance(estimate, NotMeasurable):
            point = read_rate_name(name)
            place = name if point is None else _place(point)
            missing.setdefault(estimate.n, {})[name if any(places[place]) else place] = estimate.needed
    parts = (
        f"with n={n:,}: " + ", ".join(f"{label} (needs {needed:,})" for label, needed in labels.items())
        for n, labels in missing.items()
    )
    return f"Not measurable {'; '.join(parts)}." if missing else ""


def without_complements(metrics: Metrics) -> list[str]:
    """The names of the measured metrics, without an FNMR whose TAR is among them."""
    return [
        name for name, estimate in metrics.items() if isinstance(estimate, Estimate) and complement(name) not in metrics
    ]


def _axis(point: RatePoint) -> str:
    return _AXES.get(point.axis, point.axis)


def _place(point: RatePoint) -> str:
    """`lfw/far=1e-3`."""
    return f"{point.owner}/" * bool(point.owner) + rate_name(_axis(point), point.rate)


def _plain_table(estimates: Mapping[str, Estimate]) -> MetricTable:
    kinds = [estimate.interval for estimate in estimates.values()]
    rows = [[name, *estimate_cells(estimate)[:3]] for name, estimate in estimates.items()]
    return _with_kinds(["metric", "value", "95 % interval", "n"], rows, kinds, "Intervals of 95 %")


def _rate_table(rows: Mapping[str, Mapping[str, Estimate]]) -> MetricTable:
    metrics = list(dict.fromkeys(metric for row in rows.values() for metric in row))
    found, kinds = [], []
    for place, row in rows.items():
        cells = [_short(row[metric]) if metric in row else "–" for metric in metrics]
        counts = dict.fromkeys(f"{estimate.n:,}" for estimate in row.values())
        found.append([place, *cells, ", ".join(counts)])
        kinds.append(", ".join(dict.fromkeys(estimate.interval for estimate in row.values())))
    return _with_kinds(["at", *metrics, "n"], found, kinds, "In brackets 95 % intervals")


def _with_kinds(header: list[str], rows: list[list[str]], kinds: list[str], intervals: str) -> MetricTable:
    """How intervals were made: in the caption where it is the same for all, in a column otherwise."""
    if len(set(kinds)) == 1:
        return MetricTable(header, rows, f"{intervals}: {kinds[0]}.")
    full = [[*row, kind] for row, kind in zip(rows, kinds, strict=True)]
    return MetricTable([*header, "interval by"], full, f"{intervals}.")


def _short(estimate: Estimate) -> str:
    return f"{percent(estimate.value)}\n{interval(estimate.low, estimate.high)}"
