"""Largest Margins on imbalanced classes, CIFAR-10's or people in their place: Figs. 7, 8, 12 to 16, Tables 2, 6."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hypersphere.plots import Panel, draw_panels
from hypersphere.reproduce.catalogue import load_catalogue
from hypersphere.reproduce.experiment import objects
from hypersphere.reproduce.experiment.drawings import curve, draw_margins, draw_rows
from hypersphere.reproduce.experiment.evidence import CLASSES, Evidence, experiment
from hypersphere.reproduce.experiment.record_folder import objects_at_hand
from hypersphere.reproduce.experiment.setting import NORMFACE, Setting, classes
from hypersphere.reproduce.experiment.verdict import every, judge, most, over_seeds
from hypersphere.reproduce.job import Job
from hypersphere.reproduce.outcome import Finding, Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAMBDAS = (0.0, 1.0, 5.0, 20.0)
STARRED = 5.0
"""The lambda of the rows with a star."""
_DATA = {
    "long-tailed 100": ("long_tailed", 100.0),
    "long-tailed 10": ("long_tailed", 10.0),
    "step 100": ("step", 100.0),
    "step 10": ("step", 10.0),
}
_HEADS = {
    "CosFace": ("cosface", "head.scale=5.0", "head.margin=0.35"),
    "ArcFace": ("arcface", "head.scale=5.0", "head.margin=0.1"),
    "NormFace": ("normface", "head.scale=5.0", "head.learnable_scale=false"),
    "LDAM": ("ldam", "head.scale=5.0"),
    "LM-Softmax": ("lm_softmax", "head.scale=5.0"),
}
_HOW = (
    "10 people, the largest class with 500 images, s = 5 as in the paper; R_w with lambda = 0, 1, 5 and 20, of which 5 "
    "is the star."
)
_OBJECTS = "s = 5 as in the paper; R_w with lambda = 0, 1, 5 and 20, of which 5 is the star. CIFAR-100 is not at hand."


def imbalanced(job: Job, data: str, title: str, head: str, *options: str) -> Setting:
    """A loss on CIFAR-10 where it is at hand, otherwise on ten people, imbalanced."""
    kind, ratio = _DATA[data]
    if objects_at_hand(job.data):
        return objects.imbalanced(job, kind, ratio, f"{data}: {title}", head, *options)
    uneven = (f"data.imbalance={kind}", f"data.imbalance_ratio={ratio}")
    return classes(f"{data}: {title}", head, *options, *uneven, count=10, images=500, steps=300)


def centred(job: Job, data: str, name: str, weight: float) -> Setting:
    """One of the five losses with so much of R_w."""
    at_hand = objects_at_hand(job.data)
    head, *options = (*NORMFACE, "head.scale=5.0") if name == "NormFace" and not at_hand else _HEADS[name]
    times = objects.LM_WEIGHT if name == "LM-Softmax" and at_hand else 1.0
    if times != 1:  # it counts for R_w, too: its own weight keeps lambda
        options.append(f"head.loss_weight={times}")
    added = [f"head.add.zero_centroid.weight={weight / times}"] if weight else []
    return imbalanced(job, data, f"{name}, lambda = {weight:g}", head, *options, *added)


def _trained(evidence: Evidence, data: Iterable[str]) -> list[str]:
    """Those of the sets that runs were trained on."""
    return [each for each in data if any(evidence.records[setting] for setting in _starred(evidence.job, each))]


def _notes(evidence: Evidence, data: Sequence[str] = ()) -> list[str]:
    if not objects_at_hand(evidence.job.data):
        return [CLASSES, _HOW]
    left = [each for each in data if each not in _trained(evidence, data)]
    return [objects.NOTE, _OBJECTS, *([f"Not run: {', '.join(left)}."] if left else [])]


def raised(evidence: Evidence, name: str, data: str, losses: Sequence[str], weights: Sequence[float]) -> list[Finding]:
    """That R_w makes a number larger, for every loss and weight."""
    findings = []
    for loss in losses:
        plain = centred(evidence.job, data, loss, 0.0)
        for weight in weights:
            with_it = centred(evidence.job, data, loss, weight)
            said = f"{data}, {loss}: lambda = {weight:g} raises the {name}"
            found = evidence.larger(name, with_it, plain, sentence=said)
            findings.append(found if name == "class margin" else _unless_held_back(evidence, found, with_it, plain))
    return findings


_LONGER = 5.0
"""Prototypes that R_w has made so many times longer than they are without it turn 25 times slower."""


def _unless_held_back(evidence: Evidence, found: Finding, with_it: Setting, plain: Setting) -> Finding:
    """A finding about what training with R_w has come to: undecided where its prototypes could hardly turn.

    SGD's first steps against a stiff R_w throw short prototypes far out, and the gradient of a unit vector falls with
    the length. The logits' spread over the embeddings' length stands for it, which is on record.
    """
    lengths = [evidence.values(each, "logit spread") / evidence.values(each, "norm") for each in (with_it, plain)]
    times = float((lengths[0] / lengths[1]).mean())
    if not (objects_at_hand(evidence.job.data) and times > _LONGER) or found.verdict in (None, "undecided"):
        return found
    why = f"no test: R_w's first steps made the prototypes {times:.0f} times longer, so that they hardly turn"
    return found.withheld(why)


_FIGURES = {
    "fig8": ("LM-Softmax", "long-tailed 10"),
    "fig12": ("LM-Softmax", "step 10"),
    "fig13": ("CosFace", "long-tailed 10"),
    "fig14": ("ArcFace", "long-tailed 10"),
    "fig15": ("NormFace", "long-tailed 10"),
    "fig16": ("LDAM", "long-tailed 10"),
}


def _histograms(label: str, loss: str, data: str) -> None:
    @experiment(f"largest-margins/{label}", lambda job: [centred(job, data, loss, weight) for weight in LAMBDAS])
    def judge(evidence: Evidence) -> Outcome:
        settings = list(evidence.records)
        findings = [evidence.row(setting, "similarity") for setting in settings]
        findings += raised(evidence, "similarity", data, [loss], LAMBDAS[1:])
        figures = {label: lambda: draw_margins(evidence, [(f"{data}, {loss}", settings)])}
        return Outcome(findings=findings, figures=figures, notes=_notes(evidence))


for _label, (_loss, _set) in _FIGURES.items():
    _histograms(_label, _loss, _set)


def _plain(job: Job, data: str) -> list[Setting]:
    return [imbalanced(job, data, "CE", "softmax"), imbalanced(job, data, "Focal", "focal")]


def _starred(job: Job, data: str) -> list[Setting]:
    return [centred(job, data, loss, weight) for loss in _HEADS for weight in (0.0, STARRED)]


_SEVERE = ("long-tailed 100", "step 100")


def _gains(evidence: Evidence, data: str) -> Finding:
    """That R_w raises the accuracy of most losses."""
    found = {}
    for loss in _HEADS:
        plain, starred = (centred(evidence.job, data, loss, weight) for weight in (0.0, STARRED))
        found[loss] = _unless_held_back(evidence, evidence.better(starred, plain, "samples"), starred, plain)
    held_back = next((gain.note for gain in found.values() if gain.alone and "longer" in gain.note), "")
    printed = f"the paper's own, Table 6: {_printed_gains(data)}; its Table 2 has the best lambda of five"
    return evidence.decided(
        most([gain.verdict or "undecided" for gain in found.values()]),
        "; ".join(f"{loss} {gain.ours}, {gain.verdict}" for loss, gain in found.items()),
        _starred(evidence.job, data),
        sentence=f"{data}: R_w with lambda = {STARRED:g} raises the accuracy of most losses",
        note=f"{held_back}; {printed}" if held_back else printed,
    )


def _printed_gains(data: str) -> str:
    """What the paper's Table 6 prints of the same lambda: `CosFace -0.10, ...`."""
    gains = {loss: _of_table6(loss, STARRED, data, "acc") - _of_table6(loss, 0.0, data, "acc") for loss in _HEADS}
    return ", ".join(f"{loss} {gain:+.2f}" for loss, gain in gains.items())


