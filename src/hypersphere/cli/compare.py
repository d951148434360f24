"""`hypersphere compare RECIPE --heads ... --grid ... --seeds N --jobs N`: train all cells of a table, and print it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypersphere as hs
from hypersphere.cli.output import Results, bold, note
from hypersphere.cli.parser import add_device, add_loading, add_plugins, add_seeds
from hypersphere.cli.photo_options import check_output
from hypersphere.cli.train import add_length, all_settings
from hypersphere.core import Progress, digest, remove_partial

if TYPE_CHECKING:
    from hypersphere.training import Task


def add_command(commands: Any) -> None:
    """Add `compare` to the command line."""
    compare = commands.add_parser(
        "compare", help="train a recipe with several heads, settings and seeds; print the table"
    )
    compare.add_argument("recipe", type=Path, help="a recipe's name, or a TOML file")
    compare.add_argument("settings", nargs="*", metavar="key=value", help="override the recipe")
    compare.add_argument("--heads", default="", help="names of losses, separated by commas")
    compare.add_argument("--grid", action="append", default=[], metavar="KEY=V,V,...", help="values of one setting")
    add_seeds(compare)
    compare.add_argument("--jobs", type=int, default=1, help="runs at once, on one card or CPU (%(default)s)")
    compare.add_argument("--out", type=Path, help="folder of the runs and of results.jsonl (runs/compare-RECIPE)")
    add_device(compare)
    add_plugins(compare)
    add_loading(compare)
    add_length(compare)
    compare.add_argument("--page", type=Path, metavar="OUT.html", help="write curves and the hardest pairs as a page")
    compare.add_argument("--tensorboard", action="store_true", help="log each run to tensorboard in its folder, too")
    compare.set_defaults(run="compare:run_compare", goes_on=True)


def run_compare(options: argparse.Namespace) -> Results | None:
    """Train every cell that is not on record yet; print mean and deviation over the seeds."""
    _check_options(options)
    plugins = hs.core.load_plugins(options.plugin)
    if hs.training.is_data(str(options.recipe)):
        raise ValueError(
            f"{options.recipe}: compare takes a recipe; `hypersphere train {options.recipe} --dry-run > images.toml`"
            " writes one for these images, `hypersphere compare images.toml` compares with it"
        )
    out = options.out or Path("runs") / f"compare-{options.recipe.stem}"
    heads = [name for name in options.heads.split(",") if name]
    cells = dict(hs.training.compare_cells(options.recipe, all_settings(options), heads, options.grid, options.seeds))
    sets = hs.training.validation_sets(next(iter(cells.values()))[0])
    if not sets:
        raise ValueError(f"compare {hs.training.NO_VALIDATION}")
    tasks = [
        hs.training.Task(title, recipe, out / digest(recipe)) for title, recipes in cells.items() for recipe in recipes
    ]
    _check_names(tasks)
    with hs.distributed.join_world(options.device) as world, world.hold(out):
        if world.is_main:
            remove_partial(out)
            hs.training.check_same_plugins(out, plugins)
        record = hs.training.RecordFile(out / "results.jsonl")
        left = [task for task in tasks if record.find(task.recipe) is None]
        if world.is_main and len(left) < len(tasks):
            note(f"{len(tasks) - len(left)} of {len(tasks)} runs are on record in {record.path}")
        workers = options.workers if options.workers is not None else hs.distributed.default_workers(world.device)
        trainer = {"workers": workers // options.jobs, "compile": options.compile}
        pool = {"jobs": options.jobs, "plugins": options.plugin, "tensorboard": options.tensorboard}
        with Progress("comparing", "steps") as progress:
            shown = _Shown(progress, len(left))
            for result in hs.training.run_tasks(left, world, trainer, report=shown, **pool):
                if world.is_main:
                    record.add(result)
                    shown.finish()
        if not world.is_main:
            return None
    runs = {title: [run for recipe in recipes if (run := record.find(recipe))] for title, recipes in cells.items()}
    for line, best in hs.training.table_lines(runs, [each.title for each in sets], cut=sys.stdout.isatty()):
        print(bold(line) if best else line)
    first, gains = hs.training.gains_over_first(runs, sets)
    for line in hs.training.gain_lines(first, gains):
        print(line)
    print(f"every run: {record.path}")
    if options.page is not None:
        compared = hs.training.Compared(tasks, runs, sets, first, gains, options.command)
        print(f"the page: {hs.training.write_comparison_page(compared, options.page, str(world.device))}")
    return Results({"cells": runs, "gains": gains, "record": record.path, "page": options.page})


def _check_options(options: argparse.Namespace) -> None:
    """Refuse before training what would fail after it."""
    for name in ("seeds", "jobs"):
        if getattr(options, name) < 1:
            raise ValueError(f"--{name} {getattr(options, name)} must be at least 1")
    if options.page is not None:
        check_output(options.page, "--page", ".html")
        hs.plots.new_figure(1, 1)  # an error where matplotlib is missing
    if options.tensorboard:
        hs.core.import_extra("tensorboard", "logging to TensorBoard")


def _check_names(tasks: Sequence[Task]) -> None:
    """Refuse cells that the record could not tell apart: it knows data and teachers by the last names of paths."""
    first: dict[str, Task] = {}
    for task in tasks:
        other = first.setdefault(hs.training.run_key(task.recipe), task)
        if other.recipe != task.recipe:
            raise ValueError(
                f"{other.cell} and {task.cell} differ only by where files lie, which the record of runs leaves out: it "
                "knows them by their names; give the files different names"
            )


class _Shown:
    """Progress of all runs together: steps done of the steps there are, as far as they are known yet."""

    def __init__(self, progress: Progress, runs: int) -> None:
        self.progress, self.runs, self.finished = progress, runs, 0
        self.done: dict[int, tuple[int, int]] = {}

    def __call__(self, number: int, done: int, total: int) -> None:
        """Show steps of a run; its last one with `finish`, when its record is there."""
        self.done[number] = done, total
        if done < total:
            self._show()

    def finish(self) -> None:
        """Count a run whose record is there."""
        self.finished += 1
        self._show()

    def _show(self) -> None:
        if not self.done:
            return
        steps, known = (sum(each) for each in zip(*self.done.values(), strict=True))
        expected = round(known / len(self.done) * self.runs)
        self.progress(steps, max(expected, steps), f"{self.finished} of {self.runs} runs done")
