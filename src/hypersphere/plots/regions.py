"""Which class holds where: in a plane of two angles, and on the 3-D sphere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hypersphere.plots.style import COLORS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Labels = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.int64]]
_BLANK, _MARGIN = "#FFFFFF", "#E8E8E8"


def draw_plane_regions(panels: Sequence[tuple[str, Labels]], *, limit: float = 180.0, points: int = 361) -> Figure:
    """The plane of two angles in degrees, coloured by class, white in the margin; the dashed line is the bisector.

    Args:
        panels: a title each, and a function from (n, 2) angles in degrees to class indices, -1 for none.
        limit: the largest angle.
        points: of the grid along each axis.
    """
    from matplotlib.colors import ListedColormap

    figure = new_figure(2.7 * len(panels), 2.9)
    grid = np.linspace(0, limit, points)
    first, second = np.meshgrid(grid, grid)
    for place, (title, labels) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), place)
        found = labels(np.stack([first.ravel(), second.ravel()], axis=1)).reshape(first.shape)
        colors = ListedColormap([_BLANK, COLORS[0], COLORS[1]])
        axes.imshow(
            found,
            origin="lower",
            extent=(0, limit, 0, limit),
            cmap=colors,
            vmin=-1,
            vmax=1,
            alpha=0.6,
            interpolation="nearest",
        )
        axes.plot([0, limit], [0, limit], color="black", linestyle="--", linewidth=1)
        axes.set(title=title, xlabel="angle to class 1 (degrees)", ylabel="angle to class 2 (degrees)")
        axes.grid(visible=False)
    return figure


def draw_sphere_regions(
    panels: Sequence[tuple[str, Labels, npt.NDArray[np.float64]]],
    *,
    viewer: tuple[float, float, float],
    pixels: int = 401,
) -> Figure:
    """Spheres seen from one side, coloured by class and grey in the margin, with the prototypes on that side as dots.

    Args:
        panels: a title each, a function from (n, 3) unit vectors to class indices (-1 for none), and the prototypes.
        viewer: the direction from which they are seen, not straight from above.
        pixels: along the diameter.
    """
    figure = new_figure(2.5 * len(panels), 2.8)
    for place, (title, labels, prototypes) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), place)
        draw_sphere_region(axes, labels, prototypes, viewer=viewer, pixels=pixels)
        axes.set_title(title)
    return figure


def draw_sphere_region(
    axes: Any,
    labels: Labels,
    prototypes: npt.NDArray[np.float64],
    *,
    viewer: tuple[float, float, float],
    pixels: int = 401,
) -> None:
    """One such sphere on axes that are there; see `draw_sphere_regions`."""
    from matplotlib.colors import to_rgb

    palette = np.array([to_rgb(color) for color in (*COLORS, _MARGIN, _BLANK)])
    front = np.array(viewer) / np.linalg.norm(viewer)
    right = np.cross([0.0, 0.0, 1.0], front)
    right /= np.linalg.norm(right)
    up = np.cross(front, right)
    across, down = np.meshgrid(np.linspace(-1, 1, pixels), np.linspace(-1, 1, pixels))
    disc = across**2 + down**2 <= 1
    depth = np.sqrt(np.maximum(1 - across**2 - down**2, 0.0))
    globe = across[..., None] * right + down[..., None] * up + depth[..., None] * front
    light = 0.75 + 0.25 * depth[..., None]
    found = np.full(disc.shape, len(COLORS) + 1)
    classes = labels(globe[disc])
    found[disc] = np.where(classes < 0, len(COLORS), classes % len(COLORS))
    picture = np.where(disc[..., None], palette[found] * light, 1.0)
    axes.imshow(picture, origin="lower", extent=(-1, 1, -1, 1), interpolation="antialiased")
    seen = prototypes[prototypes @ front > 0]
    axes.scatter(seen @ right, seen @ up, color="black", s=16 if len(prototypes) < 50 else 3)
    axes.set_axis_off()
