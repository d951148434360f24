"""Largest Margins: people held out are ranked, Tables 3 and 8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from hypersphere.plots import Panel, draw_panels
from hypersphere_papers.engine.drawings import curve, draw_rows
from hypersphere_papers.engine.evidence import Evidence, Floats, Printed, experiment
from hypersphere_papers.engine.face_records import LIGHT, LIGHT_NOTE, NOTE, faces, ranked
from hypersphere_papers.engine.interval_text import each
from hypersphere_papers.engine.outcome import Finding, Outcome
from hypersphere_papers.engine.setting import Setting
from hypersphere_papers.engine.verdict import over_seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SCALES, _THREE = (10.0, 20.0, 32.0, 64.0), (10.0, 20.0, 64.0)
_RIVALS = ("ArcFace", "CosFace", "NormFace")
Rows = Mapping[tuple[str, float], Setting]
"""Settings by loss and s; that of CE is 0."""
_CE = ("CE", 0.0)
_PRINTED, _TIMES_S = "LM-Softmax", "LM-Softmax times s"
_FORMS = (_PRINTED, _TIMES_S)
_HOW = (
    *LIGHT,
    "backbone.bnneck=true",
    "before_neck.triplet={margin=0.3, mining='hard', distance='euclidean'}",
    "train.sampler=identity",
    "train.images_per_identity=4",
    "optimizer.name=adam",
    "optimizer.lr=0.001",
    "schedule.warmup=1.0",
    "train.epochs=40.0",
    "schedule.milestones=[24,33]",
)
_NOTES = [
    NOTE,
    LIGHT_NOTE,
    "Market-1501 and DukeMTMC are not at hand: every image of the 500 people held out ranks all their other images, "
    "and people count alike. BNNeck, a hard triplet loss before it. LM-Softmax is as printed, whose 1/s leaves the "
    "triplet loss beside it s times as heavy as beside the others, and times s, which takes the 1/s away. "
    "Batches of 64 people with 4 images, 40 epochs of Adam at 0.001 after one of warm-up, "
    "prototypes from norm 1, no erasing; margins of 0.5 (ArcFace) and 0.35 (CosFace), labels of CE smoothed by 0.1. "
    "The optimizer, its rate and the epochs were chosen by the fit alone, of another seed. What so small a network "
    "says of these losses need not hold for the paper's ResNet-50.",
]


def _row(name: str, scale: float) -> Setting:
    """A loss at s; LM-Softmax as eq. 3.5 prints it, divided by s, and times s."""
    head, *own = {
        "ArcFace": ("arcface", "head.margin=0.5"),
        "CosFace": ("cosface", "head.margin=0.35"),
        "NormFace": ("normface", "head.learnable_scale=false"),
        _PRINTED: ("lm_softmax", "head.loss_weight=1.0"),  # the recipe has 30
        _TIMES_S: ("lm_softmax", f"head.loss_weight={scale}"),
    }[name]
    options = (f"head.scale={scale}", *own, "head.prototype_norm=1.0")
    return ranked(faces(f"{name} (s = {scale:g})", head, *options, *_HOW))


_ROWS: Rows = {
    _CE: ranked(faces("CE", "label_smoothing", "head.smoothing=0.1", "head.bias=false", *_HOW)),
    **{(name, scale): _row(name, scale) for name in (*_RIVALS, *_FORMS) for scale in _SCALES},
}
_TABLE3: Rows = {(name, scale): row for (name, scale), row in _ROWS.items() if scale in (0.0, *_THREE)}


def _ranges(evidence: Evidence, rows: Rows, name: str) -> Floats:
    values = [evidence.values(setting, "precisions") for (loss, _), setting in rows.items() if loss == name]
    return np.asarray(np.ptp(values, axis=0))


def _of(rows: Rows, *names: str) -> list[Setting]:
    """The settings of losses."""
    return [setting for (loss, _), setting in rows.items() if loss in names]


def _depends_less(evidence: Evidence, rows: Rows, form: str, rival: str) -> Finding:
    one, two = _ranges(evidence, rows, form), _ranges(evidence, rows, rival)
    return evidence.judged(
        over_seeds(two - one),
        f"mAP, best minus worst over s, by seed: {each(one)}; {each(two)}",
        _of(rows, form, rival),
        sentence=f"{form} depends less on s than {rival}",
    )


def _beside(evidence: Evidence, row: str, column: str) -> Printed | None:
    """The paper's number of a row; None for a row that it does not have."""
    return evidence.printed(row, column) if row in evidence.job.entry.rows else None


def _figure(evidence: Evidence) -> Figure:
    lines = [curve(evidence, name, _SCALES, _of(_ROWS, name), "precisions") for name in (*_RIVALS, *_FORMS)]
    panel = Panel("", "s", "mAP of unseen people, %", lines)
    return draw_panels([panel], width=5.2, height=3.4)


@experiment("largest-margins/table3", list(_TABLE3.values()))
def ranking(evidence: Evidence) -> Outcome:
    """Table 3: ranking with a triplet loss beside each loss."""
    rows, settings = _TABLE3, list(_TABLE3.values())
    findings = [
        evidence.row(setting, "precisions", paper=_beside(evidence, setting.title, "Market mAP"))
        for setting in settings
    ]
    for form in _FORMS:
        findings += [evidence.better(rows[form, s], rows[_CE], "precisions") for s in _THREE]
        findings += [evidence.better(rows[form, s], rows[rival, s], "precisions") for rival in _RIVALS for s in _THREE]
        findings += [_depends_less(evidence, rows, form, rival) for rival in _RIVALS]
    figures = {"table3": lambda: draw_rows(evidence, settings, "precisions", "mAP of unseen people, %")}
    return Outcome(findings=findings, figures=figures, notes=_NOTES)


@experiment("largest-margins/table8", list(_ROWS.values()))
def ranking_by_scale(evidence: Evidence) -> Outcome:
    """Table 8: the same for s = 10, 20, 32, 64."""
    findings: list[Finding] = []
    for row, setting in _ROWS.items():
        for name, column in (("precisions", "mAP"), ("rank-1", "rank-1"), ("rank-10", "rank-10")):
            printed = _beside(evidence, "Softmax" if row == _CE else setting.title, f"Market {column}")
            findings.append(evidence.row(setting, name, paper=printed))
    for form in _FORMS:
        own = _ranges(evidence, _ROWS, form)
        findings.append(
            evidence.judged(
                over_seeds(3 - own),
                f"mAP, best minus worst, by seed: {each(own)}",
                _of(_ROWS, form),
                sentence=f"{form} ranks about as well for s = 10, 20, 32 and 64: within 3 points",
            )
        )
    for rival in _RIVALS:
        theirs = _ranges(evidence, _ROWS, rival)
        said = f"{rival} does not"
        findings.append(evidence.judged(over_seeds(theirs - 3), each(theirs), _of(_ROWS, rival), sentence=said))
    return Outcome(findings=findings, figures={"table8": lambda: _figure(evidence)}, notes=_NOTES)
