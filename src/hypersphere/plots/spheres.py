"""Prototypes and features on the 3-D unit sphere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.geometry import normalize
from hypersphere.plots.style import COLORS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ELEVATION, _AZIMUTH = 20.0, 35.0
_BEHIND: dict[str, Any] = {"alpha": 0.35, "zorder": 1}
_IN_FRONT: dict[str, Any] = {"alpha": 1.0, "zorder": 3}
_VIEWER = np.array(
    [
        np.cos(np.radians(_ELEVATION)) * np.cos(np.radians(_AZIMUTH)),
        np.cos(np.radians(_ELEVATION)) * np.sin(np.radians(_AZIMUTH)),
        np.sin(np.radians(_ELEVATION)),
    ]
)


def draw_spheres(panels: Sequence[tuple[str, Tensor | None, Tensor, Tensor]]) -> Figure:
    """One sphere per panel: prototypes as arrows, features as points in the colour of their class; faint at the back.

    Args:
        panels: title, (k, 3) prototypes (or None), (N, 3) features and (N,) labels each.
    """
    figure = new_figure(3.1 * len(panels), 3.5)
    for place, (title, prototypes, features, labels) in enumerate(panels, start=1):
        axes: Any = figure.add_subplot(1, len(panels), place, projection="3d")
        _draw_globe(axes)
        _draw_points(axes, features.numpy(), labels.numpy())
        if prototypes is not None:
            _draw_arrows(axes, prototypes.numpy())
        axes.set_title(title)
    return figure


def project_to_sphere(embeddings: Tensor) -> tuple[Tensor, float]:
    """Embeddings of any width as points on the 3-D sphere, their mean turned to the viewer.

    They are projected on the three directions that keep most of them (those of the singular value decomposition) and
    made unit vectors again.

    Args:
        embeddings: (N, d) unit vectors, N and d at least 3.

    Returns:
        (N, 3) unit vectors, and the share of squared length that the projection kept.
    """
    if embeddings.ndim != 2 or min(embeddings.shape) < 3:
        raise ValueError(f"embeddings have shape {tuple(embeddings.shape)}; expected at least 3 of at least 3 numbers")
    wide = embeddings.double()
    low = wide @ torch.linalg.svd(wide, full_matrices=False)[2][:3].T
    points, viewer = normalize(low), torch.from_numpy(_VIEWER)
    mirror = normalize(normalize(points.mean(0)) - viewer)
    turned = points - 2 * (points @ mirror)[:, None] * mirror
    return turned.to(embeddings.dtype), float(low.square().sum() / wide.square().sum())


def _draw_globe(axes: Any) -> None:
    polar, around = np.mgrid[0 : np.pi : 60j, 0 : 2 * np.pi : 120j]
    globe = np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around), np.cos(polar)
    axes.computed_zorder = False
    axes.plot_surface(*globe, color="#DDE5EE", alpha=0.25, linewidth=0, shade=False, zorder=2)
    axes.plot_wireframe(*globe, color="#8899AA", linewidth=0.3, alpha=0.35, rstride=10, cstride=10, zorder=2)
    axes.set_box_aspect((1, 1, 1), zoom=1.45)
    axes.set_axis_off()
    axes.view_init(elev=_ELEVATION, azim=_AZIMUTH)
    axes.set(xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))


def _draw_points(axes: Any, features: Any, labels: Any) -> None:
    for label in np.unique(labels):
        own = features[labels == label]
        in_front = own @ _VIEWER >= 0
        for chosen, place in ((own[~in_front], _BEHIND), (own[in_front], _IN_FRONT)):
            look = {"s": 20, "edgecolor": "black", "linewidth": 0.3, "depthshade": False}
            axes.scatter(*chosen.T, color=COLORS[label % len(COLORS)], **look, **place)


def _draw_arrows(axes: Any, prototypes: Any) -> None:
    for index, prototype in enumerate(prototypes):
        place = _IN_FRONT if prototype @ _VIEWER >= 0 else _BEHIND
        color = COLORS[index % len(COLORS)]
        axes.quiver(0, 0, 0, *prototype, color=color, linewidth=1.6, arrow_length_ratio=0.1, **place)
