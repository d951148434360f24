"""AmpFace Figs. 15-18: decision margins in the plane of two angles and on the 3-D sphere."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.geometry import nearest_angle
from hypersphere.plots import draw_plane_regions, draw_sphere_regions
from hypersphere.theory import ExpectedSoftmax, vary
from hypersphere_papers.ampface.angle_curves import BEST_MARGINS, LOSS_NAMES
from hypersphere_papers.ampface.decision_margins import cap_boundary, decide, equatorial_prototypes
from hypersphere_papers.engine.job import Job, item
from hypersphere_papers.engine.outcome import Outcome, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TWO = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], dtype=torch.float64)
_THREE = torch.cat([_TWO, torch.tensor([[0.0, -1.0, 0.0]], dtype=torch.float64)])


def margin_settings() -> dict[str, ExpectedSoftmax]:
    """No margin, and each of App. B's best alone."""
    plain = ExpectedSoftmax()
    named = {f"{LOSS_NAMES[key]} {key} = {value}": vary(plain, key, value) for key, value in BEST_MARGINS.items()}
    return {"no margin": plain, **named}


@dataclass(frozen=True)
class Region:
    """What a margin leaves of a class, in degrees.

    Args:
        gap: between two classes at right angles, on the great circle through them (Fig. 16).
        ends: mean over the azimuth of the polar angle at which the region of (0, 0, 1) ends in the crowd (Fig. 18).
        deviation: of that angle.
    """

    gap: float
    ends: float
    deviation: float


@functools.cache
def regions() -> dict[str, Region]:
    """No margin, and each of App. B's best alone."""
    found = {}
    for title, setting in margin_settings().items():
        gap = math.degrees(math.pi / 2 - 2 * float(cap_boundary(_TWO, setting, directions=1, steps=20_001)[0]))
        edge = np.degrees(cap_boundary(_crowd(), setting, directions=90, steps=901))
        found[title] = Region(max(gap, 0), float(edge.mean()), float(edge.std()))
    return found


def _crowd() -> Tensor:
    return equatorial_prototypes(200, nearest_angle(85_742, 512).mean)


def decisions() -> Outcome:
    """Figs. 15-18: how wide the margins are, and the cap that many prototypes leave."""
    findings = [
        number(title, f"{found.gap:.1f}  {found.ends:.1f} ± {found.deviation:.1f}")
        for title, found in regions().items()
    ]
    notes = [
        "First: the margin in degrees between two classes at right angles, on the great circle through them (Fig. 16). "
        "Second: the polar angle at which the region of (0, 0, 1) ends among 200 prototypes at least "
        f"{math.degrees(nearest_angle(85_742, 512).mean):.2f} degrees away (Fig. 18), "
        "its mean and deviation over the azimuth: a cap for every margin, as the paper says. It prints no numbers.",
    ]
    return Outcome(findings=findings, notes=notes, figures=_FIGURES)


@item("ampface/fig15", "ampface/fig16", "ampface/fig17")
def gaps(job: Job) -> Outcome:
    """Figs. 15-17: decision margins in the plane and on the sphere."""
    figure = job.entry.id.split("/")[1]
    what = "margin between two classes at right angles, degrees"
    findings = [number(f"{title}: {what}", f"{found.gap:.1f}") for title, found in regions().items()]
    return Outcome(findings=findings, figures={figure: _FIGURES[figure]})


_CAP = 1.0
"""Degrees by which the edge of a cap may deviate over the azimuth, among as few as 200 prototypes."""


@item("ampface/fig18")
def crowd(job: Job) -> Outcome:
    """Fig. 18: the region of a prototype among 200."""
    what = "polar angle at which the region ends, mean and deviation over the azimuth, degrees"
    exact = math.degrees(nearest_angle(85_742, 512).mean)
    ends = [
        number(f"{title}: {what}", f"{found.ends:.1f} ± {found.deviation:.1f}") for title, found in regions().items()
    ]
    widest = max(found.deviation for found in regions().values())
    cap = job.claim(
        widest < _CAP, f"deviations of at most {widest:.1f} degrees", note=f"a cap: below {_CAP:g} degree of the edge"
    )
    findings = [cap, job.value("expected inter-class distance, degrees", exact, digits=2), *ends]
    return Outcome(findings=findings, figures={"fig18": _FIGURES["fig18"]})


def _draw_planes() -> Figure:
    def labels(setting: ExpectedSoftmax) -> Callable[[Any], Any]:
        return lambda degrees: decide(torch.from_numpy(np.cos(np.radians(degrees))), setting).numpy()

    return draw_plane_regions([(title, labels(setting)) for title, setting in margin_settings().items()])


def _draw_spheres(prototypes: Tensor, *, only_first: bool = False) -> Figure:
    def labels(setting: ExpectedSoftmax) -> Callable[[Any], Any]:
        def found(points: Any) -> Any:
            classes = decide(torch.from_numpy(points) @ prototypes.T, setting)
            return (torch.where(classes == 0, 0, -1) if only_first else classes).numpy()

        return found

    return draw_sphere_regions(
        [(title, labels(setting), prototypes.numpy()) for title, setting in margin_settings().items()],
        viewer=(1.0, -0.8, 0.6),
    )


_FIGURES: dict[str, Callable[[], Figure]] = {
    "fig15": _draw_planes,
    "fig16": lambda: _draw_spheres(_TWO),
    "fig17": lambda: _draw_spheres(_THREE),
    "fig18": lambda: _draw_spheres(_crowd(), only_first=True),
}
