"""Figures of items that train, in the one style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hypersphere.plots import COLORS, Line, Panel, draw_panels, new_figure
from hypersphere_papers.engine.evidence import Evidence
from hypersphere_papers.engine.face_measures import SIMILARITY_BINS
from hypersphere_papers.engine.measure import BINS, MARGIN_BINS, METRICS
from hypersphere_papers.engine.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_rows(evidence: Evidence, settings: Sequence[Setting], name: str, label: str = "") -> Figure:
    """A number of every setting: the mean over seeds, and the seeds; the label is the metric's by default."""
    figure = new_figure(6.4, 0.9 + 0.24 * len(settings))
    axes = figure.add_subplot()
    for place, setting in enumerate(settings):
        values = evidence.values(setting, name)
        known = values[np.isfinite(values)]
        axes.plot(known, np.full(len(known), place), "o", color=COLORS[0], markersize=3.5, alpha=0.45)
        if len(known):
            axes.plot(known.mean(), place, "|", color=COLORS[1], markersize=12, markeredgewidth=2)
    axes.set_yticks(range(len(settings)), [setting.title for setting in settings])
    axes.set_ylim(len(settings) - 0.5, -0.5)
    axes.set(xlabel=f"{label or METRICS[name].title}: seeds, and their mean")
    return figure


def curve(evidence: Evidence, label: str, x: Sequence[float], settings: Sequence[Setting], name: str) -> Line:
    """The mean of a number over seeds against a setting's parameter, with the range of the seeds.

    Settings that lack a seed are left out.
    """
    values = np.array([evidence.values(setting, name) for setting in settings])
    whole = np.isfinite(values).all(1)
    values = values[whole]
    return Line(label, np.array(x)[whole], values.mean(1), "-", values.min(1), values.max(1))


def draw_margins(evidence: Evidence, groups: Sequence[tuple[str, Sequence[Setting]]]) -> Figure:
    """Histograms of similarities to the own prototype and of sample margins: a row of two panels per group with runs.

    Of small runs on CIFAR-10 and of runs on faces they are those of training images.
    """
    panels = []
    for title, settings in groups:
        own = any(setting.small or setting.data == "faces" for setting in settings)
        train = "train " if own else ""
        images = f"share of {'training' if train else 'new'} images"
        for name, label, bins in (
            (f"{train}histogram similarity", "similarity to the own prototype", BINS),
            (f"{train}histogram margin", "sample margin", MARGIN_BINS),
        ):
            lines = [_histogram(evidence, s, name, bins, s.name) for s in settings]
            panels.append(Panel(title, label, images, [line for line in lines if line is not None]))
    return draw_panels([panel for panel in panels if panel.lines] or panels, columns=2, width=4.4)


def draw_pairs(evidence: Evidence, settings: Sequence[Setting], sets: Mapping[str, str]) -> Figure:
    """Histograms of the similarities of pairs of one person and of two, a panel per setting and set of pairs.

    Args:
        evidence: of the item.
        settings: whose runs are drawn.
        sets: by the ending of the histograms' names, what a title says of a set of pairs.
    """
    panels = []
    for ending, said in sets.items():
        for setting in settings:
            names = ((f"histogram same{ending}", "one person"), (f"histogram other{ending}", "two people"))
            lines = [_histogram(evidence, setting, name, SIMILARITY_BINS, label) for name, label in names]
            known = [line for line in lines if line is not None]
            panels.append(Panel(f"{setting.title}{said}", "cosine", "share of pairs", known))
    return draw_panels(panels, columns=len(settings))


def _histogram(evidence: Evidence, setting: Setting, name: str, bins: np.ndarray, label: str = "") -> Line | None:
    counts = evidence.array(setting, name)
    if len(counts) != len(bins) - 1:
        return None
    return Line(label or setting.title, (bins[1:] + bins[:-1]) / 2, counts / counts.sum())
