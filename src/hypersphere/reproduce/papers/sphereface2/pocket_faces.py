"""SphereFace2 on pocket faces: Figs. 5, 7, 8."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import torch

from hypersphere.geometry import normalize
from hypersphere.plots import draw_features, draw_spheres
from hypersphere.reproduce.experiment.drawings import draw_pairs
from hypersphere.reproduce.experiment.evidence import CLASSES, PEOPLE, Evidence, experiment
from hypersphere.reproduce.experiment.record import Record
from hypersphere.reproduce.experiment.setting import (
    Setting,
    features,
    sphereface2,
)
from hypersphere.reproduce.experiment.verdict import over_seeds
from hypersphere.reproduce.outcome import Finding, Outcome
from hypersphere.reproduce.papers.sphereface.pocket_faces import drawn, falling

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ACCURACY = "accuracy on unseen pairs, %"
_RIVALS = (
    "Scales and margins of CosFace, ArcFace and SphereFace2 are those tuned for pocket faces (recipes/pocket); those "
    "of Coco, Circle, CurricularFace and SphereFace were not."
)
_LAMBDA = (
    "lambda is nearer to 1 than the paper's 0.7. It was chosen for runs of 620 steps, which are too short for "
    "SphereFace2: with lambda = 0.7 and t = 1, 1,860 steps take the accuracy from 70.0 to 90.5 %. The number of "
    "classes (200, not 8,631) does not explain it."
)
_POWERS = tuple(sphereface2(f"t = {t:g}", power=t) for t in (1.0, 2.0, 3.0))


@experiment("sphereface2/fig5", _POWERS)
def similarity_adjustment(evidence: Evidence) -> Outcome:
    """Fig. 5: similarities of unseen pairs for several t."""
    findings = []
    for setting in _POWERS:
        findings.append(evidence.row(setting, "separation"))
        findings.append(evidence.row(setting, "range"))
    for before, after in itertools.pairwise(_POWERS):
        for name, said in (("separation", "pairs overlap less"), ("range", "the range grows")):
            sentence = f"{said} from {before.title} to {after.title}"
            findings.append(evidence.larger(name, after, before, sentence=sentence))
    figures = {"fig5": lambda: draw_pairs(evidence, _POWERS)}
    return Outcome(findings=findings, figures=figures, notes=[PEOPLE, _LAMBDA])


_R = 30.0
_TOY = (f"head.scale={_R}", "head.balance=0.7", "head.power=1.0")


def toy(title: str, margin: float, dim: int, count: int) -> Setting:
    """Features of a few people, r = 30, t = 1."""
    return features(title, "sphereface2", f"head.margin={margin}", *_TOY, dim=dim, count=count, steps=800)


def outside(record: Record, margin: float) -> float:
    """Share of training images on the right side of all their lines: r g + b > r m for their own class, < -r m else."""
    unit = normalize(torch.from_numpy(record.arrays["features"]))
    cosines = unit @ normalize(torch.from_numpy(record.arrays["prototypes"])).T
    labels = torch.from_numpy(record.arrays["labels"].astype(np.int64))
    logits = _R * cosines + float(record.arrays["bias"][0])
    own = torch.nn.functional.one_hot(labels, cosines.shape[1]).bool()
    kept = torch.where(own, logits > _R * margin, logits < -_R * margin)
    return float(kept.all(1).double().mean())


def keeps_outside(evidence: Evidence, setting: Setting, margin: float) -> Finding:
    """That nine images in ten keep outside of all lines."""
    shares = np.array([np.nan if record.stopped else outside(record, margin) for record in evidence.records[setting]])
    return evidence.judged(
        over_seeds(shares - 0.9),
        f"{', '.join(f'{100 * share:.1f} %' for share in shares)} of the training images, by seed",
        (setting,),
        sentence=f"{setting.title}: features keep outside r g(cos) + b = +- r m, for every class",
        note="from 90 % on",
    )


_THREE = (
    "Three people with 200 images each and fixed prototypes 120 degrees apart, not the paper's six and learned ones, "
    "whose prototypes fell together in the 800 steps of these runs. With Adam at 0.05 and 3,000 steps the paper's "
    "figure is reached, with 4 seeds of 4. Lines are the prototypes' directions."
)
_PLANE = tuple(toy(f"m = {m:g}", m, 2, 3).but(f"m = {m:g}", "head.prototypes=simplex") for m in (0.0, 0.2))


@experiment("sphereface2/fig7", _PLANE)
def plane(evidence: Evidence) -> Outcome:
    """Fig. 7: 2-D features with m = 0 and m = 0.2."""

    def figure() -> Figure:
        prototypes = [torch.from_numpy(evidence.first(setting, "prototypes")) for setting in _PLANE]
        return draw_features([drawn(evidence, setting, 200) for setting in _PLANE], prototypes=prototypes)

    return Outcome(
        findings=[falling(evidence, *_PLANE), keeps_outside(evidence, _PLANE[1], 0.2)],
        figures={"fig7": figure},
        notes=[CLASSES, _THREE],
    )


_SIX = (
    "Six people with 200 images each, 800 steps, which are too few: with Adam at 0.05 and 3,000 steps the figure is "
    "reached, with 4 seeds of 4. Arrows are prototypes."
)
_SPACE = toy("3-D, m = 0.2", 0.2, 3, 6)


@experiment("sphereface2/fig8", [_SPACE])
def space(evidence: Evidence) -> Outcome:
    """Fig. 8: 3-D features and the planes of a class."""

    def figure() -> Figure:
        title, points, labels = drawn(evidence, _SPACE, 40)
        prototypes = torch.from_numpy(evidence.first(_SPACE, "prototypes"))
        return draw_spheres([(title, normalize(prototypes), normalize(points), labels)])

    return Outcome(
        findings=[keeps_outside(evidence, _SPACE, 0.2)],
        figures={"fig8": figure},
        notes=[CLASSES, _SIX],
    )
