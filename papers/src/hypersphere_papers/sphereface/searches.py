"""SphereFace among distractors: Fig. 7 and Tables 5, 7."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from hypersphere_papers.engine.drawings import draw_rows
from hypersphere_papers.engine.evidence import Evidence, experiment
from hypersphere_papers.engine.face_records import SMALL_NOTE, SOFTMAX, searched
from hypersphere_papers.engine.face_searches import HELD_OUT, LFW
from hypersphere_papers.engine.outcome import Finding, Outcome
from hypersphere_papers.engine.search_findings import (
    DISTRACTORS,
    draw_search_curves,
    search_better,
    search_rows,
)
from hypersphere_papers.sphereface.real_faces import (
    DEPTHS,
    OTHERS,
    OTHERS_NOTE,
    SMALL_OTHERS,
    VARIANTS,
    beside_others,
    known_depths,
)

_PEOPLE = (HELD_OUT, LFW)
_RANK, _TAR, _TAR5 = (
    "rank-1 among distractors",
    "TAR at FAR 1e-6 among distractors",
    "TAR at FAR 1e-5 among distractors",
)
_ROWS = {
    "Softmax Loss": "Softmax Loss",
    "Softmax+Contrastive": "Softmax+Contrastive Loss",
    "Triplet Loss": "Triplet Loss",
    "L-Softmax Loss": "L-Softmax Loss",
    "Softmax+Center Loss": "Softmax+Center Loss",
    "SphereFace": "SphereFace (single model)",
}
"""The rows of Table 4 by those of Table 5."""
_TABLE = {row: searched(OTHERS[name]) for name, row in _ROWS.items()}
_MORE = {setting.title: setting for setting in (*map(searched, VARIANTS.values()), *SMALL_OTHERS)}
_ALL = [*_TABLE.values(), *_MORE.values()]
_LARGE = [setting for setting in _ALL if not setting.small]
_OURS = _TABLE["SphereFace (single model)"]
_COST = (
    "The lower rate costs SphereFace more than L-Softmax. At 0.1 one of its three seeds ends in no number; by the "
    "other two rank-1 and TAR at FAR 1e-6 of the two losses cannot be told apart, and at FAR 1e-5 L-Softmax leads on "
    "LFW ([losses.md](../results/losses.md))."
)


def _judged(evidence: Evidence, columns: Mapping[str, str]) -> list[Finding]:
    findings = search_rows(evidence, _TABLE, columns, _PEOPLE)
    findings += search_rows(evidence, _MORE, dict.fromkeys(columns, ""), _PEOPLE)
    for ours, other in beside_others(_OURS, SMALL_OTHERS, _LARGE):
        findings += search_better(evidence, ours, other, list(columns), _PEOPLE)
    return findings


@experiment("sphereface/table5", _ALL)
def other_losses(evidence: Evidence) -> Outcome:
    """Table 5: SphereFace beside five others, among distractors."""
    label = f"{_RANK} {LFW}, %"
    return Outcome(
        findings=_judged(evidence, {_RANK: "rank-1", _TAR: "TAR at FAR 1e-6"}),
        figures={"table5": lambda: draw_rows(evidence, _LARGE, f"{_RANK}, {LFW}", label)},
        notes=[
            DISTRACTORS,
            SMALL_NOTE,
            f"{OTHERS_NOTE} Other authors' systems and the ensemble of three patches are not trained.",
            _COST,
        ],
    )


@experiment("sphereface/fig7", _ALL)
def curves(evidence: Evidence) -> Outcome:
    """Fig. 7: CMC and ROC curves; judged at rank 1 and at a FAR of 1e-5."""
    return Outcome(
        findings=_judged(evidence, {_RANK: "", _TAR5: ""}),
        figures={"fig7": lambda: draw_search_curves(evidence, _LARGE, _PEOPLE, cmc=True, roc="distractor ROC")},
        notes=[DISTRACTORS, SMALL_NOTE, f"{OTHERS_NOTE} The paper's other curves are other authors' systems.", _COST],
    )


_DEPTHS = {name: {layers: searched(one) for layers, one in group.items()} for name, group in DEPTHS.items()}
_DEEPER = searched(SOFTMAX.but("softmax, 10 layers at a rate of 0.1"))
_ALL_DEPTHS = [setting for group in _DEPTHS.values() for setting in group.values()]


@experiment("sphereface/table7", [*_ALL_DEPTHS, _DEEPER])
def depth(evidence: Evidence) -> Outcome:
    """Table 7: the number of layers, among distractors."""
    columns = {_RANK: "rank-1", _TAR: "TAR at FAR 1e-6"}
    ours, plain = _DEPTHS["sphereface"], _DEPTHS["softmax"]
    layers, missing = known_depths(evidence, _DEPTHS)
    findings = search_rows(evidence, {f"SphereFace, {n} layers": ours[n] for n in layers}, columns, _PEOPLE)
    others = {each.title: each for each in (*(plain[n] for n in layers), _DEEPER)}
    findings += search_rows(evidence, others, dict.fromkeys(columns, ""), _PEOPLE)
    for few, many in itertools.pairwise(layers):
        findings += search_better(evidence, ours[many], ours[few], list(columns), _PEOPLE)
    findings += search_better(evidence, ours[4], _DEEPER, list(columns), _PEOPLE)
    settings, label = [*(group[n] for group in _DEPTHS.values() for n in layers), _DEEPER], f"{_RANK} {LFW}, %"
    return Outcome(
        findings=findings,
        figures={"table7": lambda: draw_rows(evidence, settings, f"{_RANK}, {LFW}", label)},
        notes=[
            DISTRACTORS,
            "A rate of 0.05 with gradients clipped. 4 layers of A-Softmax are held against 10 of softmax at the rate "
            "that served it best.",
            *missing,
        ],
    )
