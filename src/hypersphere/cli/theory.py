"""`hypersphere theory`: what the papers prove or show in small, computed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from hypersphere.core import Progress
from hypersphere.plots import save_figure
from hypersphere.theory import OPTIMUM_DEGREES, TOY_LOSSES, draw_toy, solve_toy


def add_command(commands: Any) -> None:
    """Add `theory` to the command line."""
    parser = commands.add_parser("theory", help="what the papers prove or show in small, computed")
    items = parser.add_subparsers(title="items", metavar="ITEM", required=True)
    toy = items.add_parser("toy", help="solve and draw the toy problem of the LM-Softmax paper (Fig. 3)")
    toy.add_argument("--out", type=Path, default=Path("runs/toy"), help="folder for the picture (%(default)s)")
    toy.add_argument("--steps", type=int, default=13_000, help="optimisation steps per loss (%(default)s)")
    toy.add_argument("--seed", type=int, default=0, help="seed of prototypes and features (%(default)s)")
    toy.set_defaults(run=run_toy)


def run_toy(options: argparse.Namespace) -> None:
    """Solve with each loss, print the class margins and write the spheres."""
    if options.steps < 1:
        raise ValueError(f"--steps {options.steps} must be at least 1")
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    print("8 prototypes and 10 samples of each, free on the 3-D sphere (Learning Towards the Largest Margins, Fig. 3)")
    print(f"{options.steps:,} steps of SGD, seed {options.seed}; class margins in degrees\n")
    print(f"{'loss':<12}{'ours':>8}{'paper':>8}{'optimum':>9}{'least sample margin':>21}")
    solutions = {}
    for loss in TOY_LOSSES:
        with Progress(loss.title, "steps") as progress:
            solution = solve_toy(loss, steps=options.steps, seed=options.seed, progress=progress)
        solutions[loss] = solution
        print(
            f"{loss.title:<12}{solution.class_margin_degrees:>8.2f}{loss.paper_degrees:>8.2f}{OPTIMUM_DEGREES:>9.2f}"
            f"{solution.sample_margin:>21.3f}",
            flush=True,
        )
    picture = save_figure(draw_toy(solutions), options.out / "spheres.png")
    print(f"\nThe four spheres: {picture}")
