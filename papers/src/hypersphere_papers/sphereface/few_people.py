"""SphereFace on the few people with most images: Figs. 2, 5."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import torch

from hypersphere.geometry import normalize
from hypersphere.plots import Line, Panel, draw_features, draw_panels, draw_spheres
from hypersphere_papers.engine.evidence import Evidence, experiment
from hypersphere_papers.engine.face_toys import NOTE, face_toy
from hypersphere_papers.engine.feature_spread import drawn, falling
from hypersphere_papers.engine.outcome import Outcome
from hypersphere_papers.engine.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RATE = ("optimizer.lr=0.02",)
_TRAINED = "Batches of 32, flipped at random, SGD at 0.02; lambda of the annealing is 5"
_SOON = "Two lengths: the shorter is about what a fit takes, and a network soon learns so few images by heart."


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
