"""NormFace on pocket faces: Fig. 8 and Table 4; with runs on real faces at hand they are about those."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hypersphere.plots import Panel, draw_panels
from hypersphere.reproduce.experiment.drawings import curve, draw_rows
from hypersphere.reproduce.experiment.evidence import OTHER_PEOPLE, PEOPLE, Evidence, each, experiment
from hypersphere.reproduce.experiment.face_records import faces_at_hand
from hypersphere.reproduce.experiment.setting import SOFTMAX, Setting, people
from hypersphere.reproduce.experiment.verdict import over_seeds
from hypersphere.reproduce.job import Job
from hypersphere.reproduce.outcome import Outcome
from hypersphere.reproduce.papers.normface import tuned_faces
from hypersphere.reproduce.papers.normface.tuned_faces import WEIGHTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TUNED = (
    "Fine-tuned ones: 12 epochs of softmax, then 8 of the loss named, at 0.4 of the rate: as many in all as the plain "
    "softmax has."
)

_UNIT = ("prototype_norm=1.0", "renormalize=true")


def _or_real(pocket: Sequence[Setting], real: Sequence[Setting]) -> Callable[[Job], Sequence[Setting]]:
    """The settings of an item on real faces where they are at hand."""
    return lambda job: real if faces_at_hand(job.data) else pocket


def tuned(title: str, head: str, *options: str) -> Setting:
    """A softmax network, fine-tuned with another loss; options are of its head."""
    stages = ("train.steps=372", "second.train.steps=248", "second.optimizer.lr=0.002")
    own = (f"second.head.name={head}", *(f"second.head.{option}" for option in options))
    return people(title, "softmax", *stages, *own)


_BOTH = tuned("softmax, both normalised", "normface", "scale=16.0", *_UNIT)
_CONTRASTIVE = {w: _BOTH.but(f"C-contrastive, {w:g}", f"second.head.add.c_contrastive.weight={w}") for w in WEIGHTS}
_CENTERED = {
    w: _BOTH.but(f"center, {w:g}", f"second.head.add.center.weight={w}", "second.head.add.center.normalize=true")
    for w in WEIGHTS
}


@experiment("normface/fig8", _or_real([SOFTMAX, *_CONTRASTIVE.values(), *_CENTERED.values()], tuned_faces.FIG8))
def loss_weights(evidence: Evidence) -> Outcome:
    """Fig. 8: accuracy against the weight of an added loss."""
    if faces_at_hand(evidence.job.data):
        return tuned_faces.loss_weights(evidence)
    groups = {"softmax + C-contrastive": _CONTRASTIVE, "softmax + center": _CENTERED}
    ranges = {
        title: np.ptp([evidence.values(setting, "pairs") for setting in group.values()], axis=0)
        for title, group in groups.items()
    }
    one, two = ranges.values()
    findings = [evidence.row(setting, "pairs") for setting in (SOFTMAX, *_CONTRASTIVE.values(), *_CENTERED.values())]
    findings.append(
        evidence.judged(
            over_seeds(two - one),
            f"best minus worst over the weights, points, by seed: C-contrastive {each(one)}; center {each(two)}",
            [*_CONTRASTIVE.values(), *_CENTERED.values()],
            note=f"weights {', '.join(f'{w:g}' for w in WEIGHTS)}",
        )
    )

    def figure() -> Figure:
        lines = [curve(evidence, title, WEIGHTS, list(group.values()), "pairs") for title, group in groups.items()]
        panel = Panel("both normalised", "weight of the added loss", "accuracy on unseen pairs, %", lines, log_x=True)
        return draw_panels([panel], width=5.2, height=3.4)

    return Outcome(findings=findings, figures={"fig8": figure}, notes=[PEOPLE, _TUNED])


_LIGHT = (
    "data.grey=true",
    "backbone.name=lightcnn9",
    "backbone.dropout=0.3",
    "optimizer.lr=0.001",
    "train.batch_size=64",
    "train.steps=500",
)
_LIGHT_PEOPLE = (
    "Pocket faces: LightCNN-9 trained on 200 people with 20 grey images of 32 x 32, 500 steps (8 epochs) of AdamW from "
    f"scratch, where the paper fine-tunes; {OTHER_PEOPLE}"
)
_PLAIN = people("softmax", "softmax", *_LIGHT)
_TABLE4 = {
    "softmax, normalised": people("softmax, normalised", "normface", *_LIGHT),
    "C-contrastive, normalised": people("C-contrastive", "c_contrastive", *_LIGHT),
    "softmax + C-contrastive, normalised": people(
        "softmax + C-contrastive", "normface", "head.add.c_contrastive.weight=0.01", *_LIGHT
    ),
}


_HARDLY = 60.0
"""Accuracy on pairs, in per cent, below which a network has hardly trained."""


@experiment("normface/table4", _or_real([_PLAIN, *_TABLE4.values()], tuned_faces.TABLE4))
def light_cnn(evidence: Evidence) -> Outcome:
    """Table 4: LightCNN with and without normalisation."""
    if faces_at_hand(evidence.job.data):
        return tuned_faces.light_cnn(evidence)
    findings = [evidence.row(_PLAIN, "pairs", paper=evidence.printed("softmax", "accuracy"))]
    mirror = evidence.printed("softmax + mirror", "accuracy")
    findings.append(evidence.row(_PLAIN, "pairs mirror", paper=mirror))
    for row, setting in _TABLE4.items():
        printed = evidence.printed(row, "accuracy")
        findings.append(evidence.row(setting, "pairs mirror", paper=printed))
    for row, setting in _TABLE4.items():
        said = f"{row} is better than plain softmax, both with mirror images"
        findings.append(evidence.better(setting, _PLAIN, "pairs mirror", sentence=said))
    settings = [_PLAIN, *_TABLE4.values()]
    weak = [setting.title for setting in settings if evidence.mean(setting, "pairs") < _HARDLY]
    untrained = (
        [f"Hardly trained, so that their losing says little: {'; '.join(weak)} (a guess has 50 %)."] if weak else []
    )
    return Outcome(
        findings=findings,
        figures={"table4": lambda: draw_rows(evidence, settings, "pairs mirror", "accuracy on unseen pairs, %")},
        notes=[_LIGHT_PEOPLE, *untrained],
    )
