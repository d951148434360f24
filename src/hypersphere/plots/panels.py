"""Panels of labelled curves, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hypersphere.plots.style import COLORS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Line:
    """One curve.

    Args:
        label: in the legend.
        x, y: its points.
        style: a line style of matplotlib, or a marker such as `o` for points.
        low, high: the edges of a band around it.
    """

    label: str
    x: npt.ArrayLike
    y: npt.ArrayLike
    style: str = "-"
    low: npt.ArrayLike | None = None
    high: npt.ArrayLike | None = None


@dataclass(frozen=True, eq=False)
class Panel:
    """Curves over one pair of axes.

    Args:
        title: above it.
        x_label, y_label: with their units.
        lines: the curves.
        marks: vertical dashed lines by label.
        log_x, log_y: logarithmic axes.
        y_range: where the vertical axis is cut.
    """

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    marks: dict[str, float] = field(default_factory=dict)
    log_x: bool = False
    log_y: bool = False
    y_range: tuple[float | None, float | None] = (None, None)


def draw_panels(panels: Sequence[Panel], *, columns: int = 4, width: float = 3.6, height: float = 2.9) -> Figure:
    """All panels in rows of `columns`, each `width` x `height` inches."""
    across = min(columns, len(panels))
    down = math.ceil(len(panels) / across)
    figure = new_figure(width * across, height * down)
    for place, panel in enumerate(panels, start=1):
        _draw(figure.add_subplot(down, across, place), panel)
    return figure


def _has_positive(values: npt.ArrayLike, others: npt.ArrayLike) -> bool:
    """Whether some point that is drawn has a positive value."""
    ours = np.asarray(values, float)
    return bool(np.any((ours > 0) & np.isfinite(ours) & np.isfinite(np.asarray(others, float))))


def _draw(axes: Any, panel: Panel) -> None:
    for number, line in enumerate(panel.lines):
        color = COLORS[number % len(COLORS)]
        is_marker = line.style in ("o", "s", "x", "+")
        look = {"marker": line.style, "linestyle": "", "markersize": 4} if is_marker else {"linestyle": line.style}
        axes.plot(np.asarray(line.x), np.asarray(line.y), color=color, label=line.label, **look)
        if line.low is not None and line.high is not None:
            axes.fill_between(np.asarray(line.x), line.low, line.high, color=color, alpha=0.2, linewidth=0)
    for label, at in panel.marks.items():
        axes.axvline(at, color="black", linestyle="--", linewidth=1, label=label)
    # A panel of nothing measured has no positive value, which a logarithmic axis cannot be drawn without.
    if panel.log_x and any(_has_positive(line.x, line.y) for line in panel.lines):
        axes.set_xscale("log")
    if panel.log_y and any(_has_positive(line.y, line.x) for line in panel.lines):
        axes.set_yscale("log")
    axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    low, high = panel.y_range
    if low is not None or high is not None:
        axes.set_ylim(low, high)
    axes.legend(fontsize=7)
