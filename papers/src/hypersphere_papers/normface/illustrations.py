"""NormFace Figs. 1, 4, 6, 7 and 9."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.geometry import normalize
from hypersphere.heads import create_head
from hypersphere.plots import COLORS, draw_arrow, draw_chain, new_figure, new_sketch
from hypersphere_papers.engine.job import Job, item
from hypersphere_papers.engine.minimise import minimise
from hypersphere_papers.engine.outcome import Finding, Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CONTRASTIVE, _TRIPLET = 1.0, 0.8
_BINS = 100


@item("normface/fig1")
def pipeline(job: Job) -> Outcome:
    """Fig. 1: the pipeline of face verification."""
    return Outcome(figures={"fig1": _draw_pipeline})


def _draw_pipeline() -> Figure:
    figure, (axes,) = new_sketch(["Training (above) and testing (below)"], width=8.0, height=3.0)
    size = (0.16, 0.2)
    above = draw_chain(
        axes,
        0.75,
        ["faces and\nlabels", "network", "feature", "inner product\nwith prototypes", "softmax loss"],
        size=size,
    )
    below = draw_chain(
        axes,
        0.25,
        ["two faces", "network", "feature", "normalise", "cosine against\na threshold"],
        size=size,
        color=COLORS[1],
    )
    for place in (1, 2):
        draw_arrow(axes, (above[place][0], 0.65), (below[place][0], 0.35), color=COLORS[7])
    axes.text(above[3][0], 0.5, "normalised in testing alone,\nuntil NormFace", ha="center", va="center", fontsize=8)
    return figure


@item("normface/fig4")
def tangent(job: Job) -> Outcome:
    """Fig. 4: the gradient through the normalisation of eq. 3, by autograd."""
    x, gradient = _gradient()
    inner = float(x @ gradient)
    longer = float((x - 0.5 * gradient).norm() - x.norm())
    findings = [
        job.value("inner product of x and its gradient", inner, digits=15),
        job.claim(longer > 0, f"{longer:+.3f}", sentence="a step against the gradient makes x longer"),
    ]
    return Outcome(findings=findings, figures={"fig4": _draw_tangent})


def _gradient() -> tuple[Tensor, Tensor]:
    """x in the plane, and the gradient of -<x / |x|, target>."""
    x = torch.tensor([1.5, 0.9], dtype=torch.float64, requires_grad=True)
    target = torch.tensor([-0.3, 1.0], dtype=torch.float64)
    loss = -(normalize(x, eps=0.0) @ normalize(target, eps=0.0))
    return x.detach(), torch.autograd.grad(loss, x)[0]


def _draw_tangent() -> Figure:
    figure = new_figure(8.0, 3.8)
    axes = figure.add_subplot(1, 2, 1)
    around = np.linspace(0, 2 * math.pi, 400)
    axes.plot(np.cos(around), np.sin(around), color=COLORS[7])
    x, gradient = (vector.numpy() for vector in _gradient())
    unit, step = x / np.linalg.norm(x), x - 1.6 * gradient
    draw_arrow(axes, (0, 0), tuple(x), color=COLORS[0])
    draw_arrow(axes, tuple(x), tuple(step), color=COLORS[1])
    draw_arrow(axes, (0, 0), tuple(step), color=COLORS[2], style="-|>")
    axes.plot(*unit, "o", color=COLORS[0])
    axes.text(x[0] + 0.05, x[1] - 0.12, "x", fontsize=10)
    axes.text(unit[0] - 0.02, unit[1] - 0.25, "x / |x|", fontsize=9)
    axes.text(0.5 * (x[0] + step[0]) + 0.06, 0.5 * (x[1] + step[1]) + 0.06, "- gradient", fontsize=9, color=COLORS[1])
    axes.text(step[0] - 0.75, step[1] + 0.05, "after a step: longer", fontsize=9, color=COLORS[2])
    axes.set(xlim=(-1.2, 2.1), ylim=(-1.2, 2.1), aspect="equal", title="The gradient is tangent, so |x| grows")
    _draw_pulls(figure.add_subplot(1, 2, 2, projection="3d"))
    return figure


def _draw_pulls(axes: Any) -> None:
    """A prototype, features of three classes, and the tangent gradients each exerts on it."""
    polar, around = np.mgrid[0 : 0.5 * np.pi : 30j, 0 : 2 * np.pi : 60j]
    axes.plot_surface(
        np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around), np.cos(polar), color="#DDE5EE", alpha=0.3
    )
    plane = np.mgrid[-0.8:0.8:2j, -0.8:0.8:2j]
    axes.plot_surface(*plane, np.ones((2, 2)), color=COLORS[5], alpha=0.25)
    weight = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    axes.scatter(0, 0, 1, color=COLORS[0], s=40)
    for number, (degrees, azimuth) in enumerate(((35, 20), (45, 150), (40, 260))):
        theta, phi = math.radians(degrees), math.radians(azimuth)
        point = torch.tensor(
            [math.sin(theta) * math.cos(phi), math.sin(theta) * math.sin(phi), math.cos(theta)], dtype=torch.float64
        )
        sign = 1.0 if number == 0 else -1.0
        pull = sign * (point - (point @ weight) * weight)
        color = (COLORS[1], COLORS[4], COLORS[2])[number]
        axes.scatter(*point.tolist(), color=color, s=40)
        axes.quiver(0, 0, 1, *pull.tolist(), color=color, arrow_length_ratio=0.2)
    axes.set_title("Pulls on a prototype lie in its tangent plane:\nto its own class, away from the others")
    axes.set_axis_off()
    axes.view_init(elev=32, azim=60)
    axes.set_box_aspect((1, 1, 0.6), zoom=1.3)


@item("normface/fig6")
def agents(job: Job) -> Outcome:
    """Fig. 6: the agents that minimise C-contrastive loss (eq. 10) for given features, m = 0 and m = 1."""
    features, labels = _two_classes()
    centres = normalize(torch.stack([features[labels == c].mean(0) for c in (0, 1)]), eps=0.0)
    found = {margin: _best_agents(features, labels, margin) for margin in (0.0, _CONTRASTIVE)}
    off = float((found[0.0] * centres).sum(1).clamp(-1, 1).acos().max().rad2deg())
    apart = {margin: math.degrees(math.acos(float(agent[0] @ agent[1]))) for margin, agent in found.items()}
    findings = [
        job.claim(
            off < 0.01, f"{off:.4f} degrees off", sentence="with m = 0 the agents are the centres of their classes"
        ),
        job.claim(
            apart[_CONTRASTIVE] > apart[0.0],
            f"{apart[_CONTRASTIVE]:.1f} against {apart[0.0]:.1f} degrees apart",
            sentence="with m = 1 the agents move away from the boundary",
        ),
    ]
    return Outcome(findings=findings, figures={"fig6": lambda: _draw_agents(features, labels, found)})


def _two_classes() -> tuple[Tensor, Tensor]:
    """Two neighbouring classes of 60 features on the 3-D sphere, seen from above."""
    g = torch.Generator().manual_seed(3)
    middle = torch.tensor([[-0.45, 0.0, 1.0], [0.45, 0.0, 1.0]], dtype=torch.float64)
    spread = 0.22 * torch.randn(2, 60, 3, generator=g, dtype=torch.float64)
    return normalize((middle[:, None] + spread).flatten(0, 1), eps=0.0), torch.arange(2).repeat_interleave(60)


def _best_agents(features: Tensor, labels: Tensor, margin: float) -> Tensor:
    head = create_head("c_contrastive", dim=3, num_classes=2, margin=margin, engine="dense").double()

    def loss(points: Tensor) -> Tensor:
        value: Tensor = torch.func.functional_call(head, {"weight": points}, (features, labels))
        return value

    start = torch.stack([features[labels == c].mean(0) for c in (0, 1)])
    return normalize(minimise(loss, start)[0].detach(), eps=0.0)


def _draw_agents(features: Tensor, labels: Tensor, found: dict[float, Tensor]) -> Figure:
    figure = new_figure(8.0, 3.9)
    for place, (margin, agent) in enumerate(found.items(), start=1):
        axes = figure.add_subplot(1, 2, place)
        inside = 2 - 2 * (features @ agent.T) < margin
        pushed = inside[torch.arange(len(labels)), 1 - labels]
        for c in (0, 1):
            own = labels == c
            _dots(axes, features[own & ~pushed], color=COLORS[c], label=f"class {c + 1}")
            _dots(
                axes,
                features[own & pushed],
                edgecolor=COLORS[c],
                facecolor="none",
                label=f"class {c + 1}, within the margin of the other" if margin else None,
            )
            axes.plot(*agent[c, :2].numpy(), marker="*", markersize=16, color=COLORS[c], markeredgecolor="black")
        axes.axvline(0, color="black", linestyle="--", linewidth=0.8)
        axes.set(
            title=f"m = {margin:g}: agents (stars)",
            xlabel="first coordinate",
            ylabel="second coordinate",
            aspect="equal",
        )
        axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=2)
    return figure


def _dots(axes: Any, points: Tensor, **look: Any) -> None:
    axes.scatter(points[:, 0].numpy(), points[:, 1].numpy(), s=14, **look)


@item("normface/fig7")
def left_out(job: Job) -> Outcome:
    """Fig. 7: features that the pairwise loss would move and the agents' version does not."""
    features, labels = _two_classes()
    agents_ = normalize(torch.stack([features[labels == c].mean(0) for c in (0, 1)]), eps=0.0)
    contrastive, triplet = _shadowed(features, labels, agents_)
    count = [int(shadow.sum()) for shadow in (contrastive, triplet)]
    findings = [
        Finding(what=f"contrastive, m = {_CONTRASTIVE:g}: features left out of {len(labels)}", ours=str(count[0])),
        Finding(what=f"triplet, m = {_TRIPLET:g}: features left out of {len(labels)}", ours=str(count[1])),
        job.claim(
            min(count) > 0, f"{count[0]} and {count[1]}", sentence="with the same margin, agents leave features out"
        ),
    ]
    return Outcome(findings=findings, figures={"fig7": lambda: _draw_left_out(features, labels, agents_)})


