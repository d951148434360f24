"""Largest Margins on balanced CIFAR-10 (Figs. 2, 4, 5, 9, 10, 11), and on faces in CIFAR-100's place (Fig. 6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hypersphere.plots import Line, Panel, draw_panels
from hypersphere_papers.engine.drawings import draw_margins
from hypersphere_papers.engine.evidence import Evidence, experiment
from hypersphere_papers.engine.face_records import HUNDRED_PEOPLE, faces, with_margins
from hypersphere_papers.engine.job import Job
from hypersphere_papers.engine.measure import METRICS
from hypersphere_papers.engine.objects import LIGHT_NOTE, LM_WEIGHT, NOTE, balanced, measured
from hypersphere_papers.engine.outcome import NOT_MEASURED, Finding, Outcome
from hypersphere_papers.engine.setting import SMALL, Setting
from hypersphere_papers.engine.verdict import Interval, over_seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OBJECTS = "CIFAR-10"
_WEIGHTS = (0.0, 0.5, 1.0)
"""Of R_sm."""
_HEADS = {
    "CosFace": ("cosface", "head.margin=0.1"),
    "ArcFace": ("arcface", "head.margin=0.1"),
    "NormFace": ("normface", "head.learnable_scale=false"),
    "LM-Softmax": ("lm_softmax",),
}


def even(
    job: Job, loss: str, scale: float, weight: float = 0.0, *more: str, title: str = "", light: bool = False
) -> Setting:
    """A loss at a scale on CIFAR-10 with so much of R_sm; `light`: at the size that a CPU trains."""
    head, *options = _HEADS[loss]
    times = (f"head.loss_weight={LM_WEIGHT}",) if loss == "LM-Softmax" else ()
    added = (f"head.add.sample_margin.weight={weight}",) if weight else ()
    name = title or f"{loss}, s = {scale:g}{f' + {weight:g} R_sm' if weight else ''}"
    return balanced(job, name, head, *times, f"head.scale={float(scale)}", *options, *added, *more, light=light)


def crowd(_: Job, loss: str, scale: float) -> Setting:
    """A loss at a scale on a hundred people, in the place of CIFAR-100."""
    head, *options = ("cosface", "head.margin=0.0") if loss == "NormFace" else _HEADS[loss]
    times = (f"head.loss_weight={float(scale)}",) if loss == "LM-Softmax" else ()
    own = (f"head.scale={float(scale)}", *options, *times, "head.prototype_norm=1.0")
    return with_margins(faces(f"{loss}, s = {scale:g}", head, *own, *_CROWD))


_CROWD = (
    *HUNDRED_PEOPLE,
    "optimizer.name=adam",
    "optimizer.lr=0.001",
    "schedule.warmup=1.0",
    "train.epochs=60.0",
    "schedule.milestones=[36,50]",
)


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
            gain.text() if gain else NOT_MEASURED,
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


def _by_size(job: Job, loss: str, scale: float) -> dict[bool, list[Setting]]:
    """Large runs of a loss without and with R_sm, and small ones; a whole weight was tried at the small size alone."""
    weights = {False: _WEIGHTS[:2], True: _WEIGHTS}
    return {small: [even(job, loss, scale, weight, light=small) for weight in weights[small]] for small in weights}


def _moved(evidence: Evidence, label: str, loss: str, scale: float) -> Outcome:
    """That R_sm moves both histograms to larger values.

    Small networks judge a whole weight where they agree with the large ones about half of it.
    """
    names = ("similarity", "sample margin")
    sizes = _by_size(evidence.job, loss, scale)
    findings = [
        evidence.row(setting, measured(name, small))
        for small, settings in sizes.items()
        for setting in settings
        for name in names
    ]
    (plain, half), (small_plain, small_half, small_whole) = sizes.values()
    for name in names:
        large = evidence.larger(name, half, plain, sentence=f"{name} is larger with 0.5 R_sm")
        small = measured(name, small=True)
        control = evidence.larger(small, small_half, small_plain)
        whole = evidence.larger(small, small_whole, small_plain, sentence=f"{SMALL}{name} is larger with 1 R_sm")
        if control.verdict != large.verdict and whole.verdict != "undecided":
            whole = whole.withheld(f"with half of it {large.verdict} at the large size, {control.verdict} at the small")
        findings += [large, whole]
    groups = [(f"{SMALL if small else ''}{OBJECTS}", settings) for small, settings in sizes.items()]
    figures = {label: lambda: draw_margins(evidence, groups)}
    return Outcome(findings=findings, figures=figures, notes=[NOTE, LIGHT_NOTE, _CONTROL])


_CONTROL = (
    "A whole weight of R_sm is judged by the small networks where they agree with the large ones about half of it."
)


def _weighted(loss: str, scale: float) -> Callable[[Job], list[Setting]]:
    return lambda job: [setting for settings in _by_size(job, loss, scale).values() for setting in settings]


for _label, _loss, _scale in (("fig4", "CosFace", 20), ("fig10", "ArcFace", 20), ("fig11", "NormFace", 64)):
    _judge = partial(_moved, label=_label, loss=_loss, scale=_scale)
    experiment(f"largest-margins/{_label}", _weighted(_loss, _scale))(_judge)


@experiment("largest-margins/fig9", _weighted("CosFace", 64))
def cosface_64(evidence: Evidence) -> Outcome:
    """Fig. 9: CosFace at s = 64."""
    outcome = _moved(evidence, "fig9", "CosFace", 64)
    plain, half = _by_size(evidence.job, "CosFace", 64)[False]
    mostly = "similarity of CosFace, s = 64, mostly"
    value = evidence.value(mostly, plain, "similarity", note="mean")
    near, printed = evidence.values(half, "similarity"), evidence.job.entry.printed(mostly)
    claim = evidence.judged(
        over_seeds(near - 0.9),
        f"{near.mean():.3f}",
        (half,),
        sentence="with 0.5 R_sm similarities are near 1: above 0.9 in the mean",
    )
    if claim.verdict != "undecided" and abs(evidence.mean(plain, "similarity") - printed) > _ALIKE:
        claim = claim.withheld(
            f"no test: without R_sm they are {value.ours}, where the paper's network has {printed:g}"
        )
    return Outcome(findings=[value, *outcome.findings, claim], figures=outcome.figures, notes=outcome.notes)


_ALIKE = 0.1
"""Within so much of the paper's similarity without R_sm a network can tell where R_sm brings it."""
_SCALES = (5, 10, 20, 64)
_LARGE_NETWORKS = "The sentences are judged by the small networks: of the large ones LM-Softmax does not fit at any s."
_HUNDRED = "100 people"
_CROWD_NOTE = (
    "CIFAR-100 is not at hand: the 100 people with most real faces ([losses.md](../results/losses.md)) take its place, "
    "30 to 342 images each, 6,234 in all. SFNet-4 at 16 x 16, 60 epochs of Adam at 0.001 after one of warm-up, "
    "prototypes from norm 1, LM-Softmax times s. Similarities and sample margins are those of 5,000 training images, "
    "each person counting alike. Numbers are means over seeds with Student's interval."
)


