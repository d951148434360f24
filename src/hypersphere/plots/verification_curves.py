"""Figures of pair verification: ROC and DET, and how similar pairs of one person and of two are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hypersphere.plots.style import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = npt.NDArray[Any]
GENUINE, IMPOSTOR = "#0072B2", "#E69F00"
LEAST_COUNT = 3
"""Where fewer pairs decide, curves are drawn on grey."""
_TAR_TICKS = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999)
_SHADE: Any = {"color": "#7F7F7F", "alpha": 0.15, "linewidth": 0}


def draw_roc(
    curves: Mapping[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]], *, genuine: int, impostor: int
) -> Figure:
    """ROC curves: false accepts on a logarithmic axis, true accepts on one of log(TAR / (1 - TAR)), on which 99 and
    99.9 % are as far apart as 90 and 99 %; grey where they rest on fewer than three pairs. What is 0 or 1 lies on the
    border.

    Args:
        curves: by name, the false accept and the true accept rate at every threshold, growing.
        genuine, impostor: how many pairs of one person and of two there are.
    """
    figure = new_figure(5.4, 3.8)
    axes = figure.add_subplot()
    left, rest = 0.5 / impostor, 0.5 / genuine
    lowest = 0.9
    for name, (far, tar) in curves.items():
        shown = np.clip(tar, rest, 1 - rest)
        axes.step(np.maximum(far, left), shown, where="post", label=name)
        lowest = float(shown[far >= 2 * left].min(initial=lowest))
    bottom = max((tick for tick in _TAR_TICKS if tick <= lowest), default=rest)
    axes.set(xscale="log", yscale="logit", xlim=(left, 1), ylim=(bottom, 1 - rest))
    ticks = [tick for tick in _TAR_TICKS if bottom <= tick <= 1 - rest]
    axes.set_yticks(ticks, [f"{100 * tick:g} %" for tick in ticks])
    axes.set_yticks([], minor=True)
    axes.set(
        xlabel=f"false accept rate (of {impostor:,} pairs of two people)",
        ylabel=f"true accept rate (of {genuine:,} pairs of one)",
    )
    axes.axvspan(left, min(1.0, LEAST_COUNT / impostor), **_SHADE)
    axes.axhspan(max(bottom, 1 - LEAST_COUNT / genuine), 1 - rest, **_SHADE)
    axes.legend(loc="lower right")
    return figure


def draw_det(curves: Mapping[str, tuple[Numbers, Numbers]], *, genuine: int, impostor: int) -> Figure:
    """Detection error trade-off: missed pairs of one person over accepted pairs of two, both axes logarithmic; grey
    where either rests on fewer than three pairs.

    Args:
        curves: by name, FMR and FNMR at every threshold; points at 0 lie on the border.
        genuine, impostor: how many pairs of one person and of two there are.
    """
    figure = new_figure(5.4, 3.8)
    axes = figure.add_subplot()
    least = 0.5 / impostor, 0.5 / genuine
    for name, (fmr, fnmr) in curves.items():
        axes.plot(np.maximum(fmr, least[0]), np.maximum(fnmr, least[1]), label=name, drawstyle="steps-post")
    ends = [max(least), 1.0]
    axes.plot(ends, ends, color="#7F7F7F", linewidth=0.8, linestyle=":", label="equal error")
    axes.set(xscale="log", yscale="log", xlim=(least[0], 1), ylim=(least[1], 1))
    axes.set(xlabel="false match rate", ylabel="false non-match rate")
    axes.axvspan(least[0], min(1.0, LEAST_COUNT / impostor), **_SHADE)
    axes.axhspan(least[1], min(1.0, LEAST_COUNT / genuine), **_SHADE)
    axes.legend(loc="upper right", fontsize=8)
    return figure


def draw_similarities(
    scores: Mapping[str, npt.NDArray[np.floating]], same: npt.NDArray[np.bool_], thresholds: Mapping[str, float]
) -> dict[str, Figure]:
    """Histograms of the cosines of pairs of one person and of two, with the threshold between them: one of each
    network, all on the same axes.

    Args:
        scores: by name, (n,) cosines.
        same: (n,) whether each pair is of one person.
        thresholds: by name, accepted from here on.
    """
    bins = np.linspace(-1, 1, 81)
    kinds = (("one person", same, GENUINE), ("two people", ~same, IMPOSTOR))
    top = max(np.histogram(each[chosen], bins)[0].max() for each in scores.values() for _, chosen, _ in kinds)
    drawn = {}
    for title, each in scores.items():
        drawn[title] = figure = new_figure(3.7, 2.8)
        axes = figure.add_subplot()
        for name, chosen, color in kinds:
            axes.hist(each[chosen], bins.tolist(), color=color, alpha=0.6, label=f"{name} ({chosen.sum():,})")
        limit = thresholds[title]
        axes.axvline(limit, color="black", linestyle="--", linewidth=1, label=f"threshold {limit:.2f}")
        axes.set(title=title, xlabel="cosine of the two embeddings", ylabel="pairs", xlim=(-1, 1), ylim=(0, 1.05 * top))
        axes.legend(loc="upper left", fontsize=8)
    return drawn
