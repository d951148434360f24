"""Largest Margins on balanced classes, CIFAR-10's or people in their place: Figs. 2, 4, 5, 6, 9, 10, 11."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from hypersphere.plots import Line, Panel, draw_panels
from hypersphere.reproduce.experiment.drawings import draw_margins
from hypersphere.reproduce.experiment.evidence import CLASSES, Evidence, experiment
from hypersphere.reproduce.experiment.measure import METRICS
from hypersphere.reproduce.experiment.objects import LM_WEIGHT, NOTE, balanced
from hypersphere.reproduce.experiment.record_folder import objects_at_hand
from hypersphere.reproduce.experiment.setting import NORMFACE, Setting, classes
from hypersphere.reproduce.experiment.verdict import Interval, over_seeds
from hypersphere.reproduce.job import Job
from hypersphere.reproduce.outcome import Finding, Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OBJECTS, TEN, HUNDRED = "CIFAR-10", "10 people, 500 images each", "100 people, 60 images each"
_SIZES = {TEN: (10, 500, 350), HUNDRED: (100, 60, 500)}
_WEIGHTS = (0.0, 0.5, 1.0)
"""Of R_sm."""
_HEADS = {
    "CosFace": ("cosface", "head.margin=0.1"),
    "ArcFace": ("arcface", "head.margin=0.1"),
    "NormFace": ("normface", "head.learnable_scale=false"),
    "LM-Softmax": ("lm_softmax",),
}
Groups = list[tuple[str, list[Setting]]]


def even(job: Job, data: str, loss: str, scale: float, weight: float = 0.0, *more: str, title: str = "") -> Setting:
    """A loss at a scale on CIFAR-10, or on ten or a hundred people, with so much of R_sm."""
    head, *options = NORMFACE if loss == "NormFace" and data != OBJECTS else _HEADS[loss]
    added = (f"head.add.sample_margin.weight={weight}",) if weight else ()
    name = title or f"{loss}, s = {scale:g}{f' + {weight:g} R_sm' if weight else ''}"
    own = (f"head.scale={float(scale)}", *options, *added, *more)
    if data == OBJECTS:
        times = (f"head.loss_weight={LM_WEIGHT}",) if loss == "LM-Softmax" else ()
        return balanced(job, name, head, *times, *own)
    count, images, steps = _SIZES[data]
    return classes(name, head, *own, count=count, images=images, steps=steps)


def _ten(job: Job) -> str:
    """CIFAR-10 where it is at hand, otherwise ten people in its place."""
    return OBJECTS if objects_at_hand(job.data) else TEN


def _note(data: str) -> str:
    return NOTE if data == OBJECTS else CLASSES


def _prototypes(job: Job) -> list[Setting]:
    data = _ten(job)
    looks = f"train.checkpoint_every={392 if data == OBJECTS else 50}"
    return [
        even(job, data, "CosFace", 20, 0.0, looks, "head.prototypes=simplex", title="fixed prototypes"),
        even(job, data, "CosFace", 20, 0.0, looks, title="learned prototypes"),
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

    data = _ten(evidence.job)
    notes = [_note(data), f"{data}, CosFace with s = 20, m = 0.1; a simplex as the fixed prototypes."]
    return Outcome(findings=findings, figures={"fig2": figure}, notes=notes)


def _groups(job: Job, loss: str, scale: float, *, crowd: bool) -> Groups:
    """A loss without and with R_sm on ten classes and, where no real ones are at hand, on a hundred people."""
    data = [_ten(job), *([HUNDRED] if crowd and _ten(job) == TEN else [])]
    return [(each, [even(job, each, loss, scale, weight) for weight in _WEIGHTS]) for each in data]


def _moved(evidence: Evidence, groups: Groups, label: str) -> Outcome:
    """That R_sm moves both histograms to larger values."""
    findings: list[Finding] = []
    for data, (plain, *more) in groups:
        for setting in (plain, *more):
            for name in ("similarity", "sample margin"):
                findings.append(evidence.row(setting, name, data=data))
        for name in ("similarity", "sample margin"):
            for setting in more:
                said = f"{data}: {name} is larger with {setting.title.split(' + ')[-1]}"
                findings.append(evidence.larger(name, setting, plain, sentence=said))
    figures = {label: lambda: draw_margins(evidence, groups)}
    return Outcome(findings=findings, figures=figures, notes=[_note(groups[0][0])])


def _register(label: str, loss: str, scale: float, *, crowd: bool = True) -> None:
    def groups(job: Job) -> Groups:
        return _groups(job, loss, scale, crowd=crowd)

    @experiment(f"largest-margins/{label}", lambda job: [each for _, settings in groups(job) for each in settings])
    def judge(evidence: Evidence) -> Outcome:
        return _moved(evidence, groups(evidence.job), label)


_register("fig4", "CosFace", 20, crowd=False)
_register("fig10", "ArcFace", 20)
_register("fig11", "NormFace", 64)


def _cosface(job: Job) -> Groups:
    return _groups(job, "CosFace", 64, crowd=True)


@experiment("largest-margins/fig9", lambda job: [each for _, settings in _cosface(job) for each in settings])
def cosface_64(evidence: Evidence) -> Outcome:
    """Fig. 9: CosFace at s = 64."""
    groups = _cosface(evidence.job)
    outcome = _moved(evidence, groups, "fig9")
    data, (plain, *_, most) = groups[0]
    value = evidence.value("similarity of CosFace, s = 64, mostly", plain, "similarity", note=f"{data}, mean")
    near = evidence.values(most, "similarity")
    claim = evidence.judged(
        over_seeds(near - 0.9),
        f"{near.mean():.3f}",
        (most,),
        sentence=f"{data}: with R_sm similarities are near 1: above 0.9 in the mean",
    )
    return Outcome(findings=[value, *outcome.findings, claim], figures=outcome.figures, notes=outcome.notes)


_SCALES = (5, 10, 20, 64)


def _stays_large(label: str, data_of: Callable[[Job], str], *more: str) -> None:
    def wanted(job: Job) -> list[Setting]:
        rows = (*(("LM-Softmax", scale) for scale in _SCALES), ("NormFace", 64))
        return [even(job, data_of(job), loss, scale, 0.0, *more) for loss, scale in rows]

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
        data = data_of(evidence.job)
        figures = {label: lambda: draw_margins(evidence, [(data, every_one)])}
        return Outcome(findings=findings, figures=figures, notes=[_note(data)])


_stays_large("fig5", _ten)
_stays_large("fig6", lambda _: HUNDRED, "train.steps=3000")  # CIFAR-100 is not at hand; 500 fit 56 to 79 %
