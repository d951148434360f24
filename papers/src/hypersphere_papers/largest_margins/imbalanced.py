"""Largest Margins on imbalanced CIFAR-10: Figs. 7, 8, 12 to 16, Tables 2, 6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hypersphere.plots import Panel, draw_panels
from hypersphere_papers.catalogue import load_catalogue
from hypersphere_papers.engine import objects
from hypersphere_papers.engine.drawings import curve, draw_margins, draw_rows
from hypersphere_papers.engine.evidence import Evidence, Printed, experiment
from hypersphere_papers.engine.job import Job
from hypersphere_papers.engine.outcome import Finding, Outcome
from hypersphere_papers.engine.setting import SMALL, Setting
from hypersphere_papers.engine.verdict import every, judge, most, over_seeds

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
_OBJECTS = "s = 5 as in the paper; R_w with lambda = 0, 1, 5 and 20, of which 5 is the star. CIFAR-100 is not at hand."


def imbalanced(job: Job, data: str, title: str, head: str, *options: str, small: bool = False) -> Setting:
    """A loss on imbalanced CIFAR-10."""
    kind, ratio = _DATA[data]
    return objects.imbalanced(job, kind, ratio, f"{data}: {title}", head, *options, light=small)


def centred(job: Job, data: str, name: str, weight: float, small: bool = False) -> Setting:
    """One of the five losses with so much of R_w."""
    head, *options = _HEADS[name]
    times = objects.LM_WEIGHT if name == "LM-Softmax" else 1.0
    if times != 1:  # it counts for R_w, too: its own weight keeps lambda
        options.append(f"head.loss_weight={times}")
    added = [f"head.add.zero_centroid.weight={weight / times}"] if weight else []
    return imbalanced(job, data, f"{name}, lambda = {weight:g}", head, *options, *added, small=small)


def _sizes(data: str, loss: str) -> tuple[bool, ...]:
    """The sizes at which a loss is judged: whether small.

    Step imbalance has three seeds at the small one alone, and LM-Softmax does not fit at the other.
    """
    if data.startswith("step"):
        return (True,)
    return (False, True) if loss == "LM-Softmax" else (False,)


def _lambdas(loss: str, small: bool) -> tuple[float, ...]:
    """All, but for LM-Softmax at the large size, which has no run with lambda = 1."""
    left_out = loss == "LM-Softmax" and not small
    return tuple(weight for weight in LAMBDAS if not (left_out and weight == 1))


def _every_lambda(job: Job, data: str, loss: str) -> dict[bool, list[Setting]]:
    """A loss with every lambda, by whether runs are small."""
    return {
        small: [centred(job, data, loss, weight, small) for weight in _lambdas(loss, small)]
        for small in _sizes(data, loss)
    }


def _settings(job: Job, swept: Sequence[tuple[str, str]]) -> list[Setting]:
    """Losses on sets of images with every lambda, at every size."""
    groups = [group for data, loss in swept for group in _every_lambda(job, data, loss).values()]
    return [setting for group in groups for setting in group]


def _notes(evidence: Evidence) -> list[str]:
    light = any(setting.small for setting in evidence.records)
    return [objects.NOTE, *([objects.LIGHT_NOTE] if light else []), _OBJECTS]


def raised(
    evidence: Evidence, name: str, data: str, losses: Sequence[str], weights: Sequence[float] | None = None
) -> list[Finding]:
    """That R_w makes a number larger, for every loss, size and weight (by default all that were run)."""
    job, findings = evidence.job, []
    for loss in losses:
        for small in _sizes(data, loss):
            plain = centred(job, data, loss, 0.0, small)
            for weight in weights or _lambdas(loss, small)[1:]:
                with_it = centred(job, data, loss, weight, small)
                said = f"{_prefix(small)}{data}, {loss}: lambda = {weight:g} raises the {name}"
                found = evidence.larger(objects.measured(name, small), with_it, plain, sentence=said)
                findings.append(found if name == "class margin" else _unless_held_back(evidence, found, with_it, plain))
    return findings


def _prefix(small: bool) -> str:
    return SMALL if small else ""


_LONGER = 5.0
"""Prototypes that R_w has made so many times longer than they are without it turn 25 times slower."""


def _unless_held_back(evidence: Evidence, found: Finding, with_it: Setting, plain: Setting) -> Finding:
    """A finding about what training with R_w has come to: undecided where its prototypes could hardly turn.

    SGD's first steps against a stiff R_w throw short prototypes far out, and the gradient of a unit vector falls with
    the length. The logits' spread over the embeddings' length stands for it, which is on record.
    """
    why = _held_back(evidence, with_it, plain)
    return found.withheld(why) if why and found.verdict not in (None, "undecided") else found


def _held_back(evidence: Evidence, with_it: Setting, plain: Setting) -> str:
    """Why prototypes could hardly turn; nothing where they could."""
    lengths = [evidence.values(each, "logit spread") / evidence.values(each, "norm") for each in (with_it, plain)]
    times = float((lengths[0] / lengths[1]).mean())
    if not times > _LONGER:
        return ""
    return f"no test: R_w's first steps made the prototypes {times:.0f} times longer, so that they hardly turn"


_FIGURES = {
    "fig8": ("LM-Softmax", "long-tailed 10"),
    "fig12": ("LM-Softmax", "step 10"),
    "fig13": ("CosFace", "long-tailed 10"),
    "fig14": ("ArcFace", "long-tailed 10"),
    "fig15": ("NormFace", "long-tailed 10"),
    "fig16": ("LDAM", "long-tailed 10"),
}


def _histograms(label: str, loss: str, data: str) -> None:
    @experiment(f"largest-margins/{label}", lambda job: _settings(job, [(data, loss)]))
    def judge(evidence: Evidence) -> Outcome:
        groups = _every_lambda(evidence.job, data, loss)
        findings = [
            evidence.row(s, objects.measured("similarity", small)) for small, group in groups.items() for s in group
        ]
        findings += raised(evidence, "similarity", data, [loss])
        drawn = [(f"{_prefix(small)}{data}, {loss}", group) for small, group in groups.items()]
        figures = {label: lambda: draw_margins(evidence, drawn)}
        return Outcome(findings=findings, figures=figures, notes=_notes(evidence))


for _label, (_loss, _set) in _FIGURES.items():
    _histograms(_label, _loss, _set)


def _plain(job: Job, data: str) -> list[Setting]:
    (small,) = _sizes(data, "CE")
    return [imbalanced(job, data, name, head, small=small) for name, head in (("CE", "softmax"), ("Focal", "focal"))]


def _starred(job: Job, data: str) -> list[Setting]:
    sizes = ((loss, small) for loss in _HEADS for small in _sizes(data, loss))
    return [centred(job, data, loss, weight, small) for loss, small in sizes for weight in (0.0, STARRED)]


_SEVERE = ("long-tailed 100", "step 100")


def _gains(evidence: Evidence, data: str) -> Finding:
    """That R_w raises the accuracy of most losses."""
    found, held_back = {}, ""
    for loss in _HEADS:
        small = _sizes(data, loss)[0]  # the same for all losses
        plain, starred = (centred(evidence.job, data, loss, weight, small) for weight in (0.0, STARRED))
        gain = evidence.better(starred, plain, "samples")
        found[loss] = _unless_held_back(evidence, gain, starred, plain)
        if found[loss] is not gain:
            held_back = held_back or found[loss].note
    printed = f"the paper's own, Table 6: {_printed_gains(data)}; its Table 2 has the best lambda of five"
    return evidence.decided(
        most([gain.verdict or "undecided" for gain in found.values()]),
        "; ".join(f"{loss} {gain.ours}, {gain.verdict}" for loss, gain in found.items()),
        _starred(evidence.job, data),
        sentence=f"{_prefix(small)}{data}: R_w with lambda = {STARRED:g} raises the accuracy of most losses",
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
    job = evidence.job
    findings = [found for data in _SEVERE for found in raised(evidence, "class margin", data, list(_HEADS), [STARRED])]
    findings += [_gains(evidence, data) for data in _SEVERE]

    def figure() -> Figure:
        panels = []
        for name, label in (("class margin", "class margin, degrees"), ("accuracy", "accuracy on test images, %")):
            for data in _SEVERE:
                lines = []
                for loss in _HEADS:
                    small = _sizes(data, loss)[0]
                    pair = [centred(job, data, loss, weight, small) for weight in (0.0, STARRED)]
                    lines.append(curve(evidence, loss, (0.0, STARRED), pair, name))
                if any(np.size(line.x) for line in lines):
                    panels.append(Panel(f"{_prefix(small)}{data}", "lambda of R_w", label, lines))
        return draw_panels(panels)

    return Outcome(findings=findings, figures={"fig7": figure}, notes=_notes(evidence))


def _one_seed(job: Job) -> list[Setting]:
    """Step imbalance at the large size, of which one seed is on record: for numbers, not for sentences."""
    losses = [loss for loss in _HEADS if loss != "LM-Softmax"]
    return [centred(job, "step 100", loss, weight) for loss in losses for weight in (0.0, STARRED)]


@experiment(
    "largest-margins/table2",
    lambda job: [*(s for d in _DATA for s in (*_plain(job, d), *_starred(job, d))), *_one_seed(job)],
)
def imbalance_table(evidence: Evidence) -> Outcome:
    """Table 2: accuracy and class margin, with and without R_w."""
    job = evidence.job
    findings: list[Finding] = []
    for data in _DATA:
        named = list(zip(("CE", "Focal"), _plain(job, data), strict=True))
        for loss in _HEADS:
            for small in _sizes(data, loss):
                pair = (centred(job, data, loss, weight, small) for weight in (0.0, STARRED))
                named += zip((loss, f"{loss}*"), pair, strict=True)
        for row, setting in named:
            for name, column in (("accuracy", "acc"), ("class margin", "m_cls")):
                printed = evidence.printed(row, f"CIFAR-10 {data} {column}")
                if row.endswith("*"):  # Table 2 has the best of five lambda there
                    number = _of_table6(row.removesuffix("*"), STARRED, data, column)
                    printed = Printed(row, f"Table 6, lambda = {STARRED:g}: CIFAR-10 {data} {column} {number:.10g}")
                findings.append(evidence.row(setting, name, paper=printed))
    findings += [evidence.row(setting, name) for setting in _one_seed(job) for name in ("accuracy", "class margin")]
    for data in _DATA:
        findings += raised(evidence, "class margin", data, list(_HEADS), [STARRED])
    findings += [_gains(evidence, data) for data in _DATA]
    for data in _SEVERE:
        for small in _sizes(data, "LM-Softmax"):
            findings += _saved(evidence, data, small)
    settings = [setting for setting, found in evidence.records.items() if found]
    figures = {"table2": lambda: draw_rows(evidence, settings, "class margin", "class margin, degrees")}
    return Outcome(findings=findings, figures=figures, notes=_notes(evidence))


def _saved(evidence: Evidence, data: str, small: bool) -> list[Finding]:
    """That LM-Softmax, without R_w, loses its class margin, and is better with it."""
    plain, starred = (centred(evidence.job, data, "LM-Softmax", weight, small) for weight in (0.0, STARRED))
    lost, saved = (evidence.values(setting, "class margin") for setting in (plain, starred))
    margins = evidence.decided(
        every([judge(over_seeds(20 - lost)), judge(over_seeds(saved - 60))]),
        f"{lost.mean():.1f} and {saved.mean():.1f} degrees",
        (plain, starred),
        sentence=f"{_prefix(small)}{data}: LM-Softmax has almost no class margin without R_w, and a large one with it",
        note="below 20, and above 60 degrees",
        fitted=True,
    )
    said = f"{_prefix(small)}{data}: R_w saves LM-Softmax: its accuracy is higher"
    return [margins, evidence.better(starred, plain, "samples", sentence=said)]


_SWEPT = [("long-tailed 10", loss) for loss in _HEADS] + [("step 10", "LM-Softmax")]


@experiment("largest-margins/table6", lambda job: _settings(job, _SWEPT))
def lambda_table(evidence: Evidence) -> Outcome:
    """Table 6: every lambda of R_w."""
    findings: list[Finding] = []
    lines = []
    for data, loss in _SWEPT:
        for small, settings in _every_lambda(evidence.job, data, loss).items():
            weights = _lambdas(loss, small)
            for weight, setting in zip(weights, settings, strict=True):
                for name, column in (("accuracy", "acc"), ("class margin", "m_cls")):
                    printed = evidence.printed(f"{loss} (lambda = {weight:g})", f"CIFAR-10 {data} {column}")
                    findings.append(evidence.row(setting, name, paper=printed))
            lines.append(curve(evidence, f"{_prefix(small)}{loss}, {data}", weights, settings, "class margin"))
    for data, loss in _SWEPT:
        findings += raised(evidence, "class margin", data, [loss])

    def figure() -> Figure:
        panel = Panel("", "lambda of R_w", "class margin, degrees", [line for line in lines if np.size(line.x)])
        return draw_panels([panel], width=5.6, height=3.8)

    part = (
        "Of the paper's sweep, lambda = 1, 2, 5, 10 and 20 on four sets, here are 1, 5 and 20 on long-tailed 10, and "
        "of LM-Softmax on step 10; Table 2 has lambda = 5 on the other sets."
    )
    return Outcome(findings=findings, figures={"table6": figure}, notes=[*_notes(evidence), part])
