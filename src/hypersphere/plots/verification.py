"""Figures of pair verification: the ROC, and how similar pairs of one person and of two are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hypersphere.plots.style import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GENUINE, IMPOSTOR = "#0072B2", "#E69F00"
_LEAST_COUNT = 3


def draw_roc(
    curves: Mapping[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]], *, genuine: int, impostor: int
) -> Figure:
    """ROC curves on a logarithmic axis of false accepts; grey where they rest on fewer than three.

    Args:
        curves: by name, the false accept and the true accept rate at every threshold, growing.
        genuine, impostor: how many pairs of one person and of two there are.
    """
    figure = new_figure(5.4, 3.8)
    axes = figure.add_subplot()
    least = 1 / impostor
    for name, (far, tar) in curves.items():
        axes.step(np.maximum(far, least / 2), tar, where="post", label=name)
    unsure = min(1.0, _LEAST_COUNT * least)
    axes.axvspan(least / 2, unsure, color="#7F7F7F", alpha=0.15, linewidth=0)
    note: Any = {"rotation": 90, "ha": "center", "va": "top", "fontsize": 8, "color": "#666666"}
    axes.text(np.sqrt(least / 2 * unsure), 0.97, f"fewer than {_LEAST_COUNT} false accepts", **note)
    axes.set(
        xscale="log",
        xlim=(least / 2, 1),
        ylim=(0, 1.01),
        xlabel=f"false accept rate (of {impostor:,} pairs of two people)",
        ylabel=f"true accept rate (of {genuine:,} pairs of one)",
    )
    axes.legend(loc="lower right")
    return figure


def draw_similarities(
    title: str, scores: npt.NDArray[np.floating], same: npt.NDArray[np.bool_], threshold: float | None = None
) -> Figure:
    """Histograms of the cosines of pairs of one person and of two, with the threshold between them.

    Args:
        title: above it.
        scores: (n,) cosines.
        same: (n,) whether each pair is of one person.
        threshold: accepted from here on.
    """
    figure = new_figure(3.7, 2.8)
    axes = figure.add_subplot()
    bins = np.linspace(-1, 1, 81).tolist()
    for name, chosen, color in (("one person", same, GENUINE), ("two people", ~same, IMPOSTOR)):
        axes.hist(scores[chosen], bins, color=color, alpha=0.6, label=f"{name} ({chosen.sum():,})")
    if threshold is not None:
        axes.axvline(threshold, color="black", linestyle="--", linewidth=1, label=f"threshold {threshold:.2f}")
    axes.set(title=title, xlabel="cosine of the two embeddings", ylabel="pairs", xlim=(-1, 1))
    axes.legend(loc="upper left", fontsize=8)
    return figure
