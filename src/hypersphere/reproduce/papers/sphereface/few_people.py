"""SphereFace on the few people with most images: Figs. 2, 5."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from hypersphere.geometry import normalize
from hypersphere.plots import Line, Panel, draw_features, draw_panels, draw_spheres
from hypersphere.reproduce.experiment.evidence import Evidence, Floats, difference, experiment
from hypersphere.reproduce.experiment.face_toys import NOTE, face_toy
from hypersphere.reproduce.experiment.record import Record
from hypersphere.reproduce.experiment.setting import Setting
from hypersphere.reproduce.experiment.verdict import over_seeds
from hypersphere.reproduce.outcome import Finding, Outcome
from hypersphere.reproduce.papers.sphereface.digits import features_of, spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 100
_RATE = ("optimizer.lr=0.02",)
_TRAINED = "Batches of 32, flipped at random, SGD at 0.02; lambda of the annealing is 5"
_SOON = "Two lengths: the shorter is about what a fit takes, and a network soon learns so few images by heart."


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


_LENGTHS = (200, 600)
_QUICK = "head.anneal={base=1000.0,gamma=2.0,power=1.0,minimum=5.0}"


def _two(steps: int) -> tuple[Setting, ...]:
    """The three losses on two people."""
    losses = {
        "softmax": ("softmax",),
        "modified softmax": ("modified_softmax",),
        "A-Softmax, m = 4": ("sphereface", "head.margin=4", _QUICK),
    }
    return tuple(
        face_toy(f"{loss}, {steps} steps", *options, *_RATE, count=2, dim=2, steps=steps)
        for loss, options in losses.items()
    )


_TWO = {steps: _two(steps) for steps in _LENGTHS}


@experiment("sphereface/fig2", [setting for settings in _TWO.values() for setting in settings])
def two_people(evidence: Evidence) -> Outcome:
    """Fig. 2: 2-D features of two people."""
    pairs = [pair for settings in _TWO.values() for pair in itertools.pairwise(settings)]
    return Outcome(
        findings=[falling(evidence, before, after) for before, after in pairs],
        figures={"fig2": lambda: draw_features([drawn(evidence, each, 200) for each in evidence.records], columns=3)},
        notes=[NOTE, f"Two people with 342 and 212 images. {_TRAINED} from the 100th step on. {_SOON}"],
    )


_SIX = tuple(face_toy(f"m = {m}", "sphereface", f"head.margin={m}", *_RATE, count=6, dim=3) for m in (1, 2, 3, 4))


@experiment("sphereface/fig5", _SIX)
def six_people(evidence: Evidence) -> Outcome:
    """Fig. 5: 3-D features of six people, and the angles of their pairs."""

    def spheres() -> Figure:
        panels = []
        for setting in _SIX:
            title, points, labels = drawn(evidence, setting, 40)
            prototypes = torch.from_numpy(evidence.first(setting, "prototypes"))
            panels.append((title, normalize(prototypes), normalize(points), labels))
        return draw_spheres(panels)

    def angles() -> Figure:
        panels = []
        for setting in _SIX:
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
        findings=[falling(evidence, before, after) for before, after in itertools.pairwise(_SIX)],
        figures={"fig5": spheres, "angles": angles},
        notes=[NOTE, f"Six people with 185 to 342 images, about 2,000 steps. {_TRAINED} at the end."],
    )
