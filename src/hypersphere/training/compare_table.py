"""The table of a comparison: mean and deviation of every cell over its seeds, and how much better each is."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from hypersphere.evaluation import Difference
from hypersphere.training.run_records import RunRecord, compare_runs
from hypersphere.training.validation import UnseenPairs

Cells = Mapping[str, Sequence[RunRecord]]
_SET = 16
"""Columns for a validation set."""


def gains_over_first(cells: Cells, sets: Sequence[UnseenPairs]) -> tuple[str, dict[str, dict[str, Difference]]]:
    """Return the first cell that has not stopped; by set and cell, how much more often each other decides rightly."""
    measured = {title: each for title, runs in cells.items() if (each := _measured(runs))}
    first, *others = measured or [""]
    return first, {
        pairs.title: {title: compare_runs(measured[first], measured[title], pairs) for title in others}
        for pairs in sets
        if others
    }


def gain_lines(first: str, gains: Mapping[str, Mapping[str, Difference]]) -> Iterator[str]:
    """The lines below the table: the points that each cell wins over the first."""
    for name, others in gains.items():
        yield f"points against {first} on {name} [95 % over people and seeds]:"
        for title, gain in others.items():
            value, low, high = (100 * each for each in (gain.estimate.value, gain.estimate.low, gain.estimate.high))
            yield f"  {title}: {value:+.2f} [{low:+.2f}, {high:+.2f}]"


def table_lines(cells: Cells, sets: Sequence[str], *, cut: bool = True) -> Iterator[tuple[str, bool]]:
    """The table: per cent of pairs right, then how well the runs have fitted.

    Args:
        cells: the runs of each.
        sets: titles of the validation sets.
        cut: names, for a terminal: the table is then at most 80 columns wide with two sets.

    Yields:
        each line, and whether it is that of the best of several cells.
    """
    width, wide = max(4, *(len(title) for title in cells)), max(_SET, *(len(title) + 2 for title in sets))
    if cut:
        width, wide = min(max(12, 80 - _SET * len(sets) - 18), width), _SET
    titles = "".join(f"{_short(title, wide - 2):>{wide}}" for title in sets)
    yield f"{'cell':<{width}}{titles}{'fit %':>7}{'||x||':>7}{'n':>4}", False
    best = max(cells, key=lambda title: _first_mean(cells[title], sets))
    for title, runs in cells.items():
        measured = _measured(runs)
        shown = "".join(f"{_spread([run.scores[name].accuracy for run in measured]):>{wide}}" for name in sets)
        fit = _mean_of([run.train_accuracy for run in measured], 100)
        norm = _mean_of([run.norm for run in measured], 1)
        line = f"{_short(title, width):<{width}}{shown}{fit:>7}{norm:>7}{len(measured):>4}"
        yield line, title == best and len(cells) > 1
        for run in runs:
            if run.stopped:
                yield f"  seed {run.seed} stopped: {run.stopped}", False
            elif run.warning:
                yield f"  seed {run.seed}: {run.warning}", False


def _measured(runs: Sequence[RunRecord]) -> list[RunRecord]:
    return [run for run in runs if not run.stopped]


def _first_mean(runs: Sequence[RunRecord], sets: Sequence[str]) -> float:
    """The mean accuracy on the first set; -1 where no run was measured."""
    return statistics.mean([run.scores[sets[0]].accuracy for run in _measured(runs)] or [-1.0])


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _spread(values: Sequence[float]) -> str:
    """Mean and deviation, in per cent."""
    if not values:
        return "-"
    deviation = f" +- {100 * statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.2f}{deviation}"


def _mean_of(values: Sequence[float | None], factor: float) -> str:
    known = [factor * value for value in values if value is not None]
    return f"{statistics.mean(known):.1f}" if known else "-"