def _shadowed(features: Tensor, labels: Tensor, agents_: Tensor) -> tuple[Tensor, Tensor]:
    """Which features have no gradient from the other class under the agents, but do from some sample of it."""
    squared = 2 - 2 * features @ features.T
    other = labels[:, None] != labels
    to_agent = 2 - 2 * features @ agents_.T
    own, wrong = to_agent.gather(1, labels[:, None])[:, 0], to_agent.gather(1, 1 - labels[:, None])[:, 0]
    nearest = squared.masked_fill(~other, math.inf).amin(1)
    farthest = squared.masked_fill(other, -math.inf).amax(1)
    contrastive = (nearest < _CONTRASTIVE) & (wrong >= _CONTRASTIVE)
    triplet = (_TRIPLET + farthest > nearest) & (_TRIPLET + own <= wrong)
    return contrastive, triplet


def _draw_left_out(features: Tensor, labels: Tensor, agents_: Tensor) -> Figure:
    figure = new_figure(8.0, 3.9)
    titles = (f"C-contrastive, m = {_CONTRASTIVE:g}", f"C-triplet, m = {_TRIPLET:g}")
    for place, (title, shadow) in enumerate(zip(titles, _shadowed(features, labels, agents_), strict=True), start=1):
        axes = figure.add_subplot(1, 2, place)
        for c in (0, 1):
            own = labels == c
            _dots(axes, features[own & ~shadow], color=COLORS[c], label=f"class {c + 1}")
            axes.plot(*agents_[c, :2].numpy(), marker="*", markersize=16, color=COLORS[c], markeredgecolor="black")
        _dots(axes, features[shadow], color=COLORS[7], label="left out with agents")
        axes.set(title=title, xlabel="first coordinate", ylabel="second coordinate", aspect="equal")
        axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=2)
    return figure


