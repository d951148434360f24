"""Figures of results: histograms of scores, the CMC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from hypersphere.plots.style import new_figure
from hypersphere.plots.verification_curves import GENUINE, IMPOSTOR, Numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_score_histogram(
    edges: Numbers,
    genuine: Numbers,
    impostors: Numbers,
    threshold: float | None = None,
    label: str = "similarity",
    kinds: tuple[str, str] = ("one person", "two people"),
) -> Figure:
    """How scores of pairs of one person and of two are spread, with the threshold between them; each kind in shares of
    its own number, for one may be a thousand times the other.

    Args:
        edges: (bins + 1,) of the bins.
        genuine, impostors: (bins,) counts.
        threshold: accepted from here on.
        label: of the axis.
        kinds: what the two are.
    """
    figure = new_figure(5.4, 3.2)
    axes = figure.add_subplot()
    for name, counts, color in zip(kinds, (genuine, impostors), (GENUINE, IMPOSTOR), strict=True):
        total = int(np.sum(counts))
        axes.stairs(counts / max(1, total), edges, fill=True, color=color, alpha=0.6, label=f"{name} ({total:,})")
    if threshold is not None and np.isfinite(threshold):
        axes.axvline(threshold, color="black", linestyle="--", linewidth=1, label=f"threshold {threshold:.3f}")
    axes.set(xlabel=label, ylabel="share of its kind", xlim=(float(edges[0]), float(edges[-1])))
    axes.legend(loc="upper left", fontsize=8)
    return figure


def draw_cmc(curves: Mapping[str, Numbers]) -> Figure:
    """Identification rate over rank, which is logarithmic.

    Args:
        curves: by name, the rate at rank 1, 2, ...
    """
    figure = new_figure(5.4, 3.4)
    axes = figure.add_subplot()
    for name, rates in curves.items():
        axes.plot(np.arange(1, len(rates) + 1), rates, label=name, marker="." if len(rates) <= 20 else None)
    axes.set(xscale="log", xlabel="rank", ylabel="share of probes identified")
    axes.set_ylim(top=1.005)
    axes.legend(loc="lower right", fontsize=8)
    return figure
