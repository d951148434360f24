"""SphereFace2 on the six people with most images: Figs. 7, 8."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from hypersphere.geometry import normalize
from hypersphere.plots import draw_features, draw_spheres
from hypersphere_papers.engine.evidence import Evidence, experiment
from hypersphere_papers.engine.face_toys import NOTE, face_toy
from hypersphere_papers.engine.feature_spread import drawn, falling, of_seeds
from hypersphere_papers.engine.outcome import Finding, Outcome
from hypersphere_papers.engine.record import Record
from hypersphere_papers.engine.setting import Setting
from hypersphere_papers.engine.verdict import over_seeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_R = 30.0
_LOSS = (f"head.scale={_R}", "head.balance=0.7", "head.power=1.0")
_NORMED = ("backbone.batch_norm=true", "backbone.bnneck=true", "optimizer.lr=0.05", "augment.flip=0.0")
"""Features without the neck, whose means are zero, fall together."""


def _toy(title: str, margin: float, dim: int, *more: str) -> Setting:
    """Features of the six people with most images, r = 30, t = 1."""
    options = (f"head.margin={margin}", *_LOSS, *_NORMED, *more)
    return face_toy(title, "sphereface2", *options, dim=dim, count=6, batch=64)


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
    shares = of_seeds(evidence, setting, lambda record: outside(record, margin))
    return evidence.judged(
        over_seeds(shares - 0.9),
        f"{', '.join(f'{100 * share:.1f} %' for share in shares)} of the training images, by seed",
        (setting,),
        sentence=f"{setting.title}: features keep outside r g(cos) + b = +- r m, for every class",
        note="from 90 % on",
    )


def draw_lines(axes: Axes, prototypes: torch.Tensor, bias: float, margin: float) -> None:
    """Draw r cos = -b in a circle of radius r for every class, and for the first one r cos = -b +- r m, dashed."""
    for number, prototype in enumerate(normalize(prototypes)):
        angle = math.atan2(prototype[1], prototype[0])
        for offset in (0.0, -margin, margin) if number == 0 and margin else (0.0,):
            cosine = offset - bias / _R
            if abs(cosine) < 1:
                ends = [angle + side * math.acos(cosine) for side in (-1, 1)]
                x, y = ([_R * turn(end) for end in ends] for turn in (math.cos, math.sin))
                axes.plot(x, y, "--" if offset else "-", color="grey", linewidth=0.7)


_SIX = (
    "Six people with 185 to 342 images; lambda = 0.7, r = 30, t = 1 and the loss times 10. 2,000 steps of batches of "
    "64, no image flipped, SGD at 0.05. The network has BatchNorm after every layer, also the last: otherwise the "
    "features of so few dimensions fall together."
)
_ENERGY = (
    "The bias begins where every class's line halves the plane (App. G), and six half-planes overlap. To keep the "
    "people apart until it has fallen, the hyperspherical energy of the prototypes is added with weight 200, but for "
    "the row that says so. In all rows prototypes are brought back to norm 1 after every step and learned at 1/200 of "
    "the network's rate, so that it is the energy that places them: features do not follow prototypes that turn faster."
    " Found on seed 0, m = 0.2."
)
_LINES = (
    "Features are drawn at their radius r. Black: prototypes; grey: r cos + b = 0 of every class, and dashed, for one "
    "class, +- r m."
)
_SLOW = ("optimizer.prototype_lr_factor=0.005", "head.renormalize=true")
_SPREAD = "head.add.hyperspherical_energy.weight=200.0"
_NONE, _WIDE = (_toy(f"m = {m:g}", m, 2, *_SLOW, _SPREAD) for m in (0.0, 0.2))
_ALONE = _toy("m = 0.2, the loss alone", 0.2, 2, *_SLOW)


@experiment("sphereface2/fig7", [_NONE, _WIDE, _ALONE])
def plane(evidence: Evidence) -> Outcome:
    """Fig. 7: 2-D features with m = 0 and m = 0.2."""
    margins = {_NONE: 0.0, _WIDE: 0.2, _ALONE: 0.2}

    def figure() -> Figure:
        panels, prototypes = [], []
        for setting in margins:
            title, points, labels = drawn(evidence, setting, 200)
            panels.append((title, _R * normalize(points), labels))
            prototypes.append(torch.from_numpy(evidence.first(setting, "prototypes")))
        drawing = draw_features(panels, prototypes=prototypes)
        for axes, rows, (setting, margin) in zip(drawing.axes, prototypes, margins.items(), strict=True):
            draw_lines(axes, rows, float(evidence.first(setting, "bias")[0]), margin)
        return drawing

    return Outcome(
        findings=[falling(evidence, _NONE, _WIDE), *(keeps_outside(evidence, each, 0.2) for each in (_WIDE, _ALONE))],
        figures={"fig7": figure},
        notes=[NOTE, f"{_SIX} {_ENERGY} {_LINES}"],
    )


_SPACE = _toy("3-D, m = 0.2", 0.2, 3)


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
        notes=[NOTE, f"{_SIX} The loss alone. Arrows are prototypes."],
    )
