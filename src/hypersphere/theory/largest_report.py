"""Learning Towards the Largest Margins: its lemma and theorems as a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from hypersphere.plots import Line, Panel, draw_panels
from hypersphere.theory.collapse import neural_collapse
from hypersphere.theory.largest import (
    Solution,
    best_of,
    collapsed_softmax,
    descend_sample_margin,
    gm_bound,
    largest_sample_margin,
    least_energy,
    least_risk,
    simplex_energy,
    simplex_margin_degrees,
)
from hypersphere.theory.report import Report, Row, verdict
from hypersphere.theory.tammes import BEST_KNOWN

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


def report_largest_margins() -> Report:
    """Every statement that can be optimised, against its bound."""
    rows = [*_energies(), *_margins(), *_risks(), *_imbalanced(), _collapse()]
    notes = [
        "k = 4 classes in 3-D (5 in 4-D for the energies), the best of a few random starts, L-BFGS in float64; R_sm by "
        "Adam. Theorem 3.2's bound is taken with the sign of its proof (errata). ArcFace has a kink at angle 0, so it "
        "ends a little off. Theorem 2.2 is approached as a limit, s = 4096.",
        "Theorem 3.5's constraint sum w = 0 is a penalty of weight 1000; 20, 5, 2 and 1 samples a class.",
    ]
    return Report(
        "Learning Towards the Largest Margins: Lemma 2.1, Theorems 2.2-3.5",
        rows,
        notes,
        {"theorem-3-1": _draw_collapsed},
    )


def _energies() -> list[Row]:
    rows = []
    for exponent in (0.0, 1.0, 4.0):
        found = best_of(lambda seed, t=exponent: least_energy(5, 4, t, seed=seed))  # type: ignore[misc]
        excess = found.value - simplex_energy(5, exponent)
        right = abs(found.class_margin_degrees - simplex_margin_degrees(5)) < 1e-3
        rows.append(Row(f"Lemma 2.1: energy - simplex's, t = {exponent:g}", f"{excess:.0e}", "0", verdict(right)))
    return rows


def _margins() -> list[Row]:
    found = best_of(lambda seed: largest_sample_margin(_BALANCED, _DIM, seed=seed), 2)
    eight = best_of(lambda seed: largest_sample_margin(torch.arange(8), 3, seed=seed))
    margin, best = eight.class_margin_degrees, BEST_KNOWN[8]
    rows = [
        Row("Prop. 2.3: largest smallest sample margin", f"{found.sample_margin:.5f}", "1.33333", _near(found)),
        Row(
            "Thm. 2.2: its class margin, k = 8, degrees", f"{margin:.3f}", "74.858", verdict(abs(margin - best) < 0.05)
        ),
    ]
    for length in (1.0, 10.0, 30.0):
        loss, degrees = collapsed_softmax(4, 4, math.radians(10), length)
        what = f"Thm. 3.1: softmax loss, norms {length:g}, {degrees:.0f} degrees apart"
        rows.append(Row(what, f"{loss:.2g}", "-> 0", verdict(loss < 1e-4) if length == 30 else ""))
    return rows


def _risks() -> list[Row]:
    options = dict(_GM)
    found = best_of(lambda seed: least_risk("gm_softmax", _BALANCED, _DIM, options=options, seed=seed))
    excess = found.value - gm_bound(_CLASSES, **_GM)
    rows = [Row("Thm. 3.2: GM-Softmax's least risk - bound", f"{excess:.0e}", "0", _near(found))]
    for title, (loss, keywords) in _SHARED.items():
        solution = best_of(lambda seed: least_risk(loss, _BALANCED, _DIM, options=keywords, seed=seed), 2)  # noqa: B023
        what = f"Prop. 3.3: class margin of {title}, degrees"
        rows.append(Row(what, f"{solution.class_margin_degrees:.2f}", "109.47", _near(solution)))
    found = best_of(lambda seed: descend_sample_margin(_BALANCED, _DIM, steps=600, seed=seed), 2)
    rows.append(Row("Thm. 3.4: least R_sm", f"{found.value:.5f}", "-1.33333", _near(found)))
    return rows


def _imbalanced() -> list[Row]:
    def solve(centroid: float) -> Solution:
        options = dict(_GM)
        return best_of(
            lambda seed: least_risk("gm_softmax", _UNEVEN, _DIM, options=options, centroid=centroid, seed=seed), 2
        )

    free, centred = solve(0.0), solve(1000.0)
    excess = centred.value - gm_bound(_CLASSES, **_GM)
    return [
        Row("Thm. 3.5: least risk - bound, centroid at zero", f"{excess:.0e}", "0", _near(centred)),
        Row("its class margin, degrees", f"{centred.class_margin_degrees:.2f}", "109.47"),
        Row("the same without the constraint", f"{free.class_margin_degrees:.2f}", "", "smaller: classes are uneven"),
    ]


def _collapse() -> Row:
    options = dict(_GM)
    found = best_of(lambda seed: least_risk("gm_softmax", _BALANCED, _DIM, options=options, seed=seed), 2)
    assert found.features is not None
    measured = neural_collapse(found.features, _BALANCED, found.prototypes)
    worst = max(vars(measured).values())
    return Row("neural collapse: the largest of NC1-NC4", f"{worst:.0e}", "0", verdict(worst < 1e-3))


def _near(solution: Solution) -> str:
    """Whether the largest class margin and sample margin were reached, to 0.05 degrees and 0.001."""
    wanted = simplex_margin_degrees(_CLASSES), _CLASSES / (_CLASSES - 1)
    close = abs(solution.class_margin_degrees - wanted[0]) < 0.05 and abs(solution.sample_margin - wanted[1]) < 1e-3
    return verdict(close)


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
