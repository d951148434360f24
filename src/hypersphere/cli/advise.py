"""`hypersphere advise`: which scale and margins to start from."""

from __future__ import annotations

import argparse
import math
import textwrap
from collections.abc import Iterable
from pathlib import Path

from hypersphere.cli.commands.advise import MARGINS
from hypersphere.cli.output import Results
from hypersphere.core import parse_integer
from hypersphere.core.read_lines import numbered_lines
from hypersphere.theory import Advice, Choice, ExpectedSoftmax, advise, termination_angle, warn


def run(options: argparse.Namespace) -> Results:
    """Print the recommendation, its alternatives and the warnings."""
    counts = None if options.counts is None else read_counts(options.counts)
    if options.classes is None and counts is None:
        raise ValueError("--classes or --counts is needed: the number of classes")
    classes = options.classes if counts is None or options.classes is not None else len(counts)
    advice = advise(classes, options.dim, scale=options.scale, class_counts=counts)
    _print_advice(advice)
    own = {name: getattr(options, name) for name in MARGINS if getattr(options, name) is not None}
    if not own:
        return Results({"advice": advice})
    setting = ExpectedSoftmax(num_classes=classes, dim=options.dim, scale=advice.setting.scale, **own)
    angle = termination_angle(setting)
    _print_own(setting, own, angle)
    return Results({"advice": advice, "own": {"setting": setting, "ends_at": angle, "warnings": warn(setting)}})


def read_counts(path: Path) -> list[int]:
    """One whole number per line; empty lines are skipped."""
    counts = [
        parse_integer(text, f"{path}, line {number}: count of samples", 1) for number, text in numbered_lines(path)
    ]
    if not counts:
        raise ValueError(f"{path} holds no counts; it needs one whole number per line")
    return counts


def _print_advice(advice: Advice) -> None:
    setting = advice.setting
    print(f"{setting.num_classes:,} classes in {setting.dim:,} dimensions, scale {setting.scale:g}\n")
    print(f"nearest prototype, expected   {math.degrees(advice.nearest):6.2f} degrees (uniform prototypes)")
    print(f"the loss should end at        {math.degrees(advice.wanted):6.2f} degrees, half of it (AmpFace App. B)")
    plain = "never" if advice.plain is None else f"{math.degrees(advice.plain):6.2f} degrees"
    print(f"without a margin it ends at   {plain}\n")
    _print_notes(advice.warnings)
    if not advice.choices:
        print("No margin is needed or possible at this scale: the loss does not end above that angle by itself.\n")
    else:
        best = advice.choices[0]
        print("Start with\n")
        print(
            f'    hs.create_head("{best.loss}", dim={setting.dim}, num_classes={setting.num_classes}, '
            f"scale={setting.scale:g}, margin={best.value:.3f})\n"
        )
        print("or another that ends at the same angle (best first, by the AmpFace paper's table 3):\n")
        for choice in advice.choices:
            print(f"  {choice.loss:<14}{choice.margin} = {choice.value:.3f}")
            _print_notes(choice.warnings, indent="      ")
        print()
    _print_alternatives(advice.alternatives)
    if advice.imbalance is not None:
        uneven = advice.imbalance
        print(
            f"Classes differ {uneven.ratio:.3g} to 1. LDAM's margins, on average over classes those of CosFace above:\n"
        )
        print(f"    ldam, max_margin={uneven.max_margin:.3f} (rarest class; {uneven.min_margin:.3f} for the largest)\n")
        print("and add the zero_centroid regulariser (largest-margins sec. 3.2).\n")
    print(textwrap.fill("The rule is an observation at 85,742 classes, not a theorem; the scale is a convention.", 79))


def _print_alternatives(alternatives: Iterable[tuple[float, tuple[Choice, ...]]]) -> None:
    print(f"other scales  {'m0':>7}{'m1':>7}{'m2':>7}{'m3':>7}")
    for scale, choices in alternatives:
        values = {choice.margin: f"{choice.value:.3f}" for choice in choices}
        print(f"{scale:>12g}  " + "".join(f"{values.get(name, '-'):>7}" for name in MARGINS))
    print()


def _print_own(setting: ExpectedSoftmax, own: dict[str, float], angle: float | None) -> None:
    named = ", ".join(f"{name} = {value:g}" for name, value in own.items())
    print(f"\nYours, {named}: ends " + ("never" if angle is None else f"at {math.degrees(angle):.2f} degrees"))
    _print_notes(warn(setting))


def _print_notes(notes: Iterable[str], indent: str = "") -> None:
    for note in notes:
        print(textwrap.fill(f"! {note}", 79, initial_indent=indent, subsequent_indent=f"{indent}  "))
