"""Everything `hypersphere theory` can compute, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hypersphere.theory import (
    ampface,
    ampface_curves,
    decision_figures,
    largest_report,
    normface,
    sphereface,
    sphereface2,
    tammes,
)
from hypersphere.theory.report import Report


@dataclass(frozen=True)
class Item:
    """One item: what it is in a line, and what computes it."""

    title: str
    run: Callable[[], Report]


ITEMS: Mapping[str, Item] = {
    "nearest": Item("angle to the nearest prototype (AmpFace Fig. 7)", ampface.report_nearest),
    "caps": Item("area of a spherical cap, and angles in it (AmpFace Figs. 8, 9)", ampface.report_caps),
    "weights": Item("total wrong-class weight (AmpFace Fig. 10)", ampface.report_weights),
    "curves": Item("loss and gradients over angles (AmpFace Figs. 11-14)", ampface_curves.report_curves),
    "termination": Item("termination angles of the best margins (AmpFace App. B)", ampface_curves.report_termination),
    "decisions": Item("decision margins in plane and space (AmpFace Figs. 15-18)", decision_figures.report_decisions),
    "normface": Item("Propositions 1-3 and the bound of the softmax loss (NormFace Fig. 5)", normface.report_normface),
    "sphereface": Item("Properties 2 and 3, decision boundaries (SphereFace)", sphereface.report_sphereface),
    "sphereface2": Item(
        "loss curves, planes, bias and gradients (SphereFace2 Figs. 3, 6, Table 13)", sphereface2.report_sphereface2
    ),
    "largest-margins": Item(
        "Lemma 2.1, Theorems 2.2-3.5, optimised from random starts (LM-Softmax)", largest_report.report_largest_margins
    ),
    "tammes": Item("best packings of k points in 3-D, k up to 20 (LM-Softmax eq. 2.3)", tammes.report_tammes),
}
"""By paper."""
