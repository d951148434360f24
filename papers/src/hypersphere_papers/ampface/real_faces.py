"""AmpFace on real faces: Table 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypersphere.plots import Panel, draw_panels
from hypersphere_papers.ampface.angle_curves import LOSS_NAMES
from hypersphere_papers.engine.drawings import curve
from hypersphere_papers.engine.evidence import Evidence, experiment
from hypersphere_papers.engine.face_records import LIGHT, LIGHT_NOTE, NOTE, SETS, faces
from hypersphere_papers.engine.outcome import Finding, Outcome
from hypersphere_papers.engine.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ALIKE = ("optimizer.lr=0.02", "head.prototype_norm=1.0", "head.scale=30.0", *LIGHT)
_DETACHED = "head.margin_grad=detached"
"""With the exact gradient of their margins, the largest m1 and m2 end in polar collapse."""
_FALLS = "head.margin_steps=648"
"""m0 falls from 1 over half of the steps: from 0.1 at once, a tenth of the pull starts no class."""


def _m0(margin: float) -> Setting:
    return faces(f"m0 = {margin:g}", "ampface", f"head.margin={margin}", _FALLS, *_ALIKE)


def _m1(margin: float) -> Setting:
    return faces(f"m1 = {margin:g}", "unified", f"head.m1={margin}", "head.wrong_class_relu=true", _DETACHED, *_ALIKE)


def _m2(margin: float) -> Setting:
    return faces(f"m2 = {margin:g}", "arcface", f"head.margin={margin}", _DETACHED, *_ALIKE)


def _m3(margin: float) -> Setting:
    return faces(f"m3 = {margin:g}", "cosface", f"head.margin={margin}", *_ALIKE)


_WITH_RELU = faces("m0 = m1 = 1", "ampface", "head.margin=1.0", *_ALIKE)
_WITHOUT = _m3(0.0).but("m2 = m3 = 0")
_SEARCHED = {
    "m0": {1.0: _WITH_RELU, **{m: _m0(m) for m in (0.6, 0.3, 0.1)}},
    "m1": {1.0: _WITH_RELU, **{m: _m1(m) for m in (1.2, 1.4, 1.8)}},
    "m2": {0.0: _WITHOUT, **{m: _m2(m) for m in (0.3, 0.6, 0.9)}},
    "m3": {0.0: _WITHOUT, **{m: _m3(m) for m in (0.2, 0.5, 0.9)}},
}
"""The ends of each range are the paper's, and its best is inside."""


@experiment("ampface/table3", [setting for group in _SEARCHED.values() for setting in group.values()])
def searched_margins(evidence: Evidence) -> Outcome:
    """Table 3 of AmpFace: m0 .. m3, one by one."""
    findings: list[Finding] = []
    for name, group in _SEARCHED.items():
        for margin, setting in group.items():
            row = f"{LOSS_NAMES[name]} {name} = {margin:g}"
            printed = evidence.printed(row, "MF Id") if row in evidence.job.entry.rows else None
            findings.append(evidence.row(setting, "lfw", paper=printed))
            findings.append(evidence.row(setting, "pairs", data="held-out people"))
    for name, group in _SEARCHED.items():
        for outcome, chosen_by in (("lfw", "pairs"), ("pairs", "lfw")):
            said = f"the best {name} {SETS[chosen_by]} is inside the range, judged {SETS[outcome]}"
            where = f", {SETS[outcome]}"
            findings += evidence.best_inside(
                list(group.values()), outcome, chosen_by=chosen_by, sentence=said, where=where
            )

    def figure() -> Figure:
        panels = [
            Panel("", name, "accuracy on LFW, %", [curve(evidence, name, list(g), list(g.values()), "lfw")])
            for name, g in _SEARCHED.items()
        ]
        return draw_panels(panels)

    notes = [
        NOTE,
        LIGHT_NOTE,
        "s = 30, prototypes from norm 1, a rate of 0.02, the gradients of m1 and m2 detached as InsightFace's are, m0 "
        "falling from 1 over the first half of the steps; the paper identifies MegaFace's. Ranges end where the "
        "paper's do. The best of the values inside is chosen on one set of people and judged on the other. "
        "Whether a deeper network has more use for margins is in [losses.md](../results/losses.md).",
    ]
    return Outcome(findings=findings, figures={"table3": figure}, notes=notes)
