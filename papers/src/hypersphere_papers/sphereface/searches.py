"""SphereFace among distractors: Fig. 7 and Tables 5, 7."""

from __future__ import annotations

import itertools

from hypersphere_papers.engine.drawings import draw_rows
from hypersphere_papers.engine.evidence import Evidence, experiment
from hypersphere_papers.engine.face_records import SOFTMAX, searched
from hypersphere_papers.engine.face_searches import HELD_OUT, LFW
from hypersphere_papers.engine.outcome import Outcome
from hypersphere_papers.engine.search_findings import (
    DISTRACTORS,
    draw_search_curves,
    search_better,
    search_rows,
)
from hypersphere_papers.sphereface.real_faces import DEPTHS, STEADY_OTHERS, known_depths

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
_TABLE = {row: searched(STEADY_OTHERS[name]) for name, row in _ROWS.items()}
_OURS = _TABLE["SphereFace (single model)"]
_WEIGHTS = (
    "All by a rate of 0.05, with a warm-up of an epoch and gradients clipped: at 0.1 SphereFace and softmax with the "
    "contrastive or triplet loss ended in no number in some seeds. The weights of these two beside softmax are a guess."
)
_COST = (
    "The lower rate costs SphereFace more than L-Softmax. At 0.1 one of its three seeds ends in no number; by the "
    "other two rank-1 and TAR at FAR 1e-6 of the two losses cannot be told apart, and at FAR 1e-5 L-Softmax leads on "
    "LFW ([losses.md](../results/losses.md))."
)


@experiment("sphereface/table5", list(_TABLE.values()))
def other_losses(evidence: Evidence) -> Outcome:
    """Table 5: SphereFace beside five others, among distractors."""
    columns = {_RANK: "rank-1", _TAR: "TAR at FAR 1e-6"}
    findings = search_rows(evidence, _TABLE, columns, _PEOPLE)
    for setting in _TABLE.values():
        if setting is not _OURS:
            findings += search_better(evidence, _OURS, setting, list(columns), _PEOPLE)
    label = f"{_RANK} {LFW}, %"
    return Outcome(
        findings=findings,
        figures={"table5": lambda: draw_rows(evidence, list(_TABLE.values()), f"{_RANK}, {LFW}", label)},
        notes=[
            DISTRACTORS,
            f"{_WEIGHTS} Other authors' systems and the ensemble of three patches are not trained.",
            _COST,
        ],
    )


@experiment("sphereface/fig7", list(_TABLE.values()))
def curves(evidence: Evidence) -> Outcome:
    """Fig. 7: CMC and ROC curves; judged at rank 1 and at a FAR of 1e-5."""
    findings = search_rows(evidence, _TABLE, {_RANK: "", _TAR5: ""}, _PEOPLE)
    for setting in _TABLE.values():
        if setting is not _OURS:
            findings += search_better(evidence, _OURS, setting, [_RANK, _TAR5], _PEOPLE)
    settings = list(_TABLE.values())
    return Outcome(
        findings=findings,
        figures={"fig7": lambda: draw_search_curves(evidence, settings, _PEOPLE, cmc=True, roc="distractor ROC")},
        notes=[DISTRACTORS, f"{_WEIGHTS} The paper's other curves are other authors' systems.", _COST],
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
