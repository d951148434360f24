"""SphereFace, computed: Properties 2 and 3, the boundaries of Table 1, the networks of Table 2."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from hypersphere.backbones import create_backbone
from hypersphere.plots import Line, Panel, draw_panels, draw_plane_regions
from hypersphere_papers.engine.job import Job, item
from hypersphere_papers.engine.outcome import Finding, Outcome, checked
from hypersphere_papers.sphereface.mathematics import (
    BINARY_BOUND,
    MULTI_CLASS_BOUND,
    Floats,
    angular_margin,
    constraint,
    least_margin,
    spread_and_gap,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def properties() -> Outcome:
    """Properties 2 and 3 measured on the circle, and the margins of Table 1's boundaries."""
    findings: list[Finding] = []
    for degrees in (30, 60, 90, 120):
        found = least_margin([0.0, math.radians(degrees)], points=40_001)
        what = f"least m, two classes {degrees} degrees apart (Property 2)"
        findings.append(checked(what, f"{found:.3f}", abs(found - BINARY_BOUND) < 0.02, "3.732"))
    for count in (3, 5, 10):
        found = least_margin(2 * math.pi * np.arange(count) / count, points=40_001)
        what = f"least m, {count} classes around the circle (Property 3)"
        findings.append(checked(what, f"{found:.3f}", abs(found - MULTI_CLASS_BOUND) < 0.02, "3"))
    for m in (2, 3, 4):
        _, gap = spread_and_gap(m, [0.0, 1.0])
        formula = angular_margin(m, 1.0)
        what = f"gap / theta_12 for m = {m} (sec. 3.2)"
        findings.append(checked(what, f"{gap:.3f}", abs(gap - formula) < 1e-3, f"{formula:.3f}"))
    notes = [
        "Regions m theta_1 < theta_2 are found on a grid of the circle, without the paper's inequalities. For two "
        "classes the least m is 2 + sqrt(3) as long as they are at most (m-1)/m pi = 131.8 degrees apart; further "
        "apart eq. 9 rules and a smaller m suffices. The paper calls both values lower bounds, and uses m = 4."
    ]
    figures = {"least-m": _draw_least_margin, "boundaries": _draw_boundaries}
    return Outcome(findings=findings, notes=notes, figures=figures)


@item("sphereface/table1")
def decision_boundaries(job: Job) -> Outcome:
    """Table 1, with the margins and least m of secs. 3.2 and 3.4."""
    circle = [2 * math.pi * number / 10 for number in range(10)]
    findings = [
        job.value("least m, two classes (Property 2)", least_margin([0.0, 1.0], points=40_001), digits=3),
        job.value("least m, ten classes around the circle (Property 3)", least_margin(circle, points=40_001), digits=3),
        *(job.value(f"gap / theta_12, m = {m}", spread_and_gap(m, [0.0, 1.0])[1], digits=4) for m in (2, 3, 4)),
    ]
    return Outcome(findings=findings, figures={"table1": _draw_boundaries, "least-m": _draw_least_margin})


@item("sphereface/table2")
def networks(job: Job) -> Outcome:
    """Table 2: convolutions, FC1 and the last width of our networks, and the strides."""
    findings = []
    for layers in (4, 10, 20, 36, 64):
        network = create_backbone(f"sfnet{layers}", dim=512, input_size=(112, 96))
        convolutions = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
        last = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
        row = f"{layers}-layer CNN"
        findings += [
            job.value(f"{row}, layers with weights before FC1", len(convolutions), digits=0),
            job.value(f"{row}, FC1", last.out_features, digits=0),
            job.value(f"{row}, width of the last stage", convolutions[-1].out_channels, digits=0),
        ]
        strided = sum(module.stride == (2, 2) for module in convolutions)
        threes = all(module.kernel_size == (3, 3) for module in convolutions)
        sentence = f"{row}: all 3 x 3, four of stride 2"
        findings.append(job.claim(threes and strided == 4, f"{strided} of stride 2", sentence=sentence))
    return Outcome(findings=findings)


def _draw_least_margin() -> Figure:
    margins = np.linspace(1.5, 6, 200)
    inside, gap = np.degrees([constraint(float(m), 1.0) for m in margins]).T
    two = [Line("largest inside a class", margins, inside), Line("smallest between classes", margins, gap)]
    step = math.degrees(2 * math.pi / 10)
    many = [
        Line("largest inside a class", margins, 2 * step / (margins + 1)),
        Line("smallest between classes", margins, step * (margins - 1) / (margins + 1)),
    ]
    return draw_panels(
        [
            Panel("Two classes, 1 rad apart", "m", "angle (degrees)", two, {"2 + sqrt(3)": BINARY_BOUND}),
            Panel("Ten classes on the circle", "m", "angle (degrees)", many, {"3": MULTI_CLASS_BOUND}),
        ],
        width=4.4,
        height=3.4,
    )


def _draw_boundaries() -> Figure:
    def labels(margin: int) -> Any:
        def found(degrees: Floats) -> Any:
            first = margin * degrees[:, 0] < degrees[:, 1]
            second = margin * degrees[:, 1] < degrees[:, 0]
            return np.where(first, 0, np.where(second, 1, -1))

        return found

    titles = {1: "modified softmax", 2: "A-Softmax m = 2", 3: "A-Softmax m = 3", 4: "A-Softmax m = 4"}
    return draw_plane_regions([(title, labels(m)) for m, title in titles.items()])
