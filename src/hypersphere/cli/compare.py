"""Run `hypersphere compare RECIPE --heads ... --grid ... --seeds N --jobs N`."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from hypersphere.cli.chosen_recipe import is_data, shorthands
from hypersphere.cli.output import Results, bold, note
from hypersphere.core import Progress
from hypersphere.core.config import digest
from hypersphere.core.files import remove_partial
from hypersphere.distributed import default_workers, join_world
from hypersphere.evaluation import Difference
from hypersphere.training import (
    NO_VALIDATION,
    RecordFile,
    RunRecord,
    Task,
    UnseenPairs,
    compare_cells,
    compare_runs,
    run_key,
    run_tasks,
    validation_sets,
)

_SET = 16
"""Columns for a validation set."""


def run_compare(options: argparse.Namespace) -> Results | None:
    """Train every cell that is not on record yet; print mean and deviation over the seeds."""
    for name in ("seeds", "jobs"):
        if getattr(options, name) < 1:
            raise ValueError(f"--{name} {getattr(options, name)} must be at least 1")
    if is_data(str(options.recipe)):
        raise ValueError(
            f"{options.recipe}: compare takes a recipe; `hypersphere train {options.recipe} --dry-run > images.toml`"
            " writes one for these images, `hypersphere compare images.toml` compares with it"
        )
    out = options.out or Path("runs") / f"compare-{options.recipe.stem}"
    settings = [*options.settings, *shorthands(options)]
    heads = [name for name in options.heads.split(",") if name]
    cells = dict(compare_cells(options.recipe, settings, heads, options.grid, options.seeds))
    first = next(iter(cells.values()))[0]
    sets = validation_sets(first)
    if not sets:
        raise ValueError(f"compare {NO_VALIDATION}")
    tasks = [Task(title, recipe, out / digest(recipe)) for title, recipes in cells.items() for recipe in recipes]
    with join_world(options.device) as world, world.hold(out):
        if world.is_main:
            remove_partial(out)
        record = RecordFile(out / "results.jsonl")
        left = [task for task in tasks if run_key(task.recipe) not in record.records]
        if world.is_main and len(left) < len(tasks):
            note(f"{len(tasks) - len(left)} of {len(tasks)} runs are on record in {record.path}")
        workers = options.workers if options.workers is not None else default_workers(world.device)
        trainer = {"workers": workers // options.jobs, "compile": options.compile}
        with Progress("comparing", "steps") as progress:
            shown = _Shown(progress, len(left))
            for result in run_tasks(left, world, trainer, jobs=options.jobs, report=shown):
                if world.is_main:
                    record.add(result)
                    shown.finished += 1
        if not world.is_main:
            return None
    runs = {title: [record.records[run_key(recipe)] for recipe in recipes] for title, recipes in cells.items()}
    _print(runs, [each.title for each in sets])
    gains = _gains(runs, sets)
    _print_gains(gains, next((title for title, each in runs.items() if _measured(each)), ""))
    print(f"every run: {record.path}")
    return Results({"cells": runs, "gains": gains, "record": record.path})


class _Shown:
    """Progress of all runs together: steps done of the steps there are, as far as they are known yet."""

    def __init__(self, progress: Progress, runs: int) -> None:
        self.progress, self.runs, self.finished = progress, runs, 0
        self.done: dict[int, tuple[int, int]] = {}

    def __call__(self, number: int, done: int, total: int) -> None:
        self.done[number] = done, total
        steps = sum(each for each, _ in self.done.values())
        known = sum(each for _, each in self.done.values())
        expected = round(known / len(self.done) * self.runs)
        self.progress(steps, max(expected, steps), f"{self.finished} of {self.runs} runs done")


def _gains(runs: Mapping[str, Sequence[RunRecord]], sets: Sequence[UnseenPairs]) -> dict[str, dict[str, Difference]]:
    """By set and cell, how much more often each cell than the first that has not stopped decides rightly."""
    measured = {title: _measured(each) for title, each in runs.items()}
    known = [title for title, each in measured.items() if each]
    return {
        pairs.title: {title: compare_runs(measured[known[0]], measured[title], pairs) for title in known[1:]}
        for pairs in sets
        if known[1:]
    }


def _measured(runs: Sequence[RunRecord]) -> list[RunRecord]:
    return [run for run in runs if not run.stopped]


def _print_gains(gains: Mapping[str, Mapping[str, Difference]], first: str) -> None:
    for name, others in gains.items():
        print(f"points against {first} on {name} [95 % over people and seeds]:")
        for title, gain in others.items():
            estimate = gain.estimate
            print(f"  {title}: {100 * estimate.value:+.2f} [{100 * estimate.low:+.2f}, {100 * estimate.high:+.2f}]")


def _print(cells: Mapping[str, Sequence[RunRecord]], sets: Sequence[str]) -> None:
    """The table, at most 80 columns wide with two sets: per cent of pairs right, then how well the runs have fitted."""
    room = max(12, 80 - _SET * len(sets) - 18)
    width = min(room, max(4, *(len(title) for title in cells)))
    print(
        f"{'cell':<{width}}"
        + "".join(f"{_short(title):>{_SET}}" for title in sets)
        + f"{'fit %':>7}{'||x||':>7}{'n':>4}"
    )
    best = max(cells, key=lambda title: _first_mean(cells[title], sets))
    for title, runs in cells.items():
        measured = _measured(runs)
        shown = [_spread([run.scores[name].accuracy for run in measured]) for name in sets]
        fit = _mean_of([run.train_accuracy for run in measured], 100)
        norm = _mean_of([run.norm for run in measured], 1)
        line = f"{_short(title, width):<{width}}" + "".join(f"{each:>{_SET}}" for each in shown)
        line += f"{fit:>7}{norm:>7}{len(measured):>4}"
        print(bold(line) if title == best and len(cells) > 1 else line)
        for run in runs:
            if run.stopped:
                print(f"  seed {run.seed} stopped: {run.stopped}")


def _first_mean(runs: Sequence[RunRecord], sets: Sequence[str]) -> float:
    """The mean accuracy on the first set; -1 where no run was measured."""
    return statistics.mean([run.scores[sets[0]].accuracy for run in _measured(runs)] or [-1.0])


def _short(text: str, width: int = _SET - 2) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _spread(values: Sequence[float]) -> str:
    """Mean and deviation, in per cent."""
    if not values:
        return "-"
    return f"{100 * statistics.mean(values):.2f}" + (
        f" +- {100 * statistics.stdev(values):.2f}" if len(values) > 1 else ""
    )


def _mean_of(values: Sequence[float | None], factor: float) -> str:
    known = [factor * value for value in values if value is not None]
    return f"{statistics.mean(known):.1f}" if known else "-"
