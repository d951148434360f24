"""Largest Margins on people never seen, real or of the pocket: ranking, Tables 3 and 8."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hypersphere.plots import Panel, draw_panels
from hypersphere.reproduce.experiment.drawings import curve, draw_rows
from hypersphere.reproduce.experiment.evidence import PEOPLE, Evidence, Floats, each, experiment
from hypersphere.reproduce.experiment.face_records import NOTE, faces, faces_or, ranked
from hypersphere.reproduce.experiment.setting import NORMFACE, Setting, people
from hypersphere.reproduce.experiment.verdict import over_seeds
from hypersphere.reproduce.job import Job
from hypersphere.reproduce.outcome import Finding, Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TRIPLET = (
    "backbone.bnneck=true",
    "before_neck.triplet={margin=0.3, mining='hard', distance='euclidean'}",
    "train.sampler=identity",
    "train.images_per_identity=4",
)
_POCKET = (
    "augment.erase=0.5",
    "schedule={name='cosine', unit='epoch', warmup=2.0, warmup_start=0.1}",
)
_REAL = ("optimizer.lr=0.02", "schedule.warmup=1.0")
_SCALES, _THREE = (10.0, 20.0, 32.0, 64.0), (10.0, 20.0, 64.0)
_HEADS = {"ArcFace": "arcface", "CosFace": "cosface", "NormFace": "normface", "LM-Softmax": "lm_softmax"}
_RIVALS = ("ArcFace", "CosFace", "NormFace")
Rows = Mapping[tuple[str, float], Setting]
"""Settings by loss and s; that of CE is 0."""
_CE = ("CE", 0.0)


def _options(name: str, scale: float, arcface: float, cosface: float) -> tuple[str, ...]:
    """Options of a loss at s, with two margins.

    LM-Softmax is weighted by s: eq. 3.5 divides it by s, and a triplet loss beside it would decide alone.
    """
    own = {
        "ArcFace": (f"head.margin={arcface}",),
        "CosFace": (f"head.margin={cosface}",),
        "NormFace": ("head.learnable_scale=false",),
        "LM-Softmax": (f"head.loss_weight={scale}",),
    }
    return (f"head.scale={scale}", *own[name])


def _rows(make: Callable[[str, str, float], Setting]) -> dict[tuple[str, float], Setting]:
    return {(name, s): make(f"{name} (s = {s:g})", name, s) for name in _HEADS for s in _SCALES}


def _painted(title: str, name: str, scale: float) -> Setting:
    head, *options = _HEADS[name], *_options(name, scale, 0.3, 0.2)
    if name == "NormFace":
        head, *options = (*NORMFACE, f"head.scale={scale}")
    return people(title, head, *options, *_TRIPLET, *_POCKET)


def _photographed(title: str, name: str, scale: float) -> Setting:
    start = "head.prototype_norm=1.0"
    return ranked(faces(title, _HEADS[name], *_options(name, scale, 0.5, 0.35), start, *_TRIPLET, *_REAL))


_PAINTED: Rows = {_CE: people("CE", "label_smoothing", *_TRIPLET, *_POCKET), **_rows(_painted)}
_SMOOTHED = ("head.smoothing=0.1", "head.bias=false")
_PHOTOGRAPHED: Rows = {
    _CE: ranked(faces("CE", "label_smoothing", *_SMOOTHED, *_TRIPLET, *_REAL)),
    **_rows(_photographed),
}
_BESIDE = "BNNeck, a hard triplet loss before it; LM-Softmax times s, which makes its gradients those of the others."
_HOW = {
    "pocket": [
        PEOPLE,
        f"{_BESIDE} Each of 400 unseen people is searched by one image among nine of every person; mAP in per cent.",
    ],
    "faces": [
        NOTE,
        f"{_BESIDE} Market-1501 and DukeMTMC are not at hand: every image of the 500 people held out ranks all their "
        "other images, and people count alike. Batches of 64 people with 4 images (repeated where somebody has fewer), "
        "a rate of 0.02 after an epoch of warm-up, prototypes from norm 1, no erasing; margins of 0.5 (ArcFace) and "
        "0.35 (CosFace), labels of CE smoothed by 0.1. Nothing was tuned.",
    ],
}


def _wanted(scales: Sequence[float]) -> Callable[[Job], Sequence[Setting]]:
    """What makes the settings of an item: on real faces where they are at hand."""
    chosen = [_CE, *((name, s) for name in _HEADS for s in scales)]
    return lambda job: faces_or(job, [_PHOTOGRAPHED[row] for row in chosen], [_PAINTED[row] for row in chosen])


def _table(evidence: Evidence) -> tuple[Rows, list[str]]:
    """The settings of an item by row, and how they were trained."""
    data = next(iter(evidence.records)).data
    every = _PHOTOGRAPHED if data == "faces" else _PAINTED
    return {row: setting for row, setting in every.items() if setting in evidence.records}, _HOW[data]


def _ranges(evidence: Evidence, rows: Rows, name: str) -> Floats:
    values = [evidence.values(setting, "precisions") for (loss, _), setting in rows.items() if loss == name]
    return np.asarray(np.ptp(values, axis=0))


def _of(rows: Rows, *names: str) -> list[Setting]:
    """The settings of losses."""
    return [setting for (loss, _), setting in rows.items() if loss in names]


def _depends_less(evidence: Evidence, rows: Rows, rival: str) -> Finding:
    one, two = _ranges(evidence, rows, "LM-Softmax"), _ranges(evidence, rows, rival)
    return evidence.judged(
        over_seeds(two - one),
        f"mAP, best minus worst over s, by seed: {each(one)}; {each(two)}",
        _of(rows, "LM-Softmax", rival),
        sentence=f"LM-Softmax depends less on s than {rival}",
    )


def _figure(evidence: Evidence, rows: Rows) -> Figure:
    lines = [curve(evidence, name, _SCALES, _of(rows, name), "precisions") for name in _HEADS]
    panel = Panel("", "s", "mAP of unseen people, %", lines, log_x=True)
    return draw_panels([panel], width=5.2, height=3.4)


@experiment("largest-margins/table3", _wanted(_THREE))
def ranking(evidence: Evidence) -> Outcome:
    """Table 3: ranking with a triplet loss beside each loss."""
    rows, notes = _table(evidence)
    settings = list(rows.values())
    findings = [
        evidence.row(setting, "precisions", paper=evidence.printed(setting.title, "Market mAP")) for setting in settings
    ]
    findings += [evidence.better(rows["LM-Softmax", s], rows[_CE], "precisions") for s in _THREE]
    findings += [
        evidence.better(rows["LM-Softmax", s], rows[rival, s], "precisions") for rival in _RIVALS for s in _THREE
    ]
    findings += [_depends_less(evidence, rows, rival) for rival in _RIVALS]
    figures = {"table3": lambda: draw_rows(evidence, settings, "precisions", "mAP of unseen people, %")}
    return Outcome(findings=findings, figures=figures, notes=notes)


@experiment("largest-margins/table8", _wanted(_SCALES))
def ranking_by_scale(evidence: Evidence) -> Outcome:
    """Table 8: the same for s = 10, 20, 32, 64."""
    rows, notes = _table(evidence)
    findings: list[Finding] = []
    for row, setting in rows.items():
        for name, column in (("precisions", "mAP"), ("rank-1", "rank-1"), ("rank-10", "rank-10")):
            printed = evidence.printed("Softmax" if row == _CE else setting.title, f"Market {column}")
            findings.append(evidence.row(setting, name, paper=printed))
    own = _ranges(evidence, rows, "LM-Softmax")
    findings.append(
        evidence.judged(
            over_seeds(3 - own),
            f"mAP, best minus worst, by seed: {each(own)}",
            _of(rows, "LM-Softmax"),
            sentence="LM-Softmax ranks about as well for s = 10, 20, 32 and 64: within 3 points",
        )
    )
    for rival in _RIVALS:
        theirs = _ranges(evidence, rows, rival)
        said = f"{rival} does not"
        findings.append(evidence.judged(over_seeds(theirs - 3), each(theirs), _of(rows, rival), sentence=said))
    return Outcome(findings=findings, figures={"table8": lambda: _figure(evidence, rows)}, notes=notes)
