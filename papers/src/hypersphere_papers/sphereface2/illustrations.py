"""SphereFace2 Figs. 1, 2 and 4, and its Table 1."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hypersphere.plots import COLORS, draw_arrow, draw_box, new_sketch
from hypersphere_papers.engine.job import Job, item
from hypersphere_papers.engine.outcome import Outcome
from hypersphere_papers.sphereface2.mathematics import decision_planes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SCALE, _MARGIN, _BIAS = 30.0, 0.2, -12.0
_CELLS = {
    "without proxies": {
        "triplet": "FaceNet, VGGFace, Triplet, MTER\n\nhere: triplet",
        "pair": "Siamese, DeepID2*, DeepID2+*,\nContrastive CNN\n\nhere: contrastive",
    },
    "with proxies": {
        "triplet": "DeepID, DeepFace, DeepID2*, DeepID2+*,\nSphereFace, NormFace, CosFace, ArcFace,\nRing, "
        "CurricularFace, Circle\n\nhere: softmax, l_softmax, sphereface,\nnormface, cosface, arcface, ...",
        "pair": "SphereFace2\n\nhere: sphereface2,\nc_contrastive",
    },
}


@item("sphereface2/fig1")
def trainings(job: Job) -> Outcome:
    """Fig. 1: multi-class training, binary training, and testing."""
    return Outcome(figures={"fig1": _draw_trainings})


def _draw_trainings() -> Figure:
    titles = ["Multi-class training", "Binary training (SphereFace2)", "Open-set testing"]
    figure, panels = new_sketch(titles, width=3.6, height=3.8)
    for axes in panels[:2]:
        draw_box(axes, (0.5, 0.12), "face of class 2", color=COLORS[7], size=(0.5, 0.11))
        draw_box(axes, (0.5, 0.34), "network: feature x", color=COLORS[7], size=(0.5, 0.11))
        draw_arrow(axes, (0.5, 0.175), (0.5, 0.285))
        for number in range(3):
            x = 0.18 + 0.32 * number
            draw_arrow(axes, (0.5, 0.395), (x, 0.51))
            draw_box(axes, (x, 0.57), f"W{number + 1}.x", color=COLORS[number], size=(0.24, 0.11))
    multi, binary, test = panels
    for number in range(3):
        draw_arrow(multi, (0.18 + 0.32 * number, 0.625), (0.5, 0.74))
    draw_box(multi, (0.5, 0.8), "softmax: which of 1, 2, 3?", color=COLORS[1], size=(0.7, 0.11))
    multi.text(0.5, 0.92, "classes compete; all are needed at once", ha="center", fontsize=8)
    for number, word in enumerate(("not 1", "2", "not 3")):
        x = 0.18 + 0.32 * number
        draw_arrow(binary, (x, 0.625), (x, 0.74))
        draw_box(binary, (x, 0.8), f"yes or no?\n{word}", color=COLORS[number], size=(0.26, 0.14))
    binary.text(0.5, 0.92, "one threshold for all; each class alone", ha="center", fontsize=8)
    for x, word in ((0.25, "face"), (0.75, "face")):
        draw_box(test, (x, 0.12), word, color=COLORS[7], size=(0.3, 0.11))
        draw_box(test, (x, 0.34), "network: x", color=COLORS[7], size=(0.36, 0.11))
        draw_arrow(test, (x, 0.175), (x, 0.285))
        draw_arrow(test, (x, 0.395), (0.5, 0.51))
    draw_box(test, (0.5, 0.57), "cosine", color=COLORS[0], size=(0.3, 0.11))
    draw_arrow(test, (0.5, 0.625), (0.5, 0.74))
    draw_box(test, (0.5, 0.8), "yes or no?\nthe same person", color=COLORS[1], size=(0.5, 0.14))
    test.text(0.5, 0.92, "a pair and a threshold", ha="center", fontsize=8)
    return figure


@item("sphereface2/fig2")
def paradigms(job: Job) -> Outcome:
    """Fig. 2: triplets and pairs."""
    return Outcome(figures={"fig2": _draw_paradigms})


def _draw_paradigms() -> Figure:
    titles = ["Triplets: similarity against similarity", "Pairs: similarity against a threshold"]
    figure, (triplet, pair) = new_sketch(titles, width=4.2, height=3.0)
    for axes, anchors in ((triplet, [(0.5, 0.2)]), (pair, [(0.25, 0.45), (0.75, 0.45)])):
        for at in anchors:
            _dot(axes, at, "anchor", COLORS[6])
    _dot(triplet, (0.2, 0.75), "positive", COLORS[0])
    _dot(triplet, (0.8, 0.75), "negative", COLORS[1])
    _line(triplet, (0.5, 0.2), (0.2, 0.75), "s(a, p)")
    _line(triplet, (0.5, 0.2), (0.8, 0.75), "s(a, n)")
    draw_arrow(triplet, (0.24, 0.66), (0.36, 0.46), color=COLORS[3], width=2)
    draw_arrow(triplet, (0.83, 0.8), (0.92, 0.96), color=COLORS[3], width=2)
    triplet.text(0.5, 0.9, "s(a, p) > s(a, n)", ha="center", fontsize=9)
    for x, name, color in ((0.25, "positive", COLORS[0]), (0.75, "negative", COLORS[1])):
        around = np.linspace(0, 2 * math.pi, 200)
        pair.plot(x + 0.16 * np.cos(around), 0.45 + 0.224 * np.sin(around), color=COLORS[7], linestyle="--")
        start = (x, 0.45 + 0.33) if name == "positive" else (x, 0.45 + 0.12)
        _dot(pair, start, name, color)
        end = (x, 0.45 + 0.16) if name == "positive" else (x, 0.45 + 0.36)
        draw_arrow(pair, (start[0] + 0.05, start[1]), (end[0] + 0.05, end[1]), color=COLORS[3], width=2)
    pair.text(0.25, 0.08, "s(a, p) > threshold", ha="center", fontsize=9)
    pair.text(0.75, 0.08, "s(a, n) < threshold", ha="center", fontsize=9)
    return figure


def _dot(axes: Any, at: tuple[float, float], name: str, color: str) -> None:
    axes.plot(*at, "o", color=color, markersize=9)
    axes.text(at[0] - 0.03, at[1], name, ha="right", va="center", fontsize=8, backgroundcolor="#FFFFFFAA")


def _line(axes: Any, start: tuple[float, float], end: tuple[float, float], name: str) -> None:
    axes.plot([start[0], end[0]], [start[1], end[1]], color=COLORS[7], linewidth=1)
    axes.text((start[0] + end[0]) / 2 + 0.02, (start[1] + end[1]) / 2, name, fontsize=8)


@item("sphereface2/fig4")
def margins(job: Job) -> Outcome:
    """Fig. 4: where the boundaries of softmax losses and of SphereFace2 lie; SphereFace2's are computed."""
    planes = decision_planes(scale=_SCALE, margin=_MARGIN, bias=_BIAS)
    moved = _SCALE * planes["baseline"] + _BIAS
    held = job.claim(
        abs(moved) < 1e-9,
        f"cosine {planes['baseline']:.2f} for r = {_SCALE:g}, b = {_BIAS:g}",
        sentence="a bias moves the baseline from cos = 0 to cos = -b / r, the same for every class",
    )
    return Outcome(findings=[held], figures={"fig4": _draw_margins})


