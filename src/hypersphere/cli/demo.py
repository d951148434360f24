"""`hypersphere demo`: three losses trained on pocket faces, compared on people never seen, in a report."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hypersphere as hs
from hypersphere.cli.output import Results, note
from hypersphere.core import Progress

COLUMNS = {"loss": 11, "accuracy [95 %]": 23, "against softmax": 21, "EER": 8, "TAR@1e-2": 9, "s": 6}
"""Of the table on a terminal, with their widths; the report has more."""


def add_command(commands: Any) -> None:
    """Add `demo` to the command line."""
    parser = commands.add_parser("demo", help="train three losses on pocket faces and compare them in a report")
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder of runs and report (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights, order and augmentation (%(default)s)")
    parser.set_defaults(run="demo:run", goes_on=True)


def run(options: argparse.Namespace) -> Results:
    """Run the demo as large as it is.

    Waiting threads sleep, unless the user says otherwise: on a busy machine torch is otherwise several times slower.
    OpenMP reads this once, when torch is imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    return run_demo(options.out, options.seed, hs.training.DemoExtent())


def run_demo(out: Path, seed: int, extent: hs.training.DemoExtent) -> Results:
    """Train each loss (or take up its run), print the table and say where the report is."""
    if seed < 0:
        raise ValueError(f"--seed {seed} must be 0 or more")
    hs.plots.new_figure(1, 1)  # fails now, before anything is said, where matplotlib is missing
    data = hs.training.demo_recipes(seed, extent)["softmax"].data
    note(f"Training on {data.identities:,} pocket people, {data.images_per_identity} images of each; testing on")
    note(f"{extent.pairs:,} pairs of images of {extent.people} people never seen. Seed {seed}.\n")
    _print_row(tuple(COLUMNS))

    def announce(outcome: hs.training.DemoOutcome) -> None:
        cells = hs.training.demo_row(outcome)
        _print_row((*cells[:5], *cells[6:]))

    outcomes, report = hs.training.run_demo(out, seed, extent, show=Progress, announce=announce)
    print(f"\nThe report: {report}")
    losses = {
        name: {
            "accuracy": outcome.result.accuracy,
            "gain": outcome.gain,
            "metrics": outcome.metrics,
            "seconds": outcome.seconds,
            "folder": outcome.folder,
        }
        for name, outcome in outcomes.items()
    }
    return Results({"seed": seed, "losses": losses, "report": report})


def _print_row(cells: Sequence[str]) -> None:
    first, *widths = COLUMNS.values()
    print(f"{cells[0]:<{first}}" + "".join(map(str.rjust, cells[1:], widths)), flush=True)
