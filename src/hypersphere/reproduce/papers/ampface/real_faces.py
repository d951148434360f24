"""AmpFace on real faces: Table 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypersphere.plots import Panel, draw_panels
from hypersphere.reproduce.experiment.drawings import curve
from hypersphere.reproduce.experiment.evidence import Evidence, experiment
from hypersphere.reproduce.experiment.face_records import NOTE, SETS, faces
from hypersphere.reproduce.experiment.setting import Setting
from hypersphere.reproduce.outcome import Finding, Outcome
from hypersphere.reproduce.papers.ampface.angle_curves import LOSS_NAMES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_UNIT = "head.prototype_norm=1.0"


def _m0(margin: float) -> Setting:
    return faces(f"m0 = {margin:g}", "ampface", f"head.margin={margin}", _UNIT)


def _m1(margin: float) -> Setting:
    options = ("head.scale=30.0", f"head.m1={margin}", "head.wrong_class_relu=true", _UNIT)
    return faces(f"m1 = {margin:g}", "unified", *options)


_SEARCHED = {
    "m0": {1.0: _m0(1.0), **{m: _m0(m) for m in (0.8, 0.6, 0.4)}},
    "m1": {1.0: _m0(1.0), **{m: _m1(m) for m in (1.2, 1.5, 1.8)}},
    "m2": {m: faces(f"m2 = {m:g}", "arcface", f"head.margin={m}") for m in (0.0, 0.1, 0.3, 0.5, 0.7)},
    "m3": {m: faces(f"m3 = {m:g}", "cosface", f"head.margin={m}", _UNIT) for m in (0.0, 0.1, 0.2, 0.35, 0.5)},
}


@experiment("ampface/table3", [setting for group in _SEARCHED.values() for setting in group.values()])
def searched_margins(evidence: Evidence) -> Outcome:
    """Table 3 of AmpFace: m0 .. m3, one by one."""
    findings: list[Finding] = []
    for name, group in _SEARCHED.items():
        for margin, setting in group.items():
            row = f"{LOSS_NAMES[name]} {name} = {margin:g}"
            printed = evidence.printed(row, "MF Id") if row in evidence.job.entry.rows else ""
            findings.append(evidence.row(setting, "lfw", paper=printed))
            findings.append(evidence.row(setting, "pairs", data="held-out people"))
    for name, group in _SEARCHED.items():
        settings = list(group.values())
        for outcome, where in SETS.items():
            said = f"the best {name} is inside the range tried, {where}"
            findings += evidence.best_inside(settings, outcome, none=settings[0], sentence=said)

    def figure() -> Figure:
        panels = [
            Panel("", name, "accuracy on LFW, %", [curve(evidence, name, list(g), list(g.values()), "lfw")])
            for name, g in _SEARCHED.items()
        ]
        return draw_panels(panels)

    notes = [NOTE, "s = 30, prototypes from norm 1, one learning rate (0.1) for all; the paper identifies MegaFace's."]
    return Outcome(findings=findings, figures={"table3": figure}, notes=notes)
