"""AmpFace's appendix, computed: the nearest prototype, caps and the weight of the wrong classes (Figs. 7-10)."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from hypersphere.geometry import (
    angle_between,
    cap_angle_statistics,
    log_cap_area,
    nearest_angle,
    nearest_angle_asymptotics,
    sample_nearest_angles,
    uniform_cap,
)
from hypersphere.plots import Line, Panel, draw_panels
from hypersphere.theory import (
    log_negative_weight,
    log_negative_weight_approximation,
    relative_deviation,
    sample_negative_weights,
)
from hypersphere_papers.engine.job import Job, item
from hypersphere_papers.engine.outcome import Finding, Outcome, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PROBES, _DRAWS = 128, 200


def nearest() -> Outcome:
    """Fig. 7: the angle to the nearest prototype against the number of classes."""
    exact = number("exact expectation, degrees", _degrees(nearest_angle(85_742, 512).mean), "78.64", "not reproduced")
    notes = [
        "C = 85,742 uniform prototypes in 512 dimensions. The paper prints 78.64 in Fig. 7 and App. D, 80 in Fig. 18; "
        "its formula (Prop. 1) is not in the appendix. Neither the exact law nor sampling gives 78.64."
    ]
    return Outcome(findings=[exact, *_beside_the_expectation()], notes=notes, figures={"fig7": _draw_nearest})


@item("ampface/fig7")
def nearest_prototype(job: Job) -> Outcome:
    """Fig. 7: the angle to the nearest of C prototypes."""
    exact = job.value(
        "exact expectation at C = 85,742, degrees", math.degrees(nearest_angle(85_742, 512).mean), digits=2
    )
    means = [math.degrees(nearest_angle(10**power, 512).mean) for power in range(3, 8)]
    falls = [before - after for before, after in itertools.pairwise(means)]
    slightly = job.claim(
        min(falls) > 0 and max(falls) < _SLIGHTLY,
        f"{', '.join(f'{mean:.2f}' for mean in means)} degrees at C = 10^3 to 10^7",
        note=f"slightly: by less than {_SLIGHTLY:g} degrees for ten times as many prototypes",
    )
    return Outcome(findings=[slightly, exact, *_beside_the_expectation()], figures={"fig7": _draw_nearest})


_SLIGHTLY = 2.0
"""Degrees."""


def _beside_the_expectation() -> list[Finding]:
    sampled = sample_nearest_angles(85_742, 512, probes=_PROBES)
    error = math.degrees(float(sampled.std())) / math.sqrt(_PROBES)
    return [
        number(f"mean of {_PROBES} sampled", f"{math.degrees(float(sampled.mean())):.2f} ± {error:.2f}", "78.64"),
        number("exact standard deviation", _degrees(nearest_angle(85_742, 512).deviation)),
        *(
            number(f"asymptotics: {name}", _degrees(angle))
            for name, angle in nearest_angle_asymptotics(85_742, 512).items()
        ),
    ]


def _draw_nearest() -> Figure:
    counts = np.unique(np.round(np.logspace(math.log10(2), 7, 40)).astype(int))
    sampled = [10, 100, 1000, 10_000]
    lines = []
    for dim in (512, 128):
        laws = [nearest_angle(int(count), dim) for count in counts]
        mean, spread = (np.degrees([getattr(law, key) for law in laws]) for key in ("mean", "deviation"))
        lines.append(Line(f"exact, d = {dim} (± 1 deviation)", counts, mean, low=mean - spread, high=mean + spread))
    means = [math.degrees(float(sample_nearest_angles(count, 512, probes=64).mean())) for count in sampled]
    lines.append(Line("sampled, d = 512", sampled, means, "o"))
    lines.append(Line("the paper's 78.64", [85_742], [78.64], "x"))
    panel = Panel(
        "Nearest of C uniform prototypes",
        "number of prototypes C",
        "angle (degrees)",
        lines,
        {"C = 85,742": 85_742},
        log_x=True,
    )
    return draw_panels([panel], width=5.4, height=3.8)


def caps() -> Outcome:
    """Figs. 8 and 9: the area of a cap, and the angles of uniform points in it."""
    notes = ["The paper shows these as curves and prints no numbers. The mass lies at the edge for d = 512 (Prop. 2)."]
    figures = {"fig8": _draw_areas, "fig9": _draw_cap_angles}
    return Outcome(findings=[*_areas(), *_cap_angles()], notes=notes, figures=figures)


@item("ampface/fig8")
def cap_area(job: Job) -> Outcome:
    """Fig. 8: the logarithm of a cap's area."""
    return Outcome(findings=_areas(), figures={"fig8": _draw_areas})


