"""Features of two dimensions, as they lie in the plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from hypersphere.plots.style import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TEN = "tab10"


def draw_features(
    panels: Sequence[tuple[str, Tensor, Tensor]], *, prototypes: Sequence[Tensor] | None = None, columns: int = 4
) -> Figure:
    """Scatter of 2-D features, one panel each, coloured by class, with the prototypes' directions as lines.

    Args:
        panels: title, (N, 2) features and (N,) labels each.
        prototypes: (k, 2) of every panel.
        columns: panels in a row.
    """
    across = min(columns, len(panels))
    down = math.ceil(len(panels) / across)
    figure = new_figure(3.1 * across, 3.2 * down)
    for place, (title, features, labels) in enumerate(panels, start=1):
        axes = figure.add_subplot(down, across, place)
        points, classes = features.numpy(), labels.numpy()
        axes.scatter(points[:, 0], points[:, 1], c=classes, cmap=_TEN, s=1.5, linewidths=0, rasterized=True)
        if prototypes is not None:
            reach = float(np.quantile(np.linalg.norm(points, axis=1), 0.98))
            for direction in prototypes[place - 1].numpy():
                end = direction / np.linalg.norm(direction) * reach
                axes.plot([0, end[0]], [0, end[1]], color="black", linewidth=0.7)
        axes.set(title=title, xlabel="feature 1", ylabel="feature 2")
        axes.set_aspect("equal", adjustable="datalim")
    return figure
