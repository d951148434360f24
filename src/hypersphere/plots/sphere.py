"""Prototypes and features on the 3-D unit sphere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from hypersphere.plots.style import COLORS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ELEVATION, _AZIMUTH = 20.0, 35.0


def draw_spheres(panels: Sequence[tuple[str, Tensor, Tensor, Tensor]]) -> Figure:
    """One sphere per panel: prototypes as arrows, features as points in the colour of their class.

    Args:
        panels: title, (k, 3) prototypes, (N, 3) features and (N,) labels each.
    """
    figure = new_figure(3.1 * len(panels), 3.5)
    for place, (title, prototypes, features, labels) in enumerate(panels, start=1):
        axes: Any = figure.add_subplot(1, len(panels), place, projection="3d")
        _draw_globe(axes)
        _draw_points(axes, prototypes.numpy(), features.numpy(), labels.numpy())
        axes.set_title(title)
    return figure


def _draw_globe(axes: Any) -> None:
    polar, around = np.mgrid[0 : np.pi : 60j, 0 : 2 * np.pi : 120j]
    globe = np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around), np.cos(polar)
    axes.plot_surface(*globe, color="#DDE5EE", alpha=0.25, linewidth=0, shade=False)
    axes.plot_wireframe(*globe, color="#8899AA", linewidth=0.3, alpha=0.35, rstride=10, cstride=10)
    axes.set_box_aspect((1, 1, 1), zoom=1.45)
    axes.set_axis_off()
    axes.view_init(elev=_ELEVATION, azim=_AZIMUTH)
    axes.set(xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))


def _draw_points(axes: Any, prototypes: Any, features: Any, labels: Any) -> None:
    elevation, azimuth = np.radians(_ELEVATION), np.radians(_AZIMUTH)
    viewer = np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)])
    for index, prototype in enumerate(prototypes):
        color = COLORS[index % len(COLORS)]
        faint = 1.0 if prototype @ viewer >= 0 else 0.35
        axes.quiver(0, 0, 0, *prototype, color=color, alpha=faint, linewidth=1.6, arrow_length_ratio=0.1)
        own = features[labels == index]
        axes.scatter(*own.T, color=color, alpha=faint, s=14, edgecolor="black", linewidth=0.3, depthshade=False)
