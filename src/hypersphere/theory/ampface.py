"""The appendix of Unifying Margin-Based Softmax Losses (AmpFace), Figs. 7-14: reports."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

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
from hypersphere.theory.losses import (
    Setting,
    half_nearest_angle,
    margin_loss,
    target_gradient,
    termination_angle,
    vary,
    wrong_class_gradient,
)
from hypersphere.theory.report import Report, Row
from hypersphere.theory.weights import (
    log_negative_weight,
    log_negative_weight_approximation,
    relative_deviation,
    sample_negative_weights,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEST_MARGINS = {"m0": 0.35, "m1": 1.85, "m2": 0.6, "m3": 0.5}
"""App. B: the best of its search, and the m1 that would end at the same angle."""
PUBLISHED_MARGINS = {"m1": 1.35, "m2": 0.5, "m3": 0.35}
"""App. B: the margins of the SphereFace (as retrained), ArcFace and CosFace papers."""
LOSS_NAMES = {"m0": "AmpFace", "m1": "SphereFace", "m2": "ArcFace", "m3": "CosFace"}
_VARIED: dict[str, tuple[float, ...]] = {
    "num_classes": (1_000, 10_000, 85_742, 1_000_000),
    "dim": (64, 128, 256, 512),
    "scale": (16, 32, 64, 128),
    "m0": (1.0, 0.7, 0.5, 0.35),
    "m1": (1.0, 1.2, 1.5, 1.85),
    "m2": (0.0, 0.2, 0.4, 0.6),
    "m3": (0.0, 0.2, 0.35, 0.5),
}
_SYMBOLS = {"num_classes": "C", "dim": "d", "scale": "s"}


def report_nearest(probes: int = 128) -> Report:
    """Fig. 7: the angle to the nearest prototype against the number of classes."""
    law = nearest_angle(85_742, 512)
    sampled = sample_nearest_angles(85_742, 512, probes=probes)
    error = math.degrees(float(sampled.std())) / math.sqrt(probes)
    paper = "78.64"
    rows = [
        Row("exact expectation, degrees", _degrees(law.mean), paper, "not reproduced"),
        Row(f"mean of {probes} sampled", f"{math.degrees(float(sampled.mean())):.2f} ± {error:.2f}", paper),
        Row("exact standard deviation", _degrees(law.deviation)),
        *(
            Row(f"asymptotics: {name}", _degrees(angle))
            for name, angle in nearest_angle_asymptotics(85_742, 512).items()
        ),
    ]
    notes = [
        "C = 85,742 uniform prototypes in 512 dimensions. The paper prints 78.64 in Fig. 7 and App. D, 80 in Fig. 18; "
        "its formula (Prop. 1) is not in the appendix. Neither the exact law nor sampling gives 78.64."
    ]
    return Report("Expected angle to the nearest prototype (AmpFace Fig. 7)", rows, notes, {"fig7": _draw_nearest})


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


def report_caps() -> Report:
    """Figs. 8 and 9: the area of a cap, and the angles of uniform points in it."""
    rows = []
    for angle in (80, 45, 10):
        log10 = float(log_cap_area(math.radians(angle), 512)) / math.log(10)
        rows.append(Row(f"log10 of the share of a {angle} degree cap, d = 512", f"{log10:.2f}"))
    for dim in (512, 8):
        for angle in (80, 40):
            mean, deviation = (math.degrees(v) for v in cap_angle_statistics(math.radians(angle), dim))
            rows.append(Row(f"angles in a {angle} degree cap, d = {dim}", f"{mean:.2f} ± {deviation:.2f}"))
    notes = ["The paper shows these as curves and prints no numbers. The mass lies at the edge for d = 512 (Prop. 2)."]
    return Report("Area of a cap and angles in it (AmpFace Figs. 8, 9)", rows, notes, {"fig8-9": _draw_caps})


def _draw_caps() -> Figure:
    angles = np.linspace(0.5, 90, 180)
    logs = log_cap_area(np.radians(angles), 512) / math.log(10)
    lines = []
    for dim in (512, 8):
        mean, spread = np.degrees([cap_angle_statistics(float(a), dim) for a in np.radians(angles[::3])]).T
        lines.append(Line(f"d = {dim}", angles[::3], mean, low=mean - spread, high=mean + spread))
    edges = [15, 30, 45, 60, 75, 90]
    lines += [Line(f"sampled, d = {dim}", edges, [_sampled_mean(edge, dim) for edge in edges], "o") for dim in (512, 8)]
    lines.append(Line("the edge", angles, angles, ":"))
    area = [Line("d = 512", angles, logs)]
    return draw_panels(
        [
            Panel("Area of a cap", "half-angle (degrees)", "log10 of its share of the sphere", area),
            Panel(
                "Uniform points in a cap", "half-angle (degrees)", "angle to the axis (degrees), ± 1 deviation", lines
            ),
        ],
        width=4.4,
        height=3.4,
    )


def _sampled_mean(degrees: float, dim: int, count: int = 500) -> float:
    axis = torch.zeros(dim, dtype=torch.float64).index_fill_(0, torch.tensor([0]), 1.0)
    points = uniform_cap(count, axis, math.radians(degrees), generator=torch.Generator().manual_seed(0))
    return math.degrees(float(angle_between(points, axis).mean()))


def report_weights(draws: int = 200) -> Report:
    """Fig. 10: the total weight of the wrong classes."""
    classes, dim, scale = 85_742, 512, 64.0
    sampled = sample_negative_weights(classes, dim, scale, draws=draws)
    relative = relative_deviation(classes, dim, scale)
    paper = "4.4562e6"
    rows = [
        Row("approximation (C-1) e^(s^2/2d), eq. 10", _million(log_negative_weight_approximation(classes, dim, scale))),
        Row("exact expectation (Bessel function)", _million(log_negative_weight(classes, dim, scale))),
        Row(f"mean of {draws} draws", f"{sampled.mean / 1e6:.3f}e6 ± {sampled.standard_error / 1e6:.3f}e6", paper),
        Row("deviation of one draw / mean, exact", f"{relative:.4f}"),
        Row("its square, the error bound at epsilon = 1", f"{relative**2:.4f}", "0.0348", "e^(s^2/d)/C there"),
    ]
    notes = [
        "C = 85,742, d = 512, s = 64. The paper's 4.4562e6 reads off one draw (Fig. 10): it is within one deviation of "
        "the exact mean and 4.8 % below its own eq. 10, which overestimates because cosines are not quite normal.",
    ]
    return Report("Total wrong-class weight (AmpFace Fig. 10)", rows, notes, {"fig10": _draw_weights})


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


def report_curves() -> Report:
    """Figs. 11-14: loss and gradients over the angles, one parameter varied at a time."""
    plain, forty, eighty = Setting(), math.radians(40), math.radians(80)
    rows = [
        Row("loss at 40 degrees without margin", f"{float(margin_loss(plain, forty)):.3g}"),
        Row("gradient for the target there, per radian", f"{float(target_gradient(plain, forty)):.3g}"),
    ]
    for name, value in BEST_MARGINS.items():
        setting = vary(plain, name, value)
        loss, pull = float(margin_loss(setting, forty)), float(target_gradient(setting, forty))
        push = float(wrong_class_gradient(setting, forty, eighty))
        rows.append(
            Row(f"{name} = {value}: loss, target and wrong-class gradient", f"{loss:.3f}  {pull:.2f}  {push:.3f}")
        )
    reach = [log_negative_weight_approximation(85_742, dim, 64.0) for dim in (512, 128)]
    notes = [
        "Target at 40 degrees, the wrong class at 80; C = 85,742, d = 512, s = 64 where not varied. The wrong class "
        "keeps its own angle, all others their expected weight. The paper prints no numbers for these curves.",
        f"App. C's likeness of d and m3: d from 512 to 128 adds {(reach[1] - reach[0]) / 64:.3f} to the needed cosine, "
        "as m3 of that size would.",
    ]
    return Report(
        "Loss and gradients over angles (AmpFace Figs. 11-14)",
        rows,
        notes,
        {
            "fig11": lambda: _draw_curves("loss"),
            "fig12": lambda: _draw_curves("target gradient"),
            "fig13": lambda: _draw_curves("wrong-class gradient by target"),
            "fig14": lambda: _draw_curves("wrong-class gradient by wrong class"),
        },
    )


def _draw_curves(kind: str) -> Figure:
    degrees = np.linspace(0, 120, 361)
    angles = np.radians(degrees)
    panels = []
    for name, values in _VARIED.items():
        lines = []
        for value in values:
            setting = vary(Setting(), name, value)
            y, moved, label = _curve(kind, setting, angles)
            lines.append(Line(f"{_SYMBOLS.get(name, name)} = {value:,}", degrees, y))
        panels.append(Panel(f"varying {_SYMBOLS.get(name, name)}", moved, label, lines))
    return draw_panels(panels, columns=4, width=3.2, height=2.6)


def _curve(kind: str, setting: Setting, angles: Any) -> tuple[Any, str, str]:
    target = "angle to the target (degrees)"
    if kind == "loss":
        return margin_loss(setting, angles), target, "loss"
    if kind == "target gradient":
        return target_gradient(setting, angles), target, "dL / d target angle (1/rad)"
    label = "dL / d wrong angle (1/rad)"
    if kind == "wrong-class gradient by target":
        return wrong_class_gradient(setting, angles, math.radians(80)), f"{target}, wrong class at 80", label
    wrong = wrong_class_gradient(setting, math.radians(40), angles)
    return wrong, "angle to a wrong class (degrees), target at 40", label


def report_termination() -> Report:
    """App. B: the best margins end at the same angle, half the one to the nearest prototype."""
    rows = []
    for name, value in BEST_MARGINS.items():
        ours = [_termination(vary(Setting(weight=weight), name, value)) for weight in ("approximation", "exact")]
        rows.append(Row(f"{LOSS_NAMES[name]}, {name} = {value}", f"{ours[0]}  {ours[1]}", "~39.3"))
    for name, value in PUBLISHED_MARGINS.items():
        ours = [_termination(vary(Setting(weight=weight), name, value)) for weight in ("approximation", "exact")]
        rows.append(Row(f"{LOSS_NAMES[name]}, {name} = {value}", f"{ours[0]}  {ours[1]}"))
    half = math.degrees(half_nearest_angle(85_742, 512))
    rows.append(Row("half the angle to the nearest prototype", f"{half:.2f}", "39.32", "half of its 78.64"))
    notes = [
        "Degrees at which 1 - p_y = 0.1, under the paper's negative weight (first) and the exact one (second); "
        "C = 85,742, d = 512, s = 64. The four best margins of App. B end within 1.2 degrees of half the nearest "
        "angle; why they should is open, as the paper says. It prints no angle: 39.3 is its 'approximately half' of "
        "78.64.",
    ]
    figures = {"termination": _draw_termination}
    return Report("Termination angles (AmpFace App. B)", rows, notes, figures)


def _draw_termination() -> Figure:
    degrees = np.linspace(0, 90, 361)
    lines = [
        Line(
            f"{LOSS_NAMES[name]}, {name} = {value}",
            degrees,
            target_gradient(vary(Setting(), name, value), np.radians(degrees)),
        )
        for name, value in BEST_MARGINS.items()
    ]
    panel = Panel(
        "The best margins stop pulling at one angle",
        "angle to the target (degrees)",
        "dL / d target angle (1/rad)",
        lines,
        {"half the nearest angle": math.degrees(half_nearest_angle(85_742, 512))},
    )
    return draw_panels([panel], width=5.4, height=3.8)


def _termination(setting: Setting) -> str:
    angle = termination_angle(setting)
    return "never" if angle is None else f"{math.degrees(angle):.2f}"


def _degrees(angle: float) -> str:
    return f"{math.degrees(angle):.2f}"


def _million(log_weight: float) -> str:
    return f"{math.exp(log_weight) / 1e6:.3f}e6"
