"""AmpFace Figs. 15-18: decision margins in the plane of two angles and on the 3-D sphere."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.geometry import nearest_angle
from hypersphere.plots import draw_plane_regions, draw_sphere_regions
from hypersphere.theory.ampface_curves import BEST_MARGINS, LOSS_NAMES
from hypersphere.theory.decisions import cap_boundary, decide, equatorial_prototypes
from hypersphere.theory.losses import Setting
from hypersphere.theory.report import Report, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TWO = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], dtype=torch.float64)
_THREE = torch.cat([_TWO, torch.tensor([[0.0, -1.0, 0.0]], dtype=torch.float64)])


def margin_settings() -> dict[str, Setting]:
    """No margin, and each of App. B's best alone."""
    named = {f"{LOSS_NAMES[key]} {key} = {value}": Setting(**{key: value}) for key, value in BEST_MARGINS.items()}  # type: ignore[arg-type]
    return {"no margin": Setting(), **named}


def report_decisions() -> Report:
    """Figs. 15-18: how wide the margins are, and the cap that many prototypes leave."""
    nearest = nearest_angle(85_742, 512).mean
    crowd = equatorial_prototypes(200, nearest)
    rows = []
    for title, setting in margin_settings().items():
        gap = math.degrees(math.pi / 2 - 2 * float(cap_boundary(_TWO, setting, directions=1, steps=20_001)[0]))
        edge = np.degrees(cap_boundary(crowd, setting, directions=90, steps=901))
        rows.append(Row(title, f"{max(gap, 0):.1f}  {edge.mean():.1f} ± {edge.std():.1f}"))
    notes = [
        "First: the margin in degrees between two classes at right angles, on the great circle through them (Fig. 16). "
        "Second: the polar angle at which the region of (0, 0, 1) ends among 200 prototypes at least "
        f"{math.degrees(nearest):.2f} degrees away (Fig. 18), "
        "its mean and deviation over the azimuth: a cap for every margin, as the paper says. It prints no numbers.",
    ]
    figures: dict[str, Callable[[], Figure]] = {
        "fig15": _draw_planes,
        "fig16": lambda: _draw_spheres(_TWO),
        "fig17": lambda: _draw_spheres(_THREE),
        "fig18": lambda: _draw_spheres(crowd, only_first=True),
    }
    return Report("Decision margins (AmpFace Figs. 15-18)", rows, notes, figures)


def _draw_planes() -> Figure:
    def labels(setting: Setting) -> Callable[[Any], Any]:
        return lambda degrees: decide(torch.from_numpy(np.cos(np.radians(degrees))), setting).numpy()

    return draw_plane_regions([(title, labels(setting)) for title, setting in margin_settings().items()])


def _draw_spheres(prototypes: Tensor, *, only_first: bool = False) -> Figure:
    def labels(setting: Setting) -> Callable[[Any], Any]:
        def found(points: Any) -> Any:
            classes = decide(torch.from_numpy(points) @ prototypes.T, setting)
            return (torch.where(classes == 0, 0, -1) if only_first else classes).numpy()

        return found

    return draw_sphere_regions(
        [(title, labels(setting), prototypes.numpy()) for title, setting in margin_settings().items()],
        viewer=(1.0, -0.8, 0.6),
    )
