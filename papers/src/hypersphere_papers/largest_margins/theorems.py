"""Largest Margins, computed: Lemma 2.1 and Theorems 2.2-3.5, best packings (eq. 2.3), the toy problem (Fig. 3)."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from hypersphere.core import Reporter
from hypersphere.plots import Line, Panel, draw_panels, draw_spheres
from hypersphere.theory import (
    BEST_KNOWN,
    CONVERGED_DEGREES,
    OPTIMUM_DEGREES,
    TOY_LOSSES,
    TOY_STEPS,
    ToyLoss,
    ToySolution,
    neural_collapse,
    solve_toy,
)
from hypersphere_papers.engine.job import Job, item
from hypersphere_papers.engine.outcome import Finding, Outcome, checked, number
from hypersphere_papers.largest_margins.mathematics import (
    Solution,
    best_of,
    collapsed_softmax,
    descend_sample_margin,
    fejes_toth_bound,
    gm_bound,
    largest_sample_margin,
    least_energy,
    least_risk,
    packing_degrees,
    simplex_energy,
    simplex_margin_degrees,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CLASSES, _DIM = 4, 3
_BALANCED = torch.arange(_CLASSES).repeat_interleave(3)
_UNEVEN = torch.tensor([0] * 20 + [1] * 5 + [2] * 2 + [3])
_GM: dict[str, float] = {"scale": 4.0, "alpha1": 1.0, "beta1": 0.2, "alpha2": 0.4, "beta2": 0.0}
_SHARED: dict[str, tuple[str, dict[str, Any]]] = {
    "A-Softmax m = 2": ("sphereface", {"scale": 6.0, "margin": 2, "anneal": None}),
    "NormFace": ("normface", {"scale": 6.0, "learnable_scale": False}),
    "CosFace m = 0.2": ("cosface", {"scale": 6.0, "margin": 0.2}),
    "ArcFace m = 0.3": ("arcface", {"scale": 6.0, "margin": 0.3}),
    "LM-Softmax (eq. 3.5)": ("lm_softmax", {"scale": 6.0}),
}


def statements(progress: Reporter | None = None) -> Outcome:
    """Every statement that can be optimised, against its bound."""
    findings: list[Finding] = []
    parts = (_energies, _margins, _risks, _imbalanced, _collapse)
    for done, part in enumerate(parts, start=1):
        findings += part()
        if progress is not None:
            progress(done, len(parts))
    notes = [
        "k = 4 classes in 3-D (5 in 4-D for the energies), the best of a few random starts, L-BFGS in float64; R_sm by "
        "Adam. Theorem 3.2's bound is taken with the sign of its proof (errata). ArcFace has a kink at angle 0, so it "
        "ends a little off. Theorem 2.2 is approached as a limit, s = 4096.",
        "Theorem 3.5's constraint sum w = 0 is a penalty of weight 1000; 20, 5, 2 and 1 samples a class.",
    ]
    return Outcome(findings=findings, notes=notes, figures={"theorem-3-1": _draw_collapsed})


def _energies() -> list[Finding]:
    findings = []
    for exponent in (0.0, 1.0, 4.0):
        found = best_of(lambda seed, t=exponent: least_energy(5, 4, t, seed=seed))  # type: ignore[misc]
        excess = found.value - simplex_energy(5, exponent)
        right = abs(found.class_margin_degrees - simplex_margin_degrees(5)) < 1e-3
        findings.append(checked(f"Lemma 2.1: energy - simplex's, t = {exponent:g}", f"{excess:.0e}", right, "0"))
    return findings


def _margins() -> list[Finding]:
    found = best_of(lambda seed: largest_sample_margin(_BALANCED, _DIM, seed=seed), 2)
    eight = best_of(lambda seed: largest_sample_margin(torch.arange(8), 3, seed=seed))
    margin = eight.class_margin_degrees
    best = abs(margin - BEST_KNOWN[8]) < 0.05
    findings = [
        checked("Prop. 2.3: largest smallest sample margin", f"{found.sample_margin:.5f}", _near(found), "1.33333"),
        checked("Thm. 2.2: its class margin, k = 8, degrees", f"{margin:.3f}", best, "74.858"),
    ]
    for length in (1.0, 10.0, 30.0):
        loss, degrees = collapsed_softmax(4, 4, math.radians(10), length)
        what = f"Thm. 3.1: softmax loss, norms {length:g}, {degrees:.0f} degrees apart"
        long = length == 30
        findings.append(
            checked(what, f"{loss:.2g}", loss < 1e-4, "-> 0") if long else number(what, f"{loss:.2g}", "-> 0")
        )
    return findings


def _risks() -> list[Finding]:
    found = best_of(lambda seed: least_risk("gm_softmax", _BALANCED, _DIM, options=_GM, seed=seed))
    excess = found.value - gm_bound(_CLASSES, **_GM)
    findings = [checked("Thm. 3.2: GM-Softmax's least risk - bound", f"{excess:.0e}", _near(found), "0")]
    for title, (loss, keywords) in _SHARED.items():
        solution = best_of(lambda seed: least_risk(loss, _BALANCED, _DIM, options=keywords, seed=seed), 2)  # noqa: B023
        what = f"Prop. 3.3: class margin of {title}, degrees"
        findings.append(checked(what, f"{solution.class_margin_degrees:.2f}", _near(solution), "109.47"))
    found = best_of(lambda seed: descend_sample_margin(_BALANCED, _DIM, steps=600, seed=seed), 2)
    return [*findings, checked("Thm. 3.4: least R_sm", f"{found.value:.5f}", _near(found), "-1.33333")]


def _imbalanced() -> list[Finding]:
    def solve(centroid: float) -> Solution:
        return best_of(
            lambda seed: least_risk("gm_softmax", _UNEVEN, _DIM, options=_GM, centroid=centroid, seed=seed), 2
        )

    free, centred = solve(0.0), solve(1000.0)
    excess = centred.value - gm_bound(_CLASSES, **_GM)
    without = "the same without the constraint"
    return [
        checked("Thm. 3.5: least risk - bound, centroid at zero", f"{excess:.0e}", _near(centred), "0"),
        number("its class margin, degrees", f"{centred.class_margin_degrees:.2f}", "109.47"),
        number(without, f"{free.class_margin_degrees:.2f}", note="smaller: classes are uneven"),
    ]


def _collapse() -> list[Finding]:
    found = best_of(lambda seed: least_risk("gm_softmax", _BALANCED, _DIM, options=_GM, seed=seed), 2)
    assert found.features is not None
    measured = neural_collapse(found.features, _BALANCED, found.prototypes)
    worst = max(vars(measured).values())
    return [checked("neural collapse: the largest of NC1-NC4", f"{worst:.0e}", worst < 1e-3, "0")]


def _near(solution: Solution) -> bool:
    """Whether the largest class margin and sample margin were reached, to 0.05 degrees and 0.001."""
    wanted = simplex_margin_degrees(_CLASSES), _CLASSES / (_CLASSES - 1)
    return abs(solution.class_margin_degrees - wanted[0]) < 0.05 and abs(solution.sample_margin - wanted[1]) < 1e-3


def _draw_collapsed() -> Figure:
    lengths = [1 + 0.5 * step for step in range(80)]
    lines = [
        Line(
            f"{degrees} degrees apart",
            lengths,
            [max(collapsed_softmax(4, 4, math.radians(degrees), length)[0], 1e-16) for length in lengths],
        )
        for degrees in (5, 10, 20, 45)
    ]
    title = "Softmax without normalisation (Theorem 3.1)"
    panel = Panel(title, "norm of prototypes and features", "loss", lines, log_y=True)
    return draw_panels([panel], width=5.4, height=3.8)


def packings(progress: Reporter | None = None) -> Outcome:
    """The best packings of up to 20 points in 3-D (Tammes), beside the best known."""
    found = {}
    for count in BEST_KNOWN:
        found[count] = packing_degrees(count)
        if progress is not None:
            progress(len(found), len(BEST_KNOWN))
    findings = []
    for count, best in BEST_KNOWN.items():
        what, ours, known = f"k = {count}, degrees", f"{found[count]:.4f}", f"{best:.4f}"
        reached = found[count] > best - 1e-4
        findings.append(checked(what, ours, held=True, paper=known) if reached else number(what, ours, known))
    notes = ["Best known: Sloane's tables, proven up to k = 14. The LM-Softmax paper prints 74.86 for k = 8 (Fig. 3)."]
    return Outcome(findings=findings, notes=notes, figures={"tammes": lambda: _draw_packings(found)})


def _draw_packings(found: Mapping[int, float]) -> Figure:
    counts = list(found)
    lines = [
        Line("best known", counts, list(BEST_KNOWN.values())),
        Line("ours", counts, list(found.values()), "x"),
        Line("Fejes Tóth's upper bound", counts[1:], [fejes_toth_bound(count) for count in counts[1:]], ":"),
    ]
    panel = Panel("Largest class margin in 3-D", "number of prototypes k", "smallest angle (degrees)", lines)
    return draw_panels([panel], width=5.4, height=3.8)


@item("largest-margins/fig3")
def toy(job: Job) -> Outcome:
    """Fig. 3: the toy problem of App. C.1, and the Tammes optimum."""
    with job.training(len(TOY_LOSSES), TOY_STEPS, _seconds_a_step) as part:
        solutions = {loss: solve_toy(loss, progress=part(run)) for run, loss in enumerate(TOY_LOSSES)}
    findings = [job.value("Tammes optimum, k = 8, degrees", packing_degrees(8), digits=2)]
    findings += [
        _at_the_minimum(job.value(loss.title, found.class_margin_degrees, digits=2), [found])
        for loss, found in solutions.items()
    ]
    best = max(solutions.values(), key=lambda found: found.class_margin_degrees)
    largest = job.claim(
        best is solutions[TOY_LOSSES[3]],
        f"{best.class_margin_degrees:.2f} of {OPTIMUM_DEGREES:.2f} degrees",
        sentence="LM-Softmax has the largest class margin of the four",
    )
    findings.append(_at_the_minimum(largest, list(solutions.values())))
    return Outcome(findings=findings, figures={"fig3": lambda: draw_toy(solutions)}, notes=[_MINIMUM])


_MINIMUM = (
    f"A run whose class margin changed by {CONVERGED_DEGREES:g} degrees or more over the second half of its steps is "
    "not at its minimum, and what it would decide is undecided. The scale, margins and learning rate are not in the "
    f"paper, which has 500,000 steps where we have {TOY_STEPS:,}."
)


def _at_the_minimum(found: Finding, solutions: Sequence[ToySolution]) -> Finding:
    """A finding about solutions: undecided where one of them is not at its minimum."""
    change = max(solution.late_change_degrees for solution in solutions)
    if change < CONVERGED_DEGREES:
        return found
    note = f"not at its minimum: a class margin still changed by {change:.1f} degrees over the second half of the steps"
    return found.withheld(note)


def _seconds_a_step() -> float:
    """How long a step of the toy problem takes, from a few that are thrown away."""
    start, steps = time.monotonic(), 100
    solve_toy(TOY_LOSSES[0], steps=steps)
    return (time.monotonic() - start) / steps


def draw_toy(solutions: Mapping[ToyLoss, ToySolution]) -> Figure:
    """The spheres side by side, each with its class margin and the paper's (Fig. 3)."""
    return draw_spheres(
        [
            (
                f"{loss.title}: {solution.class_margin_degrees:.2f}° (paper {loss.paper_degrees:.2f}°)",
                solution.prototypes,
                solution.features,
                solution.labels,
            )
            for loss, solution in solutions.items()
        ]
    )