@item("ampface/fig9")
def cap_angles(job: Job) -> Outcome:
    """Fig. 9: the angles of uniform points in a cap lie at its edge for d = 512, not for d = 8."""
    edge = math.radians(60)
    wide, narrow = (math.degrees(edge - cap_angle_statistics(edge, dim)[0]) for dim in (512, 8))
    held = job.claim(
        wide < 0.5 and narrow > 2,
        f"{wide:.2f} and {narrow:.2f} degrees inside a cap of 60",
        sentence="in 512 dimensions the mean angle is at the edge of the cap, in 8 well inside",
    )
    return Outcome(findings=[*_cap_angles(), held], figures={"fig9": _draw_cap_angles})


def _areas() -> list[Finding]:
    logs = {angle: float(log_cap_area(math.radians(angle), 512)) / math.log(10) for angle in (80, 45, 10)}
    return [
        number(f"log10 of the share of a {angle} degree cap, d = 512", f"{log10:.2f}") for angle, log10 in logs.items()
    ]


def _cap_angles() -> list[Finding]:
    findings = []
    for dim in (512, 8):
        for angle in (80, 40):
            mean, deviation = (math.degrees(v) for v in cap_angle_statistics(math.radians(angle), dim))
            findings.append(number(f"angles in a {angle} degree cap, d = {dim}", f"{mean:.2f} ± {deviation:.2f}"))
    return findings


def _draw_areas() -> Figure:
    angles = np.linspace(0.5, 90, 180)
    logs = log_cap_area(np.radians(angles), 512) / math.log(10)
    lines = [Line("d = 512", angles, logs)]
    panel = Panel("Area of a cap", "half-angle (degrees)", "log10 of its share of the sphere", lines)
    return draw_panels([panel], width=5.4, height=3.8)


def _draw_cap_angles() -> Figure:
    angles = np.linspace(0.5, 90, 60)
    lines = []
    for dim in (512, 8):
        mean, spread = np.degrees([cap_angle_statistics(float(a), dim) for a in np.radians(angles)]).T
        lines.append(Line(f"d = {dim}", angles, mean, low=mean - spread, high=mean + spread))
    edges = [15, 30, 45, 60, 75, 90]
    lines += [Line(f"sampled, d = {dim}", edges, [_sampled_mean(edge, dim) for edge in edges], "o") for dim in (512, 8)]
    lines.append(Line("the edge", angles, angles, ":"))
    label = "angle to the axis (degrees), ± 1 deviation"
    return draw_panels([Panel("Uniform points in a cap", "half-angle (degrees)", label, lines)], width=5.4, height=3.8)


def _sampled_mean(degrees: float, dim: int, count: int = 500) -> float:
    axis = torch.zeros(dim, dtype=torch.float64).index_fill_(0, torch.tensor([0]), 1.0)
    points = uniform_cap(count, axis, math.radians(degrees), generator=torch.Generator().manual_seed(0))
    return math.degrees(float(angle_between(points, axis).mean()))


_WEIGHT_NOTE = (
    "C = 85,742, d = 512, s = 64. The paper's 4.4562e6 reads off one draw (Fig. 10): it is within one deviation of the "
    "exact mean and 4.8 % below its own eq. 10, which overestimates because cosines are not quite normal."
)


