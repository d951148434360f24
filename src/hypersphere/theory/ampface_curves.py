"""The appendix of Unifying Margin-Based Softmax Losses (AmpFace), Figs. 11-14 and App. B: reports."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

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
from hypersphere.theory.weights import log_negative_weight_approximation

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
