"""Largest Margins on balanced pocket classes: Figs. 2, 4, 5, 6, 9, 10, 11."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hypersphere.plots import Line, Panel, draw_panels
from hypersphere.reproduce.experiment.drawings import draw_margins
from hypersphere.reproduce.experiment.evidence import CLASSES, Evidence, experiment
from hypersphere.reproduce.experiment.measure import METRICS
from hypersphere.reproduce.experiment.setting import Setting, classes
from hypersphere.reproduce.experiment.verdict import Interval, over_seeds
from hypersphere.reproduce.outcome import Finding, Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEN, HUNDRED = "10 people, 500 images each", "100 people, 60 images each"
_SIZES = {TEN: (10, 500, 350), HUNDRED: (100, 60, 500)}
_REGULARISED = (0.0, 0.5, 1.0)
_OPTIONS = {
    "cosface": ("head.margin=0.1",),
    "arcface": ("head.margin=0.1",),
    "normface": ("head.learnable_scale=false",),
}


def balanced(title: str, head: str, scale: float, data: str, *more: str) -> Setting:
    """A loss at a scale on ten or a hundred people."""
    count, images, steps = _SIZES[data]
    own = (f"head.scale={scale}", *_OPTIONS.get(head, ()), *more)
    return classes(title, head, *own, count=count, images=images, steps=steps)


def regularised(name: str, head: str, scale: float, data: str) -> list[Setting]:
    """A loss without and with R_sm."""
    return [balanced(f"{name}{f' + {w:g} R_sm' if w else ''}", head, scale, data, *_added(w)) for w in _REGULARISED]


def _added(weight: float) -> tuple[str, ...]:
    return (f"head.add.sample_margin.weight={weight}",) if weight else ()


_FIXED, _LEARNED = (
    balanced(title, "cosface", 20.0, TEN, "train.checkpoint_every=50", *more)
    for title, more in (("fixed prototypes", ("head.prototypes=simplex",)), ("learned prototypes", ()))
)


@experiment("largest-margins/fig2", [_FIXED, _LEARNED])
def fixed_prototypes(evidence: Evidence) -> Outcome:
    """Fig. 2: accuracy and margins over training, with fixed and with learned prototypes."""
    names = ("accuracy", "class margin", "sample margin")
    findings = [evidence.row(s, name) for s in (_FIXED, _LEARNED) for name in names]
    findings.append(
        evidence.larger("class margin", _FIXED, _LEARNED, sentence="fixed prototypes have the larger class margin")
    )
    findings.append(
        evidence.larger(
            "sample margin", _LEARNED, _FIXED, sentence="their sample margin ends smaller than with learned ones"
        )
    )
    gain = evidence.gain(_FIXED, _LEARNED, "samples")
    findings.append(
        evidence.judged(
            None if gain is None else Interval(1 - gain.value, 1 - gain.high, 1 - gain.low),
            gain.text() if gain else "not measured",
            (_FIXED, _LEARNED),
            sentence="fixed prototypes gain little accuracy: less than a point",
        )
    )

    def figure() -> Figure:
        panels = []
        for column, name in enumerate(names, start=1):
            lines = []
            for setting in (_FIXED, _LEARNED):
                trained = [r.arrays["history"] for r in evidence.records[setting] if not r.stopped]
                if not trained:
                    continue
                history = np.stack(trained)
                values = history[:, :, column]
                steps = history[0, :, 0]
                lines.append(Line(setting.title, steps, values.mean(0), "-", values.min(0), values.max(0)))
            panels.append(Panel("", "step", METRICS[name].title, lines))
        return draw_panels(panels)

    notes = [CLASSES, f"{TEN}, CosFace with s = 20, m = 0.1; a simplex as the fixed prototypes."]
    return Outcome(findings=findings, figures={"fig2": figure}, notes=notes)


def moved(evidence: Evidence, groups: Sequence[tuple[str, Sequence[Setting]]], label: str) -> Outcome:
    """That R_sm moves both histograms to larger values."""
    findings: list[Finding] = []
    for data, settings in groups:
        for setting in settings:
            for name in ("similarity", "sample margin"):
                findings.append(evidence.row(setting, name, data=data))
        for name in ("similarity", "sample margin"):
            for setting in settings[1:]:
                said = f"{data}: {name} is larger with {setting.title.split(' + ')[-1]}"
                findings.append(evidence.larger(name, setting, settings[0], sentence=said))
    return Outcome(findings=findings, figures={label: lambda: draw_margins(evidence, groups)}, notes=[CLASSES])


def _register(item_id: str, groups: Sequence[tuple[str, Sequence[Setting]]]) -> Callable[[Evidence], Outcome]:
    label = item_id.split("/")[1]

    @experiment(item_id, [setting for _, settings in groups for setting in settings])
    def judge(evidence: Evidence) -> Outcome:
        return moved(evidence, groups, label)

    return judge


_COSFACE = [(data, regularised("CosFace, s = 64", "cosface", 64.0, data)) for data in (TEN, HUNDRED)]
_register("largest-margins/fig4", [(TEN, regularised("CosFace, s = 20", "cosface", 20.0, TEN))])
_register(
    "largest-margins/fig10",
    [(data, regularised("ArcFace, s = 20", "arcface", 20.0, data)) for data in (TEN, HUNDRED)],
)
_NORMFACE = {data: regularised("NormFace, s = 64", "normface", 64.0, data) for data in (TEN, HUNDRED)}
_register("largest-margins/fig11", list(_NORMFACE.items()))


@experiment("largest-margins/fig9", [setting for _, settings in _COSFACE for setting in settings])
def cosface_64(evidence: Evidence) -> Outcome:
    """Fig. 9: CosFace at s = 64."""
    outcome = moved(evidence, _COSFACE, "fig9")
    plain, *_, most = _COSFACE[0][1]
    value = evidence.value("similarity of CosFace, s = 64, mostly", plain, "similarity", note=f"{TEN}, mean")
    near = evidence.values(most, "similarity")
    claim = evidence.judged(
        over_seeds(near - 0.9),
        f"{near.mean():.3f}",
        (most,),
        sentence=f"{TEN}: with R_sm similarities are near 1: above 0.9 in the mean",
    )
    return Outcome(findings=[value, *outcome.findings, claim], figures=outcome.figures, notes=outcome.notes)


_SCALES = (5.0, 10.0, 20.0, 64.0)


def _stays_large(item_id: str, data: str) -> Callable[[Evidence], Outcome]:
    settings = [balanced(f"LM-Softmax, s = {s:g}", "lm_softmax", s, data) for s in _SCALES]
    rival, label = _NORMFACE[data][0], item_id.split("/")[1]

    @experiment(item_id, [*settings, rival])
    def judge(evidence: Evidence) -> Outcome:
        names = ("similarity", "sample margin")
        findings = [evidence.row(s, name) for s in (*settings, rival) for name in names]
        for name in names:
            values = np.array([evidence.values(setting, name) for setting in settings])
            shares = values.min(0) / values.max(0)
            findings.append(
                evidence.judged(
                    over_seeds(shares - 0.9),
                    f"smallest over largest, by seed: {', '.join(f'{share:.3f}' for share in shares)}",
                    settings,
                    sentence=f"{name} of LM-Softmax stays within a tenth for s = 5, 10, 20 and 64",
                )
            )
            smallest = settings[int(np.nanargmin(values.mean(1)))] if np.isfinite(values).all() else settings[0]
            said = f"its smallest {name} is larger than that of NormFace at s = 64"
            findings.append(evidence.larger(name, smallest, rival, sentence=said))
        groups = [(data, [*settings, rival])]
        return Outcome(findings=findings, figures={label: lambda: draw_margins(evidence, groups)}, notes=[CLASSES])

    return judge


_stays_large("largest-margins/fig5", TEN)
_stays_large("largest-margins/fig6", HUNDRED)