def weights() -> Outcome:
    """Fig. 10: the total weight of the wrong classes."""
    square = f"{relative_deviation(85_742, 512, 64.0) ** 2:.4f}"
    bound = number("its square, the error bound at epsilon = 1", square, "0.0348", "e^(s^2/d)/C there")
    return Outcome(findings=[*_weights(), bound], notes=[_WEIGHT_NOTE], figures={"fig10": _draw_weights})


@item("ampface/fig10")
def wrong_class_weight(job: Job) -> Outcome:
    """Fig. 10: the total weight of the wrong classes."""
    mean = math.exp(log_negative_weight(85_742, 512, 64.0))
    printed = job.value("mean wrong-class weight at C = 85,742, exact", mean, note=_ONE_DRAW)
    findings = [
        one_draw(printed, mean, relative_deviation(85_742, 512, 64.0) * mean),
        job.value("e^(s^2/d) / C", math.exp(64**2 / 512) / 85_742, digits=4),
        *_weights(),
    ]
    return Outcome(findings=findings, figures={"fig10": _draw_weights}, notes=[_WEIGHT_NOTE])


_ONE_DRAW = (
    "the paper reads off one random draw: the tolerance is the deviation of one, 15 % of the mean, and about a "
    "third of the draws lie farther off"
)


def one_draw(printed: Finding, mean: float, deviation: float) -> Finding:
    """A number of the paper that is one draw, beside the mean of such draws: held within a deviation of it, otherwise
    undecided, as about a third of the draws are farther off.
    """
    near = abs(float(printed.paper) - mean) <= deviation
    return replace(printed, tolerance=float(f"{deviation:.2g}"), verdict="held" if near else "undecided")


def _weights() -> list[Finding]:
    classes, dim, scale = 85_742, 512, 64.0
    drawn = sample_negative_weights(classes, dim, scale, draws=_DRAWS)
    million = f"{drawn.mean / 1e6:.3f}e6 ± {drawn.standard_error / 1e6:.3f}e6"
    approximation = _million(log_negative_weight_approximation(classes, dim, scale))
    return [
        number("approximation (C-1) e^(s^2/2d), eq. 10", approximation),
        number("exact expectation (Bessel function)", _million(log_negative_weight(classes, dim, scale))),
        number(f"mean of {_DRAWS} draws", million, "4.4562e6"),
        number("deviation of one draw / mean, exact", f"{relative_deviation(classes, dim, scale):.4f}"),
    ]


def _draw_weights() -> Figure:
    counts = np.unique(np.round(np.logspace(2, 6, 41)).astype(int))
    exact = np.exp([log_negative_weight(int(count), 512, 64.0) for count in counts])
    spread = exact * [relative_deviation(int(count), 512, 64.0) for count in counts]
    formula = np.exp([log_negative_weight_approximation(int(count), 512, 64.0) for count in counts])
    drawn = [float(sample_negative_weights(int(c), 512, 64.0, draws=2).logs[0].exp()) for c in counts[::2]]
    lines = [
        Line(
            "exact mean ± 1 deviation", counts, exact, low=np.maximum(exact - spread, exact / 10), high=exact + spread
        ),
        Line("approximation, eq. 10", counts, formula, "--"),
        Line("one draw each", counts[::2], drawn, "o"),
        Line("the paper's 4.4562e6", [85_742], [4.4562e6], "x"),
    ]
    panel = Panel(
        "Weight of the wrong classes, d = 512, s = 64",
        "number of prototypes C",
        "sum of e^(s cos)",
        lines,
        {"C = 85,742": 85_742},
        log_x=True,
        log_y=True,
    )
    return draw_panels([panel], width=5.4, height=3.8)


def _degrees(angle: float) -> str:
    return f"{math.degrees(angle):.2f}"


def _million(log_weight: float) -> str:
    return f"{math.exp(log_weight) / 1e6:.3f}e6"
