"""Largest Margins on people never seen: ranking, Tables 3 and 8."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypersphere.plots import Panel, draw_panels
from hypersphere.reproduce.experiment.drawings import curve, draw_rows
from hypersphere.reproduce.experiment.evidence import PEOPLE, Evidence, Floats, each, experiment
from hypersphere.reproduce.experiment.setting import people
from hypersphere.reproduce.experiment.verdict import over_seeds
from hypersphere.reproduce.outcome import Finding, Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NECK = (
    "augment.erase=0.5",
    "backbone.bnneck=true",
    "before_neck.triplet={margin=0.3, mining='hard', distance='euclidean'}",
    "schedule={name='cosine', unit='epoch', warmup=2.0, warmup_start=0.1}",
    "train.sampler=identity",
    "train.images_per_identity=4",
)

_SCALES = (10.0, 20.0, 32.0, 64.0)
_HEADS = {
    "ArcFace": ("arcface", "head.margin=0.3"),
    "CosFace": ("cosface", "head.margin=0.2"),
    "NormFace": ("normface", "head.learnable_scale=false"),
    "LM-Softmax": ("lm_softmax",),
}
_CE = people("CE", "label_smoothing", *_NECK)
_RANKED = {
    (name, s): people(f"{name} (s = {s:g})", head, *options, f"head.scale={s}", *_NECK)
    for name, (head, *options) in _HEADS.items()
    for s in _SCALES
}
_HOW = (
    "BNNeck, a hard triplet loss before it. Each of 400 unseen people is searched by one image among nine of every "
    "person; mAP in per cent."
)


def _ranges(evidence: Evidence, name: str, scales: tuple[float, ...]) -> Floats:
    values = [evidence.values(_RANKED[name, s], "precisions") for s in scales]
    return np.asarray(np.ptp(values, axis=0))


def _depends_less(evidence: Evidence, rival: str, scales: tuple[float, ...]) -> Finding:
    one, two = _ranges(evidence, "LM-Softmax", scales), _ranges(evidence, rival, scales)
    return evidence.judged(
        over_seeds(two - one),
        f"mAP, best minus worst over s, by seed: {each(one)}; {each(two)}",
        [_RANKED[name, s] for name in ("LM-Softmax", rival) for s in scales],
        sentence=f"LM-Softmax depends less on s than {rival}",
    )


def _figure(evidence: Evidence) -> Figure:
    lines = [curve(evidence, name, _SCALES, [_RANKED[name, s] for s in _SCALES], "precisions") for name in _HEADS]
    panel = Panel("", "s", "mAP of unseen people, %", lines, log_x=True)
    return draw_panels([panel], width=5.2, height=3.4)


_THREE = (10.0, 20.0, 64.0)


@experiment("largest-margins/table3", [_CE, *(_RANKED[name, s] for name in _HEADS for s in _THREE)])
def ranking(evidence: Evidence) -> Outcome:
    """Table 3: ranking with a triplet loss beside each loss."""
    settings = [_CE, *(_RANKED[name, s] for name in _HEADS for s in _THREE)]
    findings = [
        evidence.row(setting, "precisions", paper=evidence.printed(setting.title, "Market mAP")) for setting in settings
    ]
    findings += [evidence.better(_RANKED["LM-Softmax", s], _CE, "precisions") for s in _THREE]
    findings += [
        evidence.better(_RANKED["LM-Softmax", s], _RANKED[rival, s], "precisions")
        for rival in ("ArcFace", "CosFace", "NormFace")
        for s in _THREE
    ]
    findings += [_depends_less(evidence, rival, _THREE) for rival in ("ArcFace", "CosFace", "NormFace")]
    figures = {"table3": lambda: draw_rows(evidence, settings, "precisions", "mAP of unseen people, %")}
    return Outcome(findings=findings, figures=figures, notes=[PEOPLE, _HOW])


@experiment("largest-margins/table8", [_CE, *_RANKED.values()])
def ranking_by_scale(evidence: Evidence) -> Outcome:
    """Table 8: the same for s = 10, 20, 32, 64."""
    findings: list[Finding] = []
    for setting, row in ((_CE, "Softmax"), *((s, s.title) for s in _RANKED.values())):
        for name, column in (("precisions", "mAP"), ("rank-1", "rank-1"), ("rank-10", "rank-10")):
            printed = evidence.printed(row, f"Market {column}")
            findings.append(evidence.row(setting, name, paper=printed))
    own = _ranges(evidence, "LM-Softmax", _SCALES)
    findings.append(
        evidence.judged(
            over_seeds(3 - own),
            f"mAP, best minus worst, by seed: {each(own)}",
            [_RANKED["LM-Softmax", s] for s in _SCALES],
            sentence="LM-Softmax ranks about as well for s = 10, 20, 32 and 64: within 3 points",
        )
    )
    for rival in ("ArcFace", "CosFace", "NormFace"):
        theirs = _ranges(evidence, rival, _SCALES)
        settings = [_RANKED[rival, s] for s in _SCALES]
        findings.append(evidence.judged(over_seeds(theirs - 3), each(theirs), settings, sentence=f"{rival} does not"))
    figures = {"table8": lambda: _figure(evidence)}
    return Outcome(findings=findings, figures=figures, notes=[PEOPLE, _HOW])