def _rows(job: Job, setting_of: Callable[[Job, str, float], Setting]) -> list[Setting]:
    rows = (*(("LM-Softmax", scale) for scale in _SCALES), ("NormFace", 64))
    return [setting_of(job, loss, scale) for loss, scale in rows]


def _stays_large(evidence: Evidence, settings: Sequence[Setting], rival: Setting) -> list[Finding]:
    """That similarities and sample margins of training images stay large for every s of LM-Softmax."""
    names = ("similarity", "sample margin")
    findings = [evidence.row(setting, f"train {name}") for setting in (*settings, rival) for name in names]
    for name in names:
        values = np.array([evidence.values(setting, f"train {name}") for setting in settings])
        shares = values.min(0) / values.max(0)
        by_seed = ", ".join(f"{share:.3f}" for share in shares if np.isfinite(share))
        what = f"{name} of LM-Softmax: smallest over largest of the four s, by seed"
        findings.append(Finding(what=what, ours=by_seed or NOT_MEASURED, measured=bool(by_seed)))
        smallest = settings[int(np.nanargmin(values.mean(1)))] if np.isfinite(values).all() else settings[0]
        said = f"its smallest {name} is larger than that of NormFace at s = 64"
        findings.append(evidence.larger(f"train {name}", smallest, rival, sentence=said))
    return findings


_LIGHT = partial(even, light=True)


@experiment("largest-margins/fig5", lambda job: [*_rows(job, _LIGHT), *_rows(job, even)])
def objects_by_scale(evidence: Evidence) -> Outcome:
    """Fig. 5: the small networks judge."""
    (*settings, rival), large = _rows(evidence.job, _LIGHT), _rows(evidence.job, even)
    findings = _stays_large(evidence, settings, rival)
    findings += [evidence.row(setting, name) for setting in large for name in ("similarity", "sample margin")]
    groups = [(f"{SMALL}{OBJECTS}", [*settings, rival])]
    notes = [NOTE, LIGHT_NOTE, _LARGE_NETWORKS]
    return Outcome(findings=findings, figures={"fig5": lambda: draw_margins(evidence, groups)}, notes=notes)


@experiment("largest-margins/fig6", lambda job: _rows(job, crowd))
def people_by_scale(evidence: Evidence) -> Outcome:
    """Fig. 6, on people in CIFAR-100's place."""
    *settings, rival = _rows(evidence.job, crowd)
    findings, groups = _stays_large(evidence, settings, rival), [(_HUNDRED, [*settings, rival])]
    return Outcome(findings=findings, figures={"fig6": lambda: draw_margins(evidence, groups)}, notes=[_CROWD_NOTE])
