"""Results and their comparisons in words, for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from hypersphere.evaluation.results.compare_results import (
    ComparedMetric,
    SavedResult,
    difference_cells,
    only_in_one,
    shown_rows,
    unmeasured,
)
from hypersphere.evaluation.results.metric_tables import estimate_cells, not_measurable, without_complements
from hypersphere.evaluation.results.report import lost_counts, words
from hypersphere.evaluation.results.result import Result


def result_lines(result: Result) -> Iterator[str]:
    """Counts, metrics with their intervals, and what was not measured."""
    width = max(len(name) + 2 for name in (*result.counts, *result.metrics))
    for name, count in result.counts.items():
        yield f"  {words(name):<{width}}{count:,}"
    for name in without_complements(result.metrics):
        value, interval, n, _ = estimate_cells(result.metrics[name])
        owner, _, bare = name.rpartition("/")
        detail = result.details.get(owner or "all")
        if bare == "accuracy" and isinstance(detail, Mapping) and "deviation" in detail:
            value = f"{value} +- {100 * detail['deviation']:.2f}"
        yield f"  {name:<{width}}{value:<17}{f'[{interval}]':<24}n={n}"
    missing, lost = not_measurable(result.metrics), lost_counts(result)
    if missing:
        yield textwrap.fill(missing, 79)
    if lost:
        yield f"not all of the protocol was measured: {', '.join(lost)}"


def comparison_lines(rows: Sequence[ComparedMetric], first: SavedResult, second: SavedResult) -> Iterator[str]:
    """Two results side by side, and by which test each metric is compared."""
    shown = shown_rows(rows)
    width = max((len(row.name) + 2 for row in shown), default=2)
    tests: dict[str, list[str]] = {}
    yield f"{'':<{width}}{'A':<10}{'B':<10}{'B - A, points':<25}p"
    for row in shown:
        one, two = (estimate_cells(estimate)[0] for estimate in (row.first, row.second))
        difference, p, test = difference_cells(row)
        tests.setdefault(test if p else f"no test ({test})", []).append(row.name)
        yield f"{row.name:<{width}}{one:<10}{two:<10}{difference:<25}{p}".rstrip()
    for test, names in tests.items():
        yield textwrap.fill(f"{test}: {', '.join(names)}", 79, subsequent_indent="  ")
    for sentence in (not_measurable(unmeasured(rows)), *only_in_one(first, second)):
        if sentence:
            yield textwrap.fill(sentence, 79)
