"""Largest Margins on real faces: Tables 4, 9."""

from __future__ import annotations

from hypersphere_papers.engine.drawings import draw_rows
from hypersphere_papers.engine.evidence import Evidence, experiment
from hypersphere_papers.engine.face_records import (
    ARCFACE,
    COSFACE,
    LM_SOFTMAX,
    NOTE,
    SETS,
    better,
    rows,
    searched,
)
from hypersphere_papers.engine.face_searches import HELD_OUT, LFW
from hypersphere_papers.engine.outcome import Finding, Outcome
from hypersphere_papers.engine.search_findings import PLACES, TEMPLATES, search_better, search_rows
from hypersphere_papers.engine.verdict import most

_R_SM, _R_W = "head.add.sample_margin.weight=0.5", "head.add.zero_centroid.weight=1.0"
_ADDED = {
    "ArcFace + R_sm": (ARCFACE.but("ArcFace + R_sm", _R_SM), ARCFACE),
    "ArcFace + R_w": (ARCFACE.but("ArcFace + R_w", _R_W), ARCFACE),
    "CosFace + R_sm": (COSFACE.but("CosFace + R_sm", _R_SM), COSFACE),
    "CosFace + R_w": (COSFACE.but("CosFace + R_w", _R_W), COSFACE),
    "LM-Softmax + R_w": (LM_SOFTMAX.but("LM-Softmax + R_w", _R_W), LM_SOFTMAX),
}
_SETTINGS = {setting.title: setting for setting in (ARCFACE, COSFACE, LM_SOFTMAX, *(new for new, _ in _ADDED.values()))}


@experiment("largest-margins/table4", list(_SETTINGS.values()))
def verification(evidence: Evidence) -> Outcome:
    """Table 4: verification with R_sm and R_w."""
    findings = rows(evidence, _SETTINGS, "LFW")
    for name, (added, plain) in _ADDED.items():
        findings += better(evidence, added, plain, sentence=f"{name} does no harm", equal=True)
    for outcome, where in SETS.items():
        verdicts = [evidence.better(added, plain, outcome).verdict or "undecided" for added, plain in _ADDED.values()]
        text = ", ".join(f"{name}: {verdict}" for name, verdict in zip(_ADDED, verdicts, strict=True))
        findings.append(Finding(what=f"they help in most cases, {where}", ours=text, verdict=most(verdicts)))
    findings += better(evidence, *_ADDED["LM-Softmax + R_w"], sentence="R_w helps LM-Softmax")
    settings = list(_SETTINGS.values())
    return Outcome(
        findings=findings,
        figures={"table4": lambda: draw_rows(evidence, settings, "lfw")},
        notes=[NOTE, "s = 30; R_sm with weight 0.5, R_w with 1, which the paper does not print."],
    )


_SEARCHED = {name.replace(" +", "+"): searched(setting) for name, setting in _SETTINGS.items()}
_RATES = {LFW: ("TAR at FAR 1e-5", "TAR at FAR 1e-4"), HELD_OUT: ("TAR at FAR 1e-4",)}
"""Of the people held out there are too few for a FAR of 1e-5."""


@experiment("largest-margins/table9", list(_SEARCHED.values()))
def templates(evidence: Evidence) -> Outcome:
    """Table 9: templates at low FARs, with R_sm and R_w."""
    findings = []
    for people, names in _RATES.items():
        columns = {name: name if people == LFW else "" for name in names}
        findings += search_rows(evidence, _SEARCHED, columns, [people])
    pairs = [(searched(added), searched(plain)) for added, plain in _ADDED.values()]
    for people, names in _RATES.items():
        for added, plain in pairs:
            said = f"{added.title} does no harm"
            findings += search_better(evidence, added, plain, names, [people], equal=True, sentence=said)
        for name in names:
            outcome = f"{name}, {people}"
            verdicts = [evidence.better(added, plain, outcome).verdict or "undecided" for added, plain in pairs]
            text = ", ".join(f"{added.title}: {found}" for (added, _), found in zip(pairs, verdicts, strict=True))
            said = f"they help in most cases: {name} {PLACES[people]}"
            findings.append(Finding(what=said, ours=text, verdict=most(verdicts)))
    settings, shown = list(_SEARCHED.values()), f"TAR at FAR 1e-4, {LFW}"
    return Outcome(
        findings=findings,
        figures={"table9": lambda: draw_rows(evidence, settings, shown, f"{shown}, %")},
        notes=[TEMPLATES, "s = 30; R_sm with weight 0.5, R_w with 1, which the paper does not print."],
    )
