"""SphereFace2, computed: its loss curves (Figs. 3, 6), planes, the start of the bias, the gradients of Table 13."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from hypersphere.plots import Line, Panel, draw_panels
from hypersphere_papers.engine.job import Job, item
from hypersphere_papers.engine.outcome import Finding, Outcome, checked, number
from hypersphere_papers.sphereface2.mathematics import (
    adjusted,
    bias_slope,
    decision_planes,
    gradient_table,
    positive_loss,
    softmax_example,
    start_bias,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_OPTIONS = {"balance": 0.7, "scale": 40.0, "margin": 0.4, "power": 3.0}


def statements() -> Outcome:
    """The bias, the planes and Table 13."""
    findings: list[Finding] = []
    for n in (6, 8_631, 85_742):
        bias = start_bias(n, **_OPTIONS)
        flat = abs(bias_slope(bias, n, **_OPTIONS)) < 1e-9
        findings.append(checked(f"start of the bias, n = {n:,} (App. G)", f"{bias:.3f}", flat, "dL/db = 0"))
    planes = decision_planes(scale=30.0, margin=0.2, bias=0.0)
    degrees = "  ".join(f"{math.degrees(math.acos(c)):.1f}" for c in planes.values())
    low, high = (float(adjusted(c, 3.0)) for c in (-0.2, 1.0))
    findings += [
        number("planes for r = 30, m = 0.2, b = 0 (Fig. 8)", degrees, note="degrees: positive, baseline, negative"),
        number("their distance in r g", f"{30 * (planes['positive'] - planes['negative']):.1f}", "2 r m = 12"),
        number("g maps [-0.2, 1] at t = 3 to", f"[{low:.2f}, {high:.0f}]", "[-0.9, 1]", "its wish, for example"),
    ]
    for name, (true, printed, right) in gradient_table().items():
        error = float((true - printed).norm() / true.norm())
        what = f"Table 13, dL/dW, {name}: error of the cell"
        if error < 1e-9:
            findings.append(number(what, f"{error:.2f}", "0", "as printed"))
        else:
            corrected = bool(torch.allclose(true, right))
            findings.append(checked(what, f"{error:.2f}", corrected, "0", "printed wrongly; judged as corrected"))
    notes = ["lambda = 0.7, r = 40, m = 0.4, t = 3 for the bias. The two cells of Table 13 are in docs/errata.md."]
    figures = {"fig3": _draw_losses, "fig6": _draw_adjustment, "planes": _draw_planes}
    return Outcome(findings=findings, notes=notes, figures=figures)


@item("sphereface2/fig3")
def mining(job: Job) -> Outcome:
    """Fig. 3: what a larger scale does to easy and to hard samples."""
    scales = (1.0, 5.0, 30.0)
    hard, easy = ([f"{float(softmax_example(cosine, s)):.3g}" for s in scales] for cosine in (-0.5, 0.9))
    binary = [[f"{float(positive_loss(cosine, r)):.3g}" for r in scales] for cosine in (-0.5, 0.9)]
    grows = float(softmax_example(-0.5, 30.0)) > float(softmax_example(-0.5, 5.0)) > float(softmax_example(-0.5, 1.0))
    keeps = float(positive_loss(-0.5, 30.0)) > 0.49 and float(positive_loss(0.9, 30.0)) < 1e-10
    findings = [
        job.claim(
            grows,
            f"hard {', '.join(hard)}; easy {', '.join(easy)} at s = 1, 5, 30",
            sentence="(a) a larger s makes the loss of hard samples (cos -0.5) larger than that of easy ones (cos 0.9)",
        ),
        job.claim(
            keeps,
            f"hard {', '.join(binary[0])}; easy {', '.join(binary[1])} at r = 1, 5, 30",
            sentence="(b) a larger r takes the loss of easy samples to zero and leaves that of hard ones large",
        ),
    ]
    return Outcome(findings=findings, figures={"fig3": _draw_losses})


@item("sphereface2/fig6")
def adjustment(job: Job) -> Outcome:
    """Fig. 6: g(z) = 2 ((z + 1)/2)^t - 1."""
    findings = [
        job.value("g(-0.2) at t = 3", float(adjusted(-0.2, 3.0)), digits=3),
        job.value("g(1)", float(adjusted(1.0, 3.0)), digits=3),
    ]
    return Outcome(findings=findings, figures={"fig6": _draw_adjustment})


@item("sphereface2/table13")
def gradients(job: Job) -> Outcome:
    """Table 13: the relative error of each printed cell, against autograd."""
    findings = []
    for name, (true, printed, right) in gradient_table().items():
        findings.append(job.value(name, float((true - printed).norm() / true.norm()), digits=3))
        error = float((true - right).norm() / true.norm())
        findings.append(job.claim(error < 1e-9, f"{error:.0e}", sentence=f"{name}: as corrected"))
    return Outcome(findings=findings)


def _draw_losses() -> Figure:
    cosines = np.linspace(-1, 1, 201)
    scales = (1, 2, 5, 10, 20, 30)
    softmax = [Line(f"s = {s}", cosines, softmax_example(cosines, s)) for s in scales]
    binary = [Line(f"r = {s}", cosines, positive_loss(cosines, s)) for s in scales]
    return draw_panels(
        [
            Panel("(a) softmax, wrong classes at 0.2", "cosine with the target", "loss", softmax),
            Panel("(b) one binary classification", "cosine with the target", "loss", binary),
        ],
        width=4.4,
        height=3.4,
    )


def _draw_adjustment() -> Figure:
    cosines = np.linspace(-1, 1, 201)
    lines = [Line(f"t = {t}", cosines, adjusted(cosines, t)) for t in (1, 2, 3, 4, 5)]
    panel = Panel("Similarity adjustment", "cosine", "g(cosine)", lines)
    return draw_panels([panel], width=4.4, height=3.4)


def _draw_planes() -> Figure:
    biases = np.linspace(-15, 15, 121)
    panels = []
    for power in (1.0, 3.0):
        planes = [decision_planes(scale=30.0, margin=0.2, bias=float(b), power=power) for b in biases]
        lines = [
            Line(name, biases, np.degrees(np.arccos([plane[name] for plane in planes])))
            for name in ("positive", "baseline", "negative")
        ]
        title = f"Planes, r = 30, m = 0.2, t = {power:g}"
        panels.append(Panel(title, "bias b", "angle to the classifier (degrees)", lines))
    return draw_panels(panels, width=4.4, height=3.4)
