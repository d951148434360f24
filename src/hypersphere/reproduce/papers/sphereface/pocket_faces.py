"""SphereFace on a few people, real or of the pocket: Figs. 2, 5; on pocket faces: Fig. 10."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from hypersphere.data import long_tailed_counts
from hypersphere.geometry import normalize
from hypersphere.plots import Line, Panel, draw_features, draw_panels, draw_spheres
from hypersphere.reproduce.experiment.evidence import CLASSES, Evidence, Floats, difference, experiment
from hypersphere.reproduce.experiment.face_records import faces_or
from hypersphere.reproduce.experiment.face_toys import NOTE, face_toy
from hypersphere.reproduce.experiment.record import Record
from hypersphere.reproduce.experiment.setting import SOFTMAX, Setting, classes, features
from hypersphere.reproduce.experiment.verdict import of_correlation, over_seeds
from hypersphere.reproduce.outcome import Finding, Outcome
from hypersphere.reproduce.papers.sphereface.digits import features_of, spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 100
_RATE = ("optimizer.lr=0.02",)
_ANNEALED = "lambda of the annealing falls to 5."


def spread_ratio(record: Record) -> float:
    """Mean angle of features to the mean direction of their class, over the smallest angle between two of these."""
    found = spread(*features_of(record, "")[1:])
    return found.within / found.between


def ratios(evidence: Evidence, setting: Setting) -> Floats:
    """`spread_ratio` of every seed; NaN where training stopped itself or is not on record."""
    return of_seeds(evidence, setting, spread_ratio)


def of_seeds(evidence: Evidence, setting: Setting, measure: Callable[[Record], float]) -> Floats:
    """A number of every seed; NaN where training stopped itself or is not on record."""
    found = [math.nan if record.stopped else measure(record) for record in evidence.records[setting]]
    return np.array(found + [math.nan] * (len(evidence.job.seeds) - len(found)))


def falling(evidence: Evidence, before: Setting, after: Setting) -> Finding:
    """That the ratio is smaller for one setting than for the one before."""
    one, two = ratios(evidence, before), ratios(evidence, after)
    sentence = f"angles within a class over those between classes fall from {before.title} to {after.title}"
    text = f"{one.mean():.3f}, then {two.mean():.3f}{difference(two - one, 3)}"
    return evidence.judged(over_seeds(one - two), text, (before, after), sentence=sentence)


def drawn(evidence: Evidence, setting: Setting, images: int = _SHOWN) -> tuple[str, Tensor, Tensor]:
    """Title, features and labels of the first seed, so many of every class."""
    labels = evidence.first(setting, "labels").astype(np.int64)
    chosen = np.concatenate([np.flatnonzero(labels == c)[:images] for c in np.unique(labels)])
    points = torch.from_numpy(evidence.first(setting, "features")[chosen])
    return setting.title, points, torch.from_numpy(labels[chosen])


_TWO = (
    features("softmax", "softmax", count=2, dim=2),
    features("modified softmax", "modified_softmax", count=2, dim=2),
    features("A-Softmax, m = 4", "sphereface", "head.margin=4", count=2, dim=2),
)
_TWO_REAL = (
    face_toy("softmax", "softmax", *_RATE, count=2, dim=2),
    face_toy("modified softmax", "modified_softmax", *_RATE, count=2, dim=2),
    face_toy("A-Softmax, m = 4", "sphereface", "head.margin=4", *_RATE, count=2, dim=2),
)


@experiment("sphereface/fig2", lambda job: faces_or(job, _TWO_REAL, _TWO))
def two_people(evidence: Evidence) -> Outcome:
    """Fig. 2: 2-D features of two people."""
    plain, modified, ours = settings = tuple(evidence.records)
    notes = [CLASSES, "Two people with 200 images each, whose features are measured and drawn."]
    if plain.data == "faces":
        notes = [NOTE, f"Two people with 342 and 212 images. {_ANNEALED}"]
    return Outcome(
        findings=[falling(evidence, plain, modified), falling(evidence, modified, ours)],
        figures={"fig2": lambda: draw_features([drawn(evidence, setting, 200) for setting in settings])},
        notes=notes,
    )


_SIX = tuple(features(f"m = {m}", "sphereface", f"head.margin={m}") for m in (1, 2, 3, 4))
_SIX_REAL = tuple(face_toy(f"m = {m}", "sphereface", f"head.margin={m}", *_RATE, count=6, dim=3) for m in (1, 2, 3, 4))


@experiment("sphereface/fig5", lambda job: faces_or(job, _SIX_REAL, _SIX))
def six_people(evidence: Evidence) -> Outcome:
    """Fig. 5: 3-D features of six people, and the angles of their pairs."""
    settings = tuple(evidence.records)
    notes = [CLASSES, f"Six people with 200 images each. {_ANNEALED}"]
    if settings[0].data == "faces":
        notes = [NOTE, f"Six people with 185 to 342 images. {_ANNEALED}"]

    def spheres() -> Figure:
        panels = []
        for setting in settings:
            title, points, labels = drawn(evidence, setting, 40)
            prototypes = torch.from_numpy(evidence.first(setting, "prototypes"))
            panels.append((title, normalize(prototypes), normalize(points), labels))
        return draw_spheres(panels)

    def angles() -> Figure:
        panels = []
        for setting in settings:
            title, points, labels = drawn(evidence, setting)
            between = (normalize(points) @ normalize(points).T).clamp(-1, 1).acos().rad2deg()
            upper = torch.ones_like(between, dtype=torch.bool).triu(1)
            same = labels[:, None] == labels
            bins = np.linspace(0, 180, 61)
            lines = []
            for label, chosen in (("one person", same & upper), ("two people", ~same & upper)):
                counts = np.histogram(between[chosen].numpy(), bins)[0]
                lines.append(Line(label, (bins[1:] + bins[:-1]) / 2, counts / counts.sum()))
            panels.append(Panel(title, "angle between two images, degrees", "share of pairs", lines))
        return draw_panels(panels)

    return Outcome(
        findings=[falling(evidence, before, after) for before, after in itertools.pairwise(settings)],
        figures={"fig5": spheres, "angles": angles},
        notes=notes,
    )


_EVEN = SOFTMAX.but("softmax", "train.steps=1240")
_TAILED_COUNTS = long_tailed_counts(100, 60, 20.0)
_LONG_TAILED = classes(
    "CE",
    "softmax",
    "data.imbalance=long_tailed",
    "data.imbalance_ratio=20.0",
    count=100,
    images=60,
    steps=1500,
)


@experiment("sphereface/fig10", [_EVEN, _LONG_TAILED])
def biases(evidence: Evidence) -> Outcome:
    """Fig. 10: the biases of the last layer, and how they go with the size of a class."""
    spreads = evidence.values(_EVEN, "logit spread")
    all_biases = [record.arrays.get("bias", np.full(1, np.nan)) for record in evidence.records[_EVEN]]
    shares = np.array([bias.std() for bias in all_biases]) / spreads

    tailed = [record.arrays.get("bias", np.full(100, np.nan)) for record in evidence.records[_LONG_TAILED]]
    correlations = [float(np.corrcoef(bias, _TAILED_COUNTS)[0, 1]) for bias in tailed]

    def histogram() -> Figure:
        bins = np.linspace(-1, 1, 81) * max(float(np.abs(bias).max()) for bias in all_biases)
        lines = [
            Line(f"seed {seed}", (bins[1:] + bins[:-1]) / 2, np.histogram(bias, bins)[0])
            for seed, bias in zip(evidence.job.seeds, all_biases, strict=True)
        ]
        points = [
            Line(f"seed {seed}", _TAILED_COUNTS, bias, "o")
            for seed, bias in zip(evidence.job.seeds, tailed, strict=True)
        ]
        return draw_panels(
            [
                Panel("softmax, 200 people, 20 images each", "bias", "people", lines),
                Panel("softmax, 100 people, long-tailed", "training images of the person", "bias", points),
            ],
            width=4.8,
        )

    claim = evidence.judged(
        over_seeds(0.1 - shares),
        f"deviation of the biases over that of the logits: {', '.join(f'{share:.3f}' for share in shares)}",
        (_EVEN,),
        note="near zero: below 0.1. All classes have 20 images, so nothing asks for a bias",
    )
    grows = evidence.judged(
        of_correlation(float(np.mean(correlations)), len(_TAILED_COUNTS)),
        ", ".join(f"{correlation:+.2f}" for correlation in correlations),
        (_LONG_TAILED,),
        sentence="the bias of a class grows with its number of images: correlation over 100 people with 60 to 3 images",
    )
    ended = float(np.mean([bias.std() for bias in all_biases]))
    how = (
        "Pocket faces: cnn4 as a classifier of 200 people with 20 images of 32 x 32 each, 1,240 steps of AdamW, and of "
        "100 people with 60 to 3 images, 1,500 steps. Biases start as those of torch's linear layer, evenly "
        f"within 1/8 of zero, a deviation of 0.072; that of the 200 people's is {ended:.3f} after training."
    )
    return Outcome(findings=[claim, grows], figures={"fig10": histogram}, notes=[how])
