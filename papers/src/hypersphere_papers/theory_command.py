"""`hypersphere theory`: what the papers prove or show in small, computed."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

import torch

import hypersphere as hs
from hypersphere.cli import Results, note, screen_width, wrapped
from hypersphere.core import Progress, is_installed
from hypersphere_papers import laboratory
from hypersphere_papers.commands import ITEMS, TOY


def run_list(options: argparse.Namespace) -> Results:
    """Print every item with its line."""
    items = {**ITEMS, "toy": TOY}
    for name, title in items.items():
        print(wrapped(f"{name:<16}", title))
    return Results({"items": items})


def run_item(options: argparse.Namespace) -> Results:
    """Print the numbers beside those expected, and write the figures."""
    drawing = _prepare(options.out)
    theorem = laboratory.THEOREMS[options.item]
    with Progress("computing", "parts") as progress:
        outcome = theorem.run(progress)
    print(f"{theorem.title}\n\n{laboratory.findings_table(outcome.findings, screen_width())}\n")
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
        picture = hs.plots.save_figure(laboratory.draw_toy(solutions), options.out / "spheres.png")
    note(f"\nThe four spheres: {picture}" if drawing else f"\n{hs.plots.NO_PICTURES}")
    about = {"steps": options.steps, "seed": options.seed, "optimum_degrees": optimum}
    return Results({**about, "losses": losses, "picture": picture})