@item("normface/fig9")
def score_histograms(job: Job) -> Outcome:
    """Fig. 9: a score matrix becomes a histogram of 100 bins; here of drawn scores."""
    return Outcome(figures={"fig9": _draw_histograms})


def _scores(same: bool, random: np.random.Generator) -> Any:
    """(40, 50) cosines of the frames of two videos, drawn."""
    centre, spread = (random.normal(0.55, 0.1), 0.12) if same else (random.normal(0.05, 0.06), 0.1)
    return np.clip(random.normal(centre, spread, (40, 50)), -1, 1)


def _draw_histograms() -> Figure:
    random = np.random.default_rng(0)
    edges = np.linspace(-1, 1, _BINS + 1)
    figure = new_figure(10.2, 3.4)
    matrix, counted, many = (figure.add_subplot(1, 3, place) for place in (1, 2, 3))
    scores = _scores(True, random)
    picture = matrix.imshow(scores, vmin=-1, vmax=1, cmap="cividis", aspect="auto")
    figure.colorbar(picture, ax=matrix, label="cosine")
    matrix.set(title="Scores of two videos", xlabel="frame of the second", ylabel="frame of the first")
    matrix.grid(visible=False)
    for same, name in ((True, "same person"), (False, "different people")):
        shown = scores if same else _scores(False, random)
        counted.stairs(np.histogram(shown, edges)[0] / shown.size, edges, label=name, fill=True, alpha=0.6)
    counted.set(title="Their histogram: the feature", xlabel="cosine", ylabel="share")
    counted.legend(fontsize=8, loc="upper left")
    rows = [np.histogram(_scores(same, random), edges)[0] for same in (True, False) for _ in range(100)]
    many.imshow(np.array(rows), extent=(-1, 1, 200, 0), cmap="cividis", aspect="auto")
    many.axhline(100, color="white")
    many.set(title="200 pairs, the same person above", xlabel="cosine", ylabel="pair")
    many.grid(visible=False)
    return figure
