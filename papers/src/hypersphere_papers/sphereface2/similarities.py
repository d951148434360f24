"""SphereFace2 on real faces: the similarities of pairs, Fig. 5."""

from __future__ import annotations

import itertools

from hypersphere_papers.engine.drawings import draw_pairs
from hypersphere_papers.engine.evidence import Evidence, experiment
from hypersphere_papers.engine.face_records import LIGHT, LIGHT_NOTE, NOTE, ranked
from hypersphere_papers.engine.outcome import Outcome
from hypersphere_papers.engine.search_findings import PLACES
from hypersphere_papers.sphereface2.real_faces import OWN, sphereface2

_POWERS = [ranked(sphereface2(f"t = {t:g}", power=t).but(f"t = {t:g}", *LIGHT)) for t in (1.0, 2.0, 3.0)]
_PAIRS = "Similarities are cosines of the two sets of pairs; people held out count alike in all numbers and the figure."


@experiment("sphereface2/fig5", _POWERS)
def similarity_adjustment(evidence: Evidence) -> Outcome:
    """Fig. 5: similarities of unseen pairs for several t."""
    findings = []
    sets = {f", {people}": f" {where}" for people, where in PLACES.items()}
    for setting in _POWERS:
        for ending, where in sets.items():
            findings += [
                evidence.row(setting, f"{name}{ending}", data=where.removeprefix(" of "))
                for name in ("separation", "range")
            ]
    for before, after in itertools.pairwise(_POWERS):
        for ending, where in sets.items():
            steps = f"from {before.title} to {after.title}"
            for name, said in (("separation", f"pairs{where} overlap less"), ("range", f"the range{where} grows")):
                findings.append(evidence.larger(f"{name}{ending}", after, before, sentence=f"{said} {steps}"))
    figures = {"fig5": lambda: draw_pairs(evidence, _POWERS, sets)}
    return Outcome(findings=findings, figures=figures, notes=[NOTE, LIGHT_NOTE, OWN, _PAIRS])
