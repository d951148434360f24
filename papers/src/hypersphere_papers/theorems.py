"""The papers, each in one place: what it proves, its illustrations, its experiments."""

from collections.abc import Mapping

from hypersphere_papers import ampface, largest_margins, normface, sphereface, sphereface2
from hypersphere_papers.engine.outcome import Theorem

THEOREMS: Mapping[str, Theorem] = {
    "nearest": Theorem("angle to the nearest prototype (AmpFace Fig. 7)", ampface.theorems.nearest),
    "caps": Theorem("area of a spherical cap, and angles in it (AmpFace Figs. 8, 9)", ampface.theorems.caps),
    "weights": Theorem("total wrong-class weight (AmpFace Fig. 10)", ampface.theorems.weights),
    "curves": Theorem("loss and gradients over angles (AmpFace Figs. 11-14)", ampface.angle_curves.curves),
    "termination": Theorem("termination angles of the best margins (AmpFace App. B)", ampface.angle_curves.termination),
    "decisions": Theorem(
        "decision margins in plane and space (AmpFace Figs. 15-18)", ampface.decision_regions.decisions
    ),
    "normface": Theorem(
        "Propositions 1-3 and the bound of the softmax loss (NormFace Fig. 5)", normface.theorems.propositions
    ),
    "sphereface": Theorem("Properties 2 and 3, decision boundaries (SphereFace)", sphereface.theorems.properties),
    "sphereface2": Theorem(
        "loss curves, planes, bias and gradients (SphereFace2 Figs. 3, 6, Table 13)", sphereface2.theorems.statements
    ),
    "largest-margins": Theorem(
        "Lemma 2.1, Theorems 2.2-3.5, optimised from random starts (LM-Softmax)",
        largest_margins.theorems.statements,
        in_parts=True,
    ),
    "tammes": Theorem(
        "best packings of k points in 3-D, k up to 20 (LM-Softmax eq. 2.3)",
        largest_margins.theorems.packings,
        in_parts=True,
    ),
}
"""What `hypersphere theory` computes, by name."""
