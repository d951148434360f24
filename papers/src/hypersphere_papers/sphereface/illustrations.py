"""SphereFace Figs. 1, 3 and 4."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hypersphere.plots import COLORS, draw_arrow, draw_box, draw_chain, draw_sphere_region, new_figure, new_sketch
from hypersphere_papers.engine.job import Job, item
from hypersphere_papers.engine.outcome import Outcome
from hypersphere_papers.sphereface.mathematics import angular_margin, class_arcs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARGIN = 3
_DIRECTIONS = np.radians([130.0, 40.0])


@item("sphereface/fig1")
def protocols(job: Job) -> Outcome:
    """Fig. 1: closed-set and open-set recognition."""
    return Outcome(figures={"fig1": _draw_protocols})


def _draw_protocols() -> Figure:
    figure, (closed, opened) = new_sketch(["Closed set", "Open set"], width=5.2, height=3.6)
    size = (0.26, 0.13)
    draw_chain(closed, 0.88, ["training faces\nof A, B, C", "network", "label\nA, B or C"], size=size, color=COLORS[7])
    draw_chain(closed, 0.62, ["test face\nof B", "network", "label B"], size=size)
    closed.text(0.5, 0.45, "identification: the label, one of the known", ha="center", fontsize=8)
    draw_chain(closed, 0.28, ["two test faces\nof A and C", "network", "labels\nA and C"], size=size, color=COLORS[1])
    closed.text(0.5, 0.11, "verification: are the two labels equal?", ha="center", fontsize=8)
    draw_chain(opened, 0.88, ["training faces\nof A, B, C", "network", "label\nA, B or C"], size=size, color=COLORS[7])
    for height, texts, color in (
        (0.62, ["test face of X,\ngallery of X, Y, Z", "features", "nearest in\nthe gallery"], COLORS[0]),
        (0.28, ["two test faces\nof X and Y", "features", "distance against\na threshold"], COLORS[1]),
    ):
        draw_chain(opened, height, texts, size=size, color=color)
    opened.text(0.5, 0.45, "identification: verify against everybody in the gallery", ha="center", fontsize=8)
    opened.text(0.5, 0.11, "verification: nobody of the test was ever trained", ha="center", fontsize=8)
    return figure


@item("sphereface/fig4")
def pipeline(job: Job) -> Outcome:
    """Fig. 4: training and extraction."""
    return Outcome(figures={"fig4": _draw_pipeline})


def _draw_pipeline() -> Figure:
    figure, (axes,) = new_sketch(["Training (above) and testing (below)"], width=8.0, height=3.0)
    size = (0.15, 0.2)
    train = ["training faces", "convolutions", "FC1:\nfeatures", "FC2: unit\nprototypes", "A-Softmax\nloss"]
    above = draw_chain(axes, 0.75, train, size=size)
    test = ["two test faces\nand their mirrors", "convolutions", "FC1:\nfeatures", "cosine", "threshold or\nnearest"]
    below = draw_chain(axes, 0.25, test, size=size, color=COLORS[1])
    for place in (1, 2):
        draw_arrow(axes, (above[place][0], 0.65), (below[place][0], 0.35), color=COLORS[7])
    axes.text((above[1][0] + above[2][0]) / 2, 0.5, "the same weights", ha="center", va="center", fontsize=8)
    draw_box(axes, (above[3][0], 0.5), "left out\nin testing", color=COLORS[7], size=(0.12, 0.14))
    return figure


@item("sphereface/fig3")
def constraints(job: Job) -> Outcome:
    """Fig. 3: the regions that each loss asks for; those on circle and sphere are computed."""
    between = float(abs(_DIRECTIONS[0] - _DIRECTIONS[1]))
    arcs = class_arcs(_MARGIN, _DIRECTIONS)
    inner = [
        math.degrees(float(arc.max())) if place else -math.degrees(float(arc.min())) for place, arc in enumerate(arcs)
    ]
    gap = math.degrees(between) - sum(inner)
    wanted = math.degrees(angular_margin(_MARGIN, between))
    held = job.claim(
        abs(gap - wanted) < 0.05,
        f"{gap:.2f} of {wanted:.2f} degrees",
        sentence=f"the gap drawn for m = {_MARGIN} is (m - 1)/(m + 1) of the angle between the prototypes",
    )
    return Outcome(findings=[held], figures={"fig3": _draw_constraints})


def _draw_constraints() -> Figure:
    figure = new_figure(8.4, 5.6)
    titles = ("Euclidean margin", "modified softmax (m = 1)", f"A-Softmax (m = {_MARGIN})")
    for place, title in enumerate(titles, start=1):
        flat, solid = figure.add_subplot(2, 3, place), figure.add_subplot(2, 3, place + 3)
        flat.set_title(title)
        for axes in (flat, solid):
            axes.set(xlim=(-1.35, 1.35), ylim=(-1.15, 1.25), aspect="equal")
            axes.set_axis_off()
        if place == 1:
            _draw_discs(flat)
            _draw_balls(solid)
        else:
            margin = 1 if place == 2 else _MARGIN
            _draw_circle(flat, margin)
            _draw_globe(solid, margin)
    return figure


def _draw_discs(axes: Any) -> None:
    from matplotlib.patches import Circle

    for number, (x, y) in enumerate(((-0.7, 0.1), (0.7, 0.1))):
        axes.add_patch(Circle((x, y), 0.42, color=COLORS[1 - number], alpha=0.4))
        axes.text(x, y, f"class {number + 1}", ha="center", va="center", fontsize=8)
    draw_arrow(axes, (-0.28, 0.1), (0.28, 0.1), style="<|-|>")
    axes.text(0, 0.18, "margin", ha="center", fontsize=8)


def _draw_balls(axes: Any) -> None:
    across = np.linspace(-1.35, 1.35, 400)
    x, y = np.meshgrid(across, across)
    picture = np.ones((*x.shape, 3))
    for number, centre in enumerate((-0.7, 0.7)):
        squared = (x - centre) ** 2 + (y - 0.1) ** 2
        depth = np.sqrt(np.maximum(0.42**2 - squared, 0)) / 0.42
        color = np.array([int(COLORS[1 - number][at : at + 2], 16) / 255 for at in (1, 3, 5)])
        inside = squared < 0.42**2
        picture[inside] = (1 - (1 - color) * 0.6)[None] * (0.6 + 0.4 * depth[inside][:, None])
    axes.imshow(picture, origin="lower", extent=(-1.35, 1.35, -1.35, 1.35))
    axes.set(xlim=(-1.35, 1.35), ylim=(-1.15, 1.25))
    draw_arrow(axes, (-0.28, 0.1), (0.28, 0.1), style="<|-|>")
    axes.text(0, 0.18, "margin", ha="center", fontsize=8)


def _draw_circle(axes: Any, margin: int) -> None:
    from matplotlib.patches import Circle

    axes.add_patch(Circle((0, 0), 1, fill=False, color=COLORS[7], linewidth=0.8))
    arcs = class_arcs(margin, _DIRECTIONS, points=20_001)
    for number, (direction, arc) in enumerate(zip(_DIRECTIONS, arcs, strict=True)):
        around = direction + np.linspace(arc.min(), arc.max(), 200)
        axes.plot(np.cos(around), np.sin(around), color=COLORS[1 - number], linewidth=5, alpha=0.7)
        draw_arrow(axes, (0, 0), (math.cos(direction), math.sin(direction)), color=COLORS[1 - number])
        axes.text(1.15 * math.cos(direction), 1.15 * math.sin(direction), f"W{number + 1}", ha="center", fontsize=8)
        edges = [direction + arc.min(), direction + arc.max()]
        for edge in edges:
            axes.plot([0, math.cos(edge)], [0, math.sin(edge)], color="black", linestyle="--", linewidth=0.6)
    if margin > 1:
        axes.text(0.05, 0.55, "margin", ha="center", fontsize=8)


def _draw_globe(axes: Any, margin: int) -> None:
    half = abs(_DIRECTIONS[0] - _DIRECTIONS[1]) / 2
    prototypes = np.array([[side * math.sin(half), -math.cos(half), 0.0] for side in (-1, 1)])

    def labels(points: Any) -> Any:
        angles = np.arccos(np.clip(points @ prototypes.T, -1, 1))
        first, second = margin * angles[:, 0] < angles[:, 1], margin * angles[:, 1] < angles[:, 0]
        return np.where(first, 1, np.where(second, 0, -1))

    draw_sphere_region(axes, labels, prototypes, viewer=(0.12, -1.0, 0.35))
    axes.set(xlim=(-1.35, 1.35), ylim=(-1.15, 1.25))
