"""AmpFace's appendix, computed: loss and gradients over the angles (Figs. 11-14), termination angles (Fig. 5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hypersphere.plots import Line, Panel, draw_panels
from hypersphere.theory import (
    ExpectedSoftmax,
    half_nearest_angle,
    log_negative_weight_approximation,
    margin_loss,
    target_gradient,
    termination_angle,
    vary,
    wrong_class_gradient,
)
from hypersphere_papers.engine.job import Job, item
from hypersphere_papers.engine.outcome import Finding, Outcome, number
from hypersphere_papers.engine.verdict import Verdict, exactly

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


_FIGURES = {
    "fig11": "loss",
    "fig12": "target gradient",
    "fig13": "wrong-class gradient by target",
    "fig14": "wrong-class gradient by wrong class",
}


def curves() -> Outcome:
    """Figs. 11-14: loss and gradients over the angles, one parameter varied at a time."""
    plain, forty, eighty = ExpectedSoftmax(), math.radians(40), math.radians(80)
    findings = [
        number("loss at 40 degrees without margin", f"{float(margin_loss(plain, forty)):.3g}"),
        number("gradient for the target there, per radian", f"{float(target_gradient(plain, forty)):.3g}"),
    ]
    for name, value in BEST_MARGINS.items():
        setting = vary(plain, name, value)
        loss, pull = float(margin_loss(setting, forty)), float(target_gradient(setting, forty))
        push = float(wrong_class_gradient(setting, forty, eighty))
        what = f"{name} = {value}: loss, target and wrong-class gradient"
        findings.append(number(what, f"{loss:.3f}  {pull:.2f}  {push:.3f}"))
    notes = [
        "Target at 40 degrees, the wrong class at 80; C = 85,742, d = 512, s = 64 where not varied. The wrong class "
        "keeps its own angle, all others their expected weight. The paper prints no numbers for these curves.",
        _likeness(),
    ]
    return Outcome(findings=findings, notes=notes, figures={name: _drawing(name) for name in _FIGURES})


def _likeness() -> str:
    reach = [log_negative_weight_approximation(85_742, dim, 64.0) for dim in (512, 128)]
    return (
        f"App. C's likeness of d and m3: d from 512 to 128 adds {(reach[1] - reach[0]) / 64:.3f} to the needed cosine, "
        "as m3 of that size would."
    )


def _drawing(figure: str) -> Callable[[], Figure]:
    return lambda: _draw_curves(_FIGURES[figure])


@item(*(f"ampface/{name}" for name in _FIGURES))
def curves_at_forty(job: Job) -> Outcome:
    """Figs. 11-14: loss and gradients over the angles."""
    figure = job.entry.id.split("/")[1]
    forty, eighty = math.radians(40), math.radians(80)
    findings = []
    for name, value in {"no margin": 1.0, **BEST_MARGINS}.items():
        setting = ExpectedSoftmax() if name == "no margin" else vary(ExpectedSoftmax(), name, value)
        title = name if name == "no margin" else f"{LOSS_NAMES[name]}, {name} = {value}"
        if figure == "fig11":
            what, ours = "loss", float(margin_loss(setting, forty))
        elif figure == "fig12":
            what, ours = "dL / d target angle, 1/rad", float(target_gradient(setting, forty))
        else:
            what, ours = "dL / d wrong angle (at 80), 1/rad", float(wrong_class_gradient(setting, forty, eighty))
        findings.append(number(f"{title}: {what}, target at 40 degrees", f"{ours:.3g}"))
    return Outcome(findings=findings, figures={figure: _drawing(figure)}, notes=[_likeness()])


def _draw_curves(kind: str) -> Figure:
    degrees = np.linspace(0, 120, 361)
    angles = np.radians(degrees)
    panels = []
    for name, values in _VARIED.items():
        lines = []
        for value in values:
            setting = vary(ExpectedSoftmax(), name, value)
            y, moved, label = _curve(kind, setting, angles)
            lines.append(Line(f"{_SYMBOLS.get(name, name)} = {value:,}", degrees, y))
        panels.append(Panel(f"varying {_SYMBOLS.get(name, name)}", moved, label, lines))
    return draw_panels(panels, columns=4, width=3.2, height=2.6)


def _curve(kind: str, setting: ExpectedSoftmax, angles: Any) -> tuple[Any, str, str]:
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


def termination() -> Outcome:
    """App. B: the best margins end at the same angle, half the one to the nearest prototype."""
    findings: list[Finding] = []
    for margins, printed in ((BEST_MARGINS, "~39.3"), (PUBLISHED_MARGINS, "")):
        for name, value in margins.items():
            angles = [termination_degrees(name, value, weight) for weight in ("approximation", "exact")]
            text = "  ".join("never" if math.isnan(angle) else f"{angle:.2f}" for angle in angles)
            findings.append(number(f"{LOSS_NAMES[name]}, {name} = {value}", text, printed))
    half = math.degrees(half_nearest_angle(85_742, 512))
    findings.append(number("half the angle to the nearest prototype", f"{half:.2f}", "39.32", "half of its 78.64"))
    notes = [
        "Degrees at which 1 - p_y = 0.1, under the paper's negative weight (first) and the exact one (second); "
        "C = 85,742, d = 512, s = 64. The four best margins of App. B end within 1.2 degrees of half the nearest "
        "angle; why they should is open, as the paper says. It prints no angle: 39.3 is its 'approximately half' of "
        "78.64.",
    ]
    return Outcome(findings=findings, notes=notes, figures={"termination": _draw_termination})


@item("ampface/fig5")
def termination_angles(job: Job) -> Outcome:
    """App. B on Fig. 5: the angle at which 1 - p_y is small under the best margins, for every reading of small."""
    findings = []
    for weight in ("approximation", "exact"):
        for name, value in BEST_MARGINS.items():
            degrees = termination_degrees(name, value, weight)
            what = f"{LOSS_NAMES[name]}, {name} = {value}, degrees"
            if weight == "approximation":
                findings.append(_at_every_level(job.value(what, degrees, digits=2), name, value))
            else:
                findings.append(number(f"{what}, with the exact wrong-class weight", f"{degrees:.2f}"))
    half = math.degrees(half_nearest_angle(85_742, 512))
    findings.append(number("half the exact angle to the nearest prototype, degrees", f"{half:.2f}"))
    notes = [
        "The angle with 1 - p_y = 0.1 at C = 85,742, d = 512, s = 64, with the wrong-class weight of eq. 10. A number "
        f"is held where it is within its tolerance for every 1 - p_y from {LEVELS[0]} to {LEVELS[-1]}, contradicted "
        "where for none of them, and otherwise undecided: the paper does not say at which the gradient vanishes.",
    ]
    return Outcome(findings=findings, figures={"fig5": _draw_termination}, notes=notes)


LEVELS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Of 1 - p_y, at which the gradient may be said to vanish."""


def _at_every_level(found: Finding, name: str, value: float) -> Finding:
    """An angle that the paper prints, judged at every level."""
    assert found.tolerance is not None
    angles = [termination_degrees(name, value, "approximation", level) for level in LEVELS]
    near = [abs(angle - float(found.paper)) <= found.tolerance for angle in angles]
    verdict: Verdict = exactly(near[0]) if len(set(near)) == 1 else "undecided"
    ends = f"{angles[0]:.1f} degrees at 1 - p_y = {LEVELS[0]}, {angles[-1]:.1f} at {LEVELS[-1]}"
    return replace(found, verdict=verdict, note=ends)


def termination_degrees(name: str, value: float, weight: str, level: float = 0.1) -> float:
    """The termination angle under one margin; NaN where p_y never gets there."""
    angle = termination_angle(vary(ExpectedSoftmax(weight=weight), name, value), level=level)
    return math.nan if angle is None else math.degrees(angle)


def _draw_termination() -> Figure:
    degrees = np.linspace(0, 90, 361)
    lines = [
        Line(
            f"{LOSS_NAMES[name]}, {name} = {value}",
            degrees,
            target_gradient(vary(ExpectedSoftmax(), name, value), np.radians(degrees)),
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
