"""`hypersphere theory`: what the papers prove or show in small, computed."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path
from typing import Any

import hypersphere as hs
from hypersphere.cli.output import Results, note, screen_width, wrapped
from hypersphere.core import Progress, is_installed

ITEMS = {
    "nearest": "angle to the nearest prototype (AmpFace Fig. 7)",
    "caps": "area of a spherical cap, and angles in it (AmpFace Figs. 8, 9)",
    "weights": "total wrong-class weight (AmpFace Fig. 10)",
    "curves": "loss and gradients over angles (AmpFace Figs. 11-14)",
    "termination": "termination angles of the best margins (AmpFace App. B)",
    "decisions": "decision margins in plane and space (AmpFace Figs. 15-18)",
    "normface": "Propositions 1-3 and the bound of the softmax loss (NormFace Fig. 5)",
    "sphereface": "Properties 2 and 3, decision boundaries (SphereFace)",
    "sphereface2": "loss curves, planes, bias and gradients (SphereFace2 Figs. 3, 6, Table 13)",
    "largest-margins": "Lemma 2.1, Theorems 2.2-3.5, optimised from random starts (LM-Softmax)",
    "tammes": "best packings of k points in 3-D, k up to 20 (LM-Softmax eq. 2.3)",
}
"""`hypersphere.reproduce.THEOREMS` with their titles; a test compares."""
TOY = "solve and draw the toy problem of the LM-Softmax paper (Fig. 3)"


def add_command(commands: Any) -> None:
    """Add `theory` to the command line."""
    parser = commands.add_parser("theory", help="what the papers prove or show in small, computed")
    parser.add_argument("--list", action="store_true", help="list the items")
    parser.set_defaults(run="theory:run_list")
    items = parser.add_subparsers(title="items", metavar="ITEM")
    for name, title in ITEMS.items():
        one = items.add_parser(name, help=title)
        folder = Path("runs/theory") / name
        one.add_argument("--out", type=Path, default=folder, help="folder for PNG and SVG figures (%(default)s)")
        one.set_defaults(run="theory:run_item", item=name)
    toy = items.add_parser("toy", help=TOY)
    toy.add_argument("--out", type=Path, default=Path("runs/toy"), help="folder for the picture (%(default)s)")
    toy.add_argument("--steps", type=int, default=13_000, help="optimisation steps per loss (%(default)s)")
    toy.add_argument("--seed", type=int, default=0, help="seed of prototypes and features (%(default)s)")
    toy.set_defaults(run="theory:run_toy")


def run_list(options: argparse.Namespace) -> Results:
    """Print every item with its line."""
    items = {**ITEMS, "toy": TOY}
    for name, title in items.items():
        print(wrapped(f"{name:<16}", title))
    return Results({"items": items})


def run_item(options: argparse.Namespace) -> Results:
    """Print the numbers beside those expected, and write the figures."""
    drawing = _prepare(options.out)
    theorem = hs.reproduce.THEOREMS[options.item]
    with Progress("computing", "parts") as progress:
        outcome = theorem.run(progress)
    print(f"{theorem.title}\n\n{hs.reproduce.findings_table(outcome.findings, screen_width())}\n")
    for paragraph in outcome.notes:
        note(textwrap.fill(paragraph, 79))
    written = []
    for name, draw in outcome.figures.items() if drawing else ():
        figure = draw()
        for ending in ("png", "svg"):
            written.append(hs.plots.save_figure(figure, options.out / f"{name}.{ending}"))
            note(f"written: {written[-1]}")
    if outcome.figures and not drawing:
        note(hs.plots.NO_PICTURES)
    return Results({"title": theorem.title, "findings": outcome.findings, "notes": outcome.notes, "figures": written})


def _prepare(folder: Path) -> bool:
    """Compute on one thread; return whether figures can be drawn. Their folder is made first: errors come early."""
    import torch

    torch.set_num_threads(1)
    if not is_installed("matplotlib"):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    return True


def run_toy(options: argparse.Namespace) -> Results:
    """Solve with each loss, print the class margins and write the spheres."""
    if options.steps < 1:
        raise ValueError(f"--steps {options.steps} must be at least 1")
    drawing, optimum = _prepare(options.out), hs.theory.OPTIMUM_DEGREES
    note("8 prototypes and 10 samples of each, free on the 3-D sphere")
    note("(Learning Towards the Largest Margins, Fig. 3)")
    note(f"{options.steps:,} steps of SGD, seed {options.seed}; class margins in degrees\n")
    print(f"{'loss':<12}{'ours':>8}{'paper':>8}{'optimum':>9}{'sample margin':>15}  late turn")
    solutions, losses = {}, {}
    for loss in hs.theory.TOY_LOSSES:
        with Progress(loss.title, "steps") as progress:
            solution = hs.theory.solve_toy(loss, steps=options.steps, seed=options.seed, progress=progress)
        solutions[loss] = solution
        names = ("class_margin_degrees", "sample_margin", "late_turn_degrees", "converged")
        losses[loss.title] = {
            "paper_degrees": loss.paper_degrees,
            **{name: getattr(solution, name) for name in names},
        }
        print(
            f"{loss.title:<12}{solution.class_margin_degrees:>8.2f}{loss.paper_degrees:>8.2f}{optimum:>9.2f}"
            f"{solution.sample_margin:>15.3f}  {solution.late_turn_degrees:.2f}"
            f"{'' if solution.converged else ', not converged'}",
            flush=True,
        )
    if not all(solution.converged for solution in solutions.values()):
        print(
            f"\nNot converged: a prototype turned by {hs.theory.CONVERGED_DEGREES} degrees or more over the second"
            " half of the\nsteps; its margin says little beside the paper's. LM-Softmax is at its minimum after\n"
            "1,000 steps; the others are on their way after 13,000 (the paper: 500,000)."
        )
    picture = None
    if drawing:
        picture = hs.plots.save_figure(hs.reproduce.draw_toy(solutions), options.out / "spheres.png")
    note(f"\nThe four spheres: {picture}" if drawing else f"\n{hs.plots.NO_PICTURES}")
    about = {"steps": options.steps, "seed": options.seed, "optimum_degrees": optimum}
    return Results({**about, "losses": losses, "picture": picture})