def _of_table6(loss: str, weight: float, data: str, column: str) -> float:
    """A number of the paper's Table 6, which has every lambda."""
    return load_catalogue()["largest-margins/table6"].printed(f"{loss} (lambda = {weight:g}), CIFAR-10 {data} {column}")


@experiment("largest-margins/fig7", lambda job: [setting for data in _SEVERE for setting in _starred(job, data)])
def with_and_without(evidence: Evidence) -> Outcome:
    """Fig. 7: accuracy and class margin with and without R_w."""
    job, trained = evidence.job, _trained(evidence, _SEVERE)
    findings = [found for data in trained for found in raised(evidence, "class margin", data, list(_HEADS), [STARRED])]
    findings += [_gains(evidence, data) for data in trained]

    def figure() -> Figure:
        panels = []
        for name, label in (("class margin", "class margin, degrees"), ("accuracy", "accuracy on test images, %")):
            for data in trained:
                lines = [
                    curve(evidence, loss, (0.0, STARRED), [centred(job, data, loss, w) for w in (0.0, STARRED)], name)
                    for loss in _HEADS
                ]
                if any(np.size(line.x) for line in lines):
                    panels.append(Panel(data, "lambda of R_w", label, lines))
        return draw_panels(panels)

    return Outcome(findings=findings, figures={"fig7": figure}, notes=_notes(evidence, _SEVERE))


