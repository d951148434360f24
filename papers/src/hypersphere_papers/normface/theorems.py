"""NormFace, computed: Propositions 1-3, and the bound of Fig. 5."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hypersphere.plots import Line, Panel, draw_panels
from hypersphere.theory import softmax_bound
from hypersphere_papers.engine.job import Job, item
from hypersphere_papers.engine.outcome import Finding, Outcome, checked, number
from hypersphere_papers.normface.mathematics import best_probability, check_agents, check_scaling, least_loss

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOTES = (
    "The paper's training loss of 8.50 on CASIA-WebFace is an experiment: Table 2 has one like it, on faces. Prop. 3 "
    "holds for the distance ||f - W||, not for the cosine of eq. 5 (see errata).",
)


def propositions() -> Outcome:
    """Props. 1-3 and Fig. 5."""
    numbers = [
        number("bound at n = 10,575, s = 1 (Prop. 2)", f"{float(softmax_bound(10_575, 1.0)):.2f}", "8.27"),
        number("loss of a uniform guess, log n", f"{math.log(10_575):.2f}", "9.27"),
        number("best p_y at s = 1, n = 10 (sec. 3.3)", f"{best_probability(10, 1.0):.2f}", "0.45"),
        number("best p_y at s = 1, n = 1000", f"{best_probability(1000, 1.0):.3f}", "0.007"),
    ]
    return Outcome(findings=[*numbers, *_propositions()], notes=_NOTES, figures={"fig5": _draw_bound})


@item("normface/fig5")
def bound(job: Job) -> Outcome:
    """Fig. 5: the bound of Prop. 2, and the numbers printed around it."""
    findings = [
        job.value("bound at n = 10,575, s = 1", float(softmax_bound(10_575, 1.0))),
        job.value("loss of a uniform guess, n = 10,575", math.log(10_575)),
        job.value("best p_y at s = 1, n = 10", best_probability(10, 1.0)),
        job.value("best p_y at s = 1, n = 1000", best_probability(1000, 1.0)),
        *_propositions(),
    ]
    return Outcome(findings=findings, figures={"fig5": _draw_bound}, notes=_NOTES)


def _propositions() -> list[Finding]:
    plain, biased = check_scaling()
    worst, _ = check_agents()
    findings = [
        checked("Prop. 1: least gain of P_i by scaling, no bias", f"{plain:.1e}", plain >= -1e-12, ">= 0"),
        number("Prop. 1 with a bias", f"{biased:.2f}", note="does not hold, as the paper says"),
    ]
    for n, d, s in ((10, 16, 5.0), (4, 3, 2.0)):
        excess = _excess(n, d, s)
        what = f"Prop. 2: minimised loss - bound, n = {n}, d = {d}"
        findings.append(checked(what, f"{excess:.0e}", abs(excess) < 1e-9, "= 0"))
    crowded = _excess(20, 3, 5.0)
    return [
        *findings,
        number("Prop. 2: the same, n = 20 in d = 3", f"{crowded:.3f}", ">= 0", "not reached: n > d + 1"),
        checked("Prop. 3: largest distortion / bound", f"{worst:.3f}", worst <= 1, "<= 1"),
    ]


def _excess(num_classes: int, dim: int, scale: float) -> float:
    """The least loss of three starts above the bound."""
    found = min(least_loss(num_classes, dim, scale, seed=seed) for seed in range(3))
    return found - float(softmax_bound(num_classes, scale))


def _draw_bound() -> Figure:
    scales = np.linspace(0, 40, 401)
    lines = [Line(f"n = {n:,}", scales, softmax_bound(n, scales)) for n in (10, 100, 1000, 10_000, 100_000)]
    panel = Panel("Lower bound of the softmax loss", "squared norm s", "loss", lines)
    return draw_panels([panel], width=5.4, height=3.8)
