"""`hypersphere theory`: what the papers prove or show in small, computed."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path

import torch

from hypersphere.cli.commands.theory import TOY
from hypersphere.cli.output import Results, note, screen_width, wrapped
from hypersphere.core import Progress, is_installed
from hypersphere.plots import NO_PICTURES, save_figure
from hypersphere.reproduce import THEOREMS, Finding, draw_toy
from hypersphere.theory import CONVERGED_DEGREES, OPTIMUM_DEGREES, TOY_LOSSES, ToySolution, solve_toy


def run_list(options: argparse.Namespace) -> Results:
    """Print every item with its line."""
    items = {**{name: theorem.title for name, theorem in THEOREMS.items()}, "toy": TOY}
    for name, title in items.items():
        print(wrapped(f"{name:<16}", title))
    return Results({"items": items})


def run_item(options: argparse.Namespace) -> Results:
    """Print the numbers beside those expected, and write the figures."""
    drawing = _can_draw(options.out)
    torch.set_num_threads(1)
    note("computing, up to a quarter of a minute ...")
    theorem = THEOREMS[options.item]
    outcome = theorem.compute()
    print(f"{theorem.title}\n\n{table(outcome.findings, screen_width())}\n")
    for paragraph in outcome.notes:
        note(textwrap.fill(paragraph, 79))
    written = []
    for name, draw in outcome.figures.items() if drawing else ():
        figure = draw()
        for ending in ("png", "svg"):
            written.append(save_figure(figure, options.out / f"{name}.{ending}"))
            note(f"written: {written[-1]}")
    if outcome.figures and not drawing:
        note(NO_PICTURES)
    return Results({"title": theorem.title, "findings": outcome.findings, "notes": outcome.notes, "figures": written})


def table(findings: Sequence[Finding], width: int | None = None) -> str:
    """Findings as aligned text; in lines of at most `width` columns, as far as the numbers leave room."""
    said = ["; ".join(part for part in (found.verdict, found.note) if part) for found in findings]
    cells = [("", "ours", "expected", "")]
    cells += [(found.what, found.ours, found.paper, text) for found, text in zip(findings, said, strict=True)]
    widths = [max(len(line[place]) for line in cells) for place in range(3)]
    if width is not None:
        widths[0] = min(widths[0], max(width - widths[1] - widths[2] - 4, 20))
    lines = []
    for what, ours, expected, text in cells:
        *above, last = textwrap.wrap(what, widths[0]) or [""]
        row = f"{last:<{widths[0]}}  {ours:>{widths[1]}}  {expected:>{widths[2]}}  "
        lines += [*above, f"{row}{text}".rstrip()]
        if width is not None and len(lines[-1]) > width:
            lines[-1:] = [row.rstrip(), textwrap.indent(textwrap.fill(text, width - 4), " " * 4)]
    return "\n".join(lines)


def _can_draw(folder: Path) -> bool:
    """Return whether figures can be drawn, and make their folder if so: what cannot be written fails first."""
    if not is_installed("matplotlib"):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    return True


def _convergence(solution: ToySolution) -> str:
    return f"{solution.late_turn_degrees:.2f}{'' if solution.converged else ', not converged'}"


def run_toy(options: argparse.Namespace) -> Results:
    """Solve with each loss, print the class margins and write the spheres."""
    if options.steps < 1:
        raise ValueError(f"--steps {options.steps} must be at least 1")
    torch.set_num_threads(1)
    drawing = _can_draw(options.out)
    note("8 prototypes and 10 samples of each, free on the 3-D sphere")
    note("(Learning Towards the Largest Margins, Fig. 3)")
    note(f"{options.steps:,} steps of SGD, seed {options.seed}; class margins in degrees\n")
    print(f"{'loss':<12}{'ours':>8}{'paper':>8}{'optimum':>9}{'sample margin':>15}  late turn")
    solutions = {}
    for loss in TOY_LOSSES:
        with Progress(loss.title, "steps") as progress:
            solution = solve_toy(loss, steps=options.steps, seed=options.seed, progress=progress)
        solutions[loss] = solution
        print(
            f"{loss.title:<12}{solution.class_margin_degrees:>8.2f}{loss.paper_degrees:>8.2f}{OPTIMUM_DEGREES:>9.2f}"
            f"{solution.sample_margin:>15.3f}  {_convergence(solution)}",
            flush=True,
        )
    if not all(solution.converged for solution in solutions.values()):
        print(
            f"\nNot converged: a prototype turned by {CONVERGED_DEGREES} degrees or more over the second half of the\n"
            "steps; its margin says little beside the paper's. LM-Softmax is at its minimum after\n"
            "1,000 steps; the others are on their way after 13,000 (the paper: 500,000)."
        )
    picture = save_figure(draw_toy(solutions), options.out / "spheres.png") if drawing else None
    note(f"\nThe four spheres: {picture}" if drawing else f"\n{NO_PICTURES}")
    return Results(
        {
            "steps": options.steps,
            "seed": options.seed,
            "optimum_degrees": OPTIMUM_DEGREES,
            "losses": {
                loss.title: {
                    "class_margin_degrees": solution.class_margin_degrees,
                    "paper_degrees": loss.paper_degrees,
                    "sample_margin": solution.sample_margin,
                    "late_turn_degrees": solution.late_turn_degrees,
                    "converged": solution.converged,
                }
                for loss, solution in solutions.items()
            },
            "picture": picture,
        }
    )
