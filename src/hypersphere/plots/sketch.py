"""Schematics: blank panels with boxes, arrows and words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hypersphere.plots.style import COLORS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Point = tuple[float, float]


def new_sketch(titles: Sequence[str], *, width: float, height: float) -> tuple[Figure, list[Any]]:
    """Blank panels side by side, each `width` x `height` inches, with coordinates from (0, 0) to (1, 1)."""
    figure = new_figure(width * len(titles), height)
    panels = []
    for place, title in enumerate(titles, start=1):
        axes = figure.add_subplot(1, len(titles), place)
        axes.set(title=title, xlim=(0, 1), ylim=(0, 1))
        axes.set_axis_off()
        panels.append(axes)
    return figure, panels


def draw_box(axes: Any, at: Point, text: str, *, color: str = COLORS[0], size: Point = (0.2, 0.16)) -> None:
    """A rounded box with words, its centre at a point."""
    from matplotlib.patches import FancyBboxPatch

    corner = at[0] - size[0] / 2, at[1] - size[1] / 2
    axes.add_patch(
        FancyBboxPatch(
            corner, *size, boxstyle="round,pad=0,rounding_size=0.02", facecolor=f"{color}22", edgecolor=color
        )
    )
    axes.text(*at, text, ha="center", va="center", fontsize=8)


def draw_arrow(
    axes: Any, start: Point, end: Point, *, color: str = "black", style: str = "-|>", width: float = 1.2
) -> None:
    """A straight arrow."""
    look = {"arrowstyle": style, "color": color, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=end, xytext=start, arrowprops=look)


def draw_chain(
    axes: Any, height: float, texts: Sequence[str], *, color: str = COLORS[0], size: Point = (0.2, 0.16)
) -> list[Point]:
    """Boxes from left to right with arrows between; returns their centres."""
    step = 1 / len(texts)
    centres = [(step * (number + 0.5), height) for number in range(len(texts))]
    for first, second in itertools.pairwise(centres):
        draw_arrow(axes, (first[0] + size[0] / 2, height), (second[0] - size[0] / 2, height))
    for centre, text in zip(centres, texts, strict=True):
        draw_box(axes, centre, text, color=color, size=size)
    return centres