def _draw_margins() -> Figure:
    titles = ["(a) softmax: depends on the neighbour", "(b) SphereFace2, b = 0", f"(c) SphereFace2, b = {_BIAS:g}"]
    figure, panels = new_sketch(titles, width=3.4, height=3.8)
    around = np.linspace(0, 2 * math.pi, 400)
    for axes in panels:
        axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal")
        axes.plot(np.cos(around), np.sin(around), color=COLORS[7], linewidth=0.8)
    softmax, plain, biased = panels
    for number, degrees in enumerate((90, 20)):
        angle = math.radians(degrees)
        end = math.cos(angle), math.sin(angle)
        draw_arrow(softmax, (0, 0), end, color=COLORS[number])
        softmax.text(1.13 * end[0], 1.13 * end[1], f"W{number + 1}", ha="center", va="center", fontsize=8)
    for degrees, style in ((55, "--"), (65, ":"), (45, ":")):
        angle = math.radians(degrees)
        softmax.plot([0, 1.2 * math.cos(angle)], [0, 1.2 * math.sin(angle)], color="black", linestyle=style)
    softmax.text(0.85, 0.95, "margin", fontsize=8)
    for axes, bias in ((plain, 0.0), (biased, _BIAS)):
        draw_arrow(axes, (0, 0), (0, 1), color=COLORS[0])
        axes.text(0.06, 1.1, "W", fontsize=9)
        planes = decision_planes(scale=_SCALE, margin=_MARGIN, bias=bias)
        for name, color in (("positive", COLORS[0]), ("baseline", "black"), ("negative", COLORS[1])):
            cosine = planes[name]
            half = math.sqrt(1 - cosine**2)
            axes.plot([-half, half], [cosine, cosine], color=color, linestyle="--" if name == "baseline" else "-")
            axes.text(half + 0.04 if half < 0.95 else 0.62, cosine + 0.04, name, fontsize=7, color=color)
        heights = np.linspace(planes["negative"], planes["positive"], 100)
        widths = np.sqrt(1 - heights**2)
        axes.fill_betweenx(heights, -widths, widths, color=COLORS[7], alpha=0.15, linewidth=0)
    return figure


@item("sphereface2/table1")
def categories(job: Job) -> Outcome:
    """Table 1: methods by triplet or pair, with or without proxies; and where our losses stand."""
    return Outcome(figures={"table1": _draw_categories})


def _draw_categories() -> Figure:
    figure, (axes,) = new_sketch(["Deep face recognition, and the losses of this library"], width=7.4, height=4.0)
    for column, (proxy, cells) in enumerate(_CELLS.items()):
        x = 0.33 + 0.44 * column
        axes.text(x, 0.94, proxy, ha="center", fontsize=10)
        for row, (kind, text) in enumerate(cells.items()):
            y = 0.67 - 0.44 * row
            color = COLORS[1] if (proxy, kind) == ("with proxies", "pair") else COLORS[0]
            draw_box(axes, (x, y), text, color=color, size=(0.42, 0.4))
            if column == 0:
                axes.text(0.05, y, kind, ha="center", va="center", fontsize=10, rotation=90)
    axes.text(0.99, 0.0, "* uses a softmax loss besides", ha="right", fontsize=7)
    return figure
