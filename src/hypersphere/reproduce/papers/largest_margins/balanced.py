"""Largest Margins on balanced CIFAR-10 (Figs. 2, 4, 5, 9, 10, 11), and on people in CIFAR-100's place (Fig. 6)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hypersphere.plots import Line, Panel, draw_panels
from hypersphere.reproduce.experiment.drawings import draw_margins
from hypersphere.reproduce.experiment.evidence import CLASSES, Evidence, experiment
from hypersphere.reproduce.experiment.measure import METRICS
from hypersphere.reproduce.experiment.objects import LM_WEIGHT, NOTE, balanced
from hypersphere.reproduce.experiment.setting import NORMFACE, Setting, classes
from hypersphere.reproduce.experiment.verdict import Interval, over_seeds
from hypersphere.reproduce.job import Job
from hypersphere.reproduce.outcome import Finding, Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OBJECTS, HUNDRED = "CIFAR-10", "100 people, 60 images each"
_WEIGHTS = (0.0, 0.5, 1.0)
"""Of R_sm."""
_HEADS = {
    "CosFace": ("cosface", "head.margin=0.1"),
    "ArcFace": ("arcface", "head.margin=0.1"),
    "NormFace": ("normface", "head.learnable_scale=false"),
    "LM-Softmax": ("lm_softmax",),
}


def even(job: Job, loss: str, scale: float, weight: float = 0.0, *more: str, title: str = "") -> Setting:
    """A loss at a scale on CIFAR-10 with so much of R_sm."""
    head, *options = _HEADS[loss]
    times = (f"head.loss_weight={LM_WEIGHT}",) if loss == "LM-Softmax" else ()
    added = (f"head.add.sample_margin.weight={weight}",) if weight else ()
    name = title or f"{loss}, s = {scale:g}{f' + {weight:g} R_sm' if weight else ''}"
    return balanced(job, name, head, *times, f"head.scale={float(scale)}", *options, *added, *more)


def crowd(_: Job, loss: str, scale: float) -> Setting:
    """A loss at a scale on a hundred people, in the place of CIFAR-100."""
    head, *options = NORMFACE if loss == "NormFace" else _HEADS[loss]
    own = (f"head.scale={float(scale)}", *options)
    return classes(f"{loss}, s = {scale:g}", head, *own, count=100, images=60, steps=3000)  # 500 fit 56 to 79 %


def _prototypes(job: Job) -> list[Setting]:
    looks = "train.checkpoint_every=392"
    return [
        even(job, "CosFace", 20, 0.0, looks, "head.prototypes=simplex", title="fixed prototypes"),
        even(job, "CosFace", 20, 0.0, looks, title="learned prototypes"),
    ]


@experiment("largest-margins/fig2", _prototypes)
def fixed_prototypes(evidence: Evidence) -> Outcome:
    """Fig. 2: accuracy and margins over training, with fixed and with learned prototypes."""
    names = ("accuracy", "class margin", "sample margin")
    fixed, learned = both = tuple(evidence.records)
    findings = [evidence.row(s, name) for s in both for name in names]
    findings.append(
        evidence.larger("class margin", fixed, learned, sentence="fixed prototypes have the larger class margin")
    )
    findings.append(
        evidence.larger(
            "sample margin", learned, fixed, sentence="their sample margin ends smaller than with learned ones"
        )
    )
    gain = evidence.gain(fixed, learned, "samples")
    findings.append(
        evidence.judged(
            None if gain is None else Interval(1 - gain.value, 1 - gain.high, 1 - gain.low),
            gain.text() if gain else "not measured",
            both,
            sentence="fixed prototypes gain little accuracy: less than a point",
        )
    )

    def figure() -> Figure:
        panels = []
        for column, name in enumerate(names, start=1):
            lines = []
            for setting in both:
                trained = [r.arrays["history"] for r in evidence.records[setting] if "history" in r.arrays]
                if not trained:
                    continue
                history = np.stack(trained)
                values = history[:, :, column]
                steps = history[0, :, 0]
                lines.append(Line(setting.title, steps, values.mean(0), "-", values.min(0), values.max(0)))
            panels.append(Panel("", "step", METRICS[name].title, lines))
        return draw_panels(panels)

    notes = [NOTE, "CosFace with s = 20, m = 0.1; a simplex as the fixed prototypes."]
    return Outcome(findings=findings, figures={"fig2": figure}, notes=notes)


def _moved(evidence: Evidence, label: str) -> Outcome:
    """That R_sm moves both histograms to larger values."""
    plain, *more = settings = list(evidence.records)
    names = ("similarity", "sample margin")
    findings = [evidence.row(setting, name) for setting in settings for name in names]
    findings += [
        evidence.larger(name, setting, plain, sentence=f"{name} is larger with {setting.title.split(' + ')[-1]}")
        for name in names
        for setting in more
    ]
    figures = {label: lambda: draw_margins(evidence, [(OBJECTS, settings)])}
    return Outcome(findings=findings, figures=figures, notes=[NOTE])


def _weighted(loss: str, scale: float) -> Callable[[Job], list[Setting]]:
    """A loss without and with R_sm."""
    return lambda job: [even(job, loss, scale, weight) for weight in _WEIGHTS]


for _label, _loss, _scale in (("fig4", "CosFace", 20), ("fig10", "ArcFace", 20), ("fig11", "NormFace", 64)):
    experiment(f"largest-margins/{_label}", _weighted(_loss, _scale))(partial(_moved, label=_label))


@experiment("largest-margins/fig9", _weighted("CosFace", 64))
def cosface_64(evidence: Evidence) -> Outcome:
    """Fig. 9: CosFace at s = 64."""
    outcome = _moved(evidence, "fig9")
    plain, *_, most = evidence.records
    value = evidence.value("similarity of CosFace, s = 64, mostly", plain, "similarity", note="mean")
    near = evidence.values(most, "similarity")
    claim = evidence.judged(
        over_seeds(near - 0.9),
        f"{near.mean():.3f}",
        (most,),
        sentence=f"with {most.title.split(' + ')[-1]} similarities are near 1: above 0.9 in the mean",
    )
    return Outcome(findings=[value, *outcome.findings, claim], figures=outcome.figures, notes=outcome.notes)


_SCALES = (5, 10, 20, 64)


def _stays_large(label: str, data: str, setting_of: Callable[[Job, str, float], Setting], note: str) -> None:
    def wanted(job: Job) -> list[Setting]:
        rows = (*(("LM-Softmax", scale) for scale in _SCALES), ("NormFace", 64))
        return [setting_of(job, loss, scale) for loss, scale in rows]

    @experiment(f"largest-margins/{label}", wanted)
    def judge(evidence: Evidence) -> Outcome:
        *settings, rival = every_one = list(evidence.records)
        names = ("similarity", "sample margin")
        findings = [evidence.row(s, name) for s in every_one for name in names]
        for name in names:
            values = np.array([evidence.values(setting, name) for setting in settings])
            shares = values.min(0) / values.max(0)
            by_seed = ", ".join(f"{share:.3f}" for share in shares if np.isfinite(share)) or "not measured"
            findings.append(
                Finding(what=f"{name} of LM-Softmax: smallest over largest of the four s, by seed", ours=by_seed)
            )
            smallest = settings[int(np.nanargmin(values.mean(1)))] if np.isfinite(values).all() else settings[0]
            said = f"its smallest {name} is larger than that of NormFace at s = 64"
            findings.append(evidence.larger(name, smallest, rival, sentence=said))
        figures = {label: lambda: draw_margins(evidence, [(data, every_one)])}
        return Outcome(findings=findings, figures=figures, notes=[note])


_stays_large("fig5", OBJECTS, even, NOTE)
_stays_large("fig6", HUNDRED, crowd, CLASSES)
