"""NormFace on pocket faces: Table 4; with runs on real faces at hand it is about those."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypersphere.reproduce.experiment.drawings import draw_rows
from hypersphere.reproduce.experiment.evidence import OTHER_PEOPLE, Evidence, experiment
from hypersphere.reproduce.experiment.face_records import faces_at_hand
from hypersphere.reproduce.experiment.setting import Setting, people
from hypersphere.reproduce.job import Job
from hypersphere.reproduce.outcome import Outcome
from hypersphere.reproduce.papers.normface import tuned_faces


def _or_real(pocket: Sequence[Setting], real: Sequence[Setting]) -> Callable[[Job], Sequence[Setting]]:
    """The settings of an item on real faces where they are at hand."""
    return lambda job: real if faces_at_hand(job.data) else pocket


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
