"""AmpFace on pocket faces: Table 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypersphere.plots import Panel, draw_panels
from hypersphere.reproduce.experiment.drawings import curve
from hypersphere.reproduce.experiment.evidence import PEOPLE, Evidence, experiment
from hypersphere.reproduce.experiment.setting import arcface, cosface, people
from hypersphere.reproduce.outcome import Finding, Outcome
from hypersphere.reproduce.papers.ampface.angle_curves import LOSS_NAMES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RELU = people("no margin, with the ReLU", "ampface", "head.margin=1.0")
_NONE = cosface("no margin", 0.0)
_SEARCHED = {
    "m0": {1.0: _RELU, **{m: people(f"m0 = {m:g}", "ampface", f"head.margin={m}") for m in (0.8, 0.6, 0.4, 0.2)}},
    "m1": {
        1.0: _RELU,
        **{
            m: people(f"m1 = {m:g}", "unified", "head.scale=24.0", f"head.m1={m}", "head.wrong_class_relu=true")
            for m in (1.2, 1.4, 1.6, 1.8)
        },
    },
    "m2": {0.0: _NONE, **{m: arcface(f"m2 = {m:g}", m) for m in (0.1, 0.2, 0.3, 0.5, 0.7)}},
    "m3": {0.0: _NONE, **{m: cosface(f"m3 = {m:g}", m) for m in (0.1, 0.2, 0.3, 0.4, 0.6)}},
}


@experiment("ampface/table3", [setting for group in _SEARCHED.values() for setting in group.values()])
def searched_margins(evidence: Evidence) -> Outcome:
    """Table 3 of AmpFace: m0 .. m3, one by one."""
    findings: list[Finding] = []
    for name, group in _SEARCHED.items():
        for margin, setting in group.items():
            row = f"{LOSS_NAMES[name]} {name} = {margin:g}"
            printed = evidence.printed(row, "MF Id") if row in evidence.job.entry.rows else ""
            findings.append(evidence.row(setting, "probes", paper=printed))
    for name, group in _SEARCHED.items():
        settings = list(group.values())
        said = f"the best {name} is inside the range tried"
        findings += evidence.best_inside(settings, "probes", none=settings[0], sentence=said)

    def figure() -> Figure:
        panels = [
            Panel("", name, "rank-1 of unseen people, %", [curve(evidence, name, list(g), list(g.values()), "probes")])
            for name, g in _SEARCHED.items()
        ]
        return draw_panels(panels)

    notes = [PEOPLE, "s = 24. One image of each of 400 unseen people is enrolled, the other nine are searched."]
    return Outcome(findings=findings, figures={"table3": figure}, notes=notes)