@experiment("largest-margins/table2", lambda job: [s for d in _DATA for s in (*_plain(job, d), *_starred(job, d))])
def imbalance_table(evidence: Evidence) -> Outcome:
    """Table 2: accuracy and class margin, with and without R_w."""
    job, trained = evidence.job, _trained(evidence, _DATA)
    findings: list[Finding] = []
    for data in trained:
        named = dict(zip(("CE", "Focal"), _plain(job, data), strict=True))
        for loss in _HEADS:
            named |= {loss: centred(job, data, loss, 0.0), f"{loss}*": centred(job, data, loss, STARRED)}
        for row, setting in named.items():
            for name, column in (("accuracy", "acc"), ("class margin", "m_cls")):
                printed = evidence.printed(row, f"CIFAR-10 {data} {column}")
                if row.endswith("*"):  # Table 2 has the best of five lambda there
                    number = _of_table6(row.removesuffix("*"), STARRED, data, column)
                    printed = f"Table 6, lambda = {STARRED:g}: CIFAR-10 {data} {column} {number:.10g}"
                findings.append(evidence.row(setting, name, paper=printed))
    for data in trained:
        findings += raised(evidence, "class margin", data, list(_HEADS), [STARRED])
    findings += [_gains(evidence, data) for data in trained]
    for data in [each for each in trained if each in _SEVERE]:
        pair = [centred(job, data, "LM-Softmax", weight) for weight in (0.0, STARRED)]
        lost, saved = (evidence.values(setting, "class margin") for setting in pair)
        findings.append(
            evidence.decided(
                every([judge(over_seeds(20 - lost)), judge(over_seeds(saved - 60))]),
                f"{lost.mean():.1f} and {saved.mean():.1f} degrees",
                pair,
                sentence=f"{data}: LM-Softmax has almost no class margin without R_w, and a large one with it",
                note="below 20, and above 60 degrees",
                fitted=True,
            )
        )
        said = f"{data}: R_w saves LM-Softmax: its accuracy is higher"
        findings.append(evidence.better(pair[1], pair[0], "samples", sentence=said))
    settings = [setting for setting, found in evidence.records.items() if found]
    figures = {"table2": lambda: draw_rows(evidence, settings, "class margin", "class margin, degrees")}
    return Outcome(findings=findings, figures=figures, notes=_notes(evidence, list(_DATA)))


_SWEPT = [("long-tailed 10", loss) for loss in _HEADS] + [("step 10", "LM-Softmax")]


@experiment(
    "largest-margins/table6", lambda job: [centred(job, data, loss, w) for data, loss in _SWEPT for w in LAMBDAS]
)
def every_lambda(evidence: Evidence) -> Outcome:
    """Table 6: every lambda of R_w."""
    job = evidence.job
    findings: list[Finding] = []
    for data, loss in _SWEPT:
        for weight in LAMBDAS:
            setting = centred(job, data, loss, weight)
            row = f"{loss} (lambda = {weight:g})"
            for name, column in (("accuracy", "acc"), ("class margin", "m_cls")):
                printed = evidence.printed(row, f"CIFAR-10 {data} {column}")
                findings.append(evidence.row(setting, name, paper=printed))
    for data, loss in _SWEPT:
        findings += raised(evidence, "class margin", data, [loss], LAMBDAS[1:])

    def figure() -> Figure:
        lines = []
        for data, loss in _SWEPT:
            settings = [centred(job, data, loss, weight) for weight in LAMBDAS]
            lines.append(curve(evidence, f"{loss}, {data}", LAMBDAS, settings, "class margin"))
        panel = Panel("", "lambda of R_w", "class margin, degrees", [line for line in lines if np.size(line.x)])
        return draw_panels([panel], width=5.6, height=3.8)

    return Outcome(findings=findings, figures={"table6": figure}, notes=[*_notes(evidence), *_swept(evidence)])


def _swept(evidence: Evidence) -> list[str]:
    """Which part of the paper's sweep the item has, and which runs of this part are not on record."""
    part = (
        "Of the paper's sweep, lambda = 1, 2, 5, 10 and 20 on four sets, here are 1, 5 and 20 on long-tailed 10, and "
        "of LM-Softmax on step 10; Table 2 has lambda = 5 on the other sets, as far as they were run."
    )
    missing = [setting.title for setting, records in evidence.records.items() if not records]
    return [part, *([f"Not on record: {'; '.join(missing)}."] if missing else [])]
