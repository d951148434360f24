"""`hypersphere advise`: which scale and margins to start from."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import hypersphere as hs
from hypersphere.cli.output import Results
from hypersphere.core import numbered_lines, parse_integer

MARGINS = ("m0", "m1", "m2", "m3")


def add_command(commands: Any) -> None:
    """Add `advise` to the command line."""
    parser = commands.add_parser(
        "advise", help="recommend scale and margins from the numbers of classes and dimensions"
    )
    parser.add_argument("--classes", type=int, help="how many classes (or --counts)")
    parser.add_argument("--dim", type=int, required=True, help="dimensions of the embedding")
    parser.add_argument("--scale", type=float, help="a scale of your own")
    parser.add_argument(
        "--counts", type=Path, help="a text file with the number of samples of every class, one per line"
    )
    for name in MARGINS:
        parser.add_argument(f"--{name}", type=float, help="a margin of your own to judge")
    parser.set_defaults(run="advise:run")


def run(options: argparse.Namespace) -> Results:
    """Print the recommendation, its alternatives and the warnings."""
    counts = None if options.counts is None else read_counts(options.counts)
    if options.classes is None and counts is None:
        raise ValueError("--classes or --counts is needed: the number of classes")
    classes = options.classes if counts is None or options.classes is not None else len(counts)
    advice = hs.theory.advise(classes, options.dim, scale=options.scale, class_counts=counts)
    print("\n".join(hs.theory.advice_lines(advice)))
    own = {name: getattr(options, name) for name in MARGINS if getattr(options, name) is not None}
    if not own:
        return Results({"advice": advice})
    setting = hs.theory.ExpectedSoftmax(num_classes=classes, dim=options.dim, scale=advice.setting.scale, **own)
    angle = hs.theory.termination_angle(setting)
    print("\n".join(hs.theory.judgement_lines(setting, own, angle)))
    judged = {"setting": setting, "ends_at": angle, "warnings": hs.theory.warn(setting)}
    return Results({"advice": advice, "own": judged})


def read_counts(path: Path) -> list[int]:
    """One whole number per line; empty lines are skipped."""
    counts = [
        parse_integer(text, f"{path}, line {number}: count of samples", 1) for number, text in numbered_lines(path)
    ]
    if not counts:
        raise ValueError(f"{path} holds no counts; it needs one whole number per line")
    return counts
