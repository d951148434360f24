"""SphereFace on real faces: Figs. 6, 10 and Tables 3, 4, 6."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hypersphere.plots import Line, Panel, draw_panels
from hypersphere_papers.engine.drawings import curve, draw_rows
from hypersphere_papers.engine.evidence import Evidence, Printed, experiment
from hypersphere_papers.engine.face_records import (
    A_SOFTMAX,
    LIGHT,
    LIGHT_NOTE,
    NOTE,
    SMALL_NOTE,
    SOFTMAX,
    STEADY,
    better,
    faces,
    rows,
    searched,
)
from hypersphere_papers.engine.outcome import NOT_MEASURED, Finding, Outcome
from hypersphere_papers.engine.setting import Setting
from hypersphere_papers.engine.verdict import over_seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARGINS = {"softmax": SOFTMAX, **{f"m = {m}": setting for m, setting in A_SOFTMAX.items()}}


@experiment("sphereface/table3", list(_MARGINS.values()))
def margins(evidence: Evidence) -> Outcome:
    """Table 3: accuracy for m = 1 .. 4."""
    findings = []
    for column, setting in _MARGINS.items():
        printed = Printed("LFW", f"LFW {evidence.job.entry.printed(f'LFW, {column}')}")
        findings.append(evidence.row(setting, "lfw", paper=printed))
        findings.append(evidence.row(setting, "pairs", data="held-out people"))
    for m in (2, 3, 4):
        findings += better(evidence, A_SOFTMAX[m], A_SOFTMAX[m - 1])
    for m in (1, 2, 3, 4):
        findings += better(evidence, A_SOFTMAX[m], SOFTMAX, equal=True)
    settings = list(_MARGINS.values())
    return Outcome(
        findings=findings,
        figures={"table3": lambda: draw_rows(evidence, settings, "lfw")},
        notes=[
            NOTE,
            "m = 1 is the modified softmax loss. lambda of the annealing falls to 5, as released.",
        ],
    )


_PAIRED = ("train.sampler=identity", "train.images_per_identity=2")
_CENTER = "head.add={center={weight=0.003}}"
_OTHERS = {
    "Softmax Loss": SOFTMAX,
    "Softmax+Contrastive": faces(
        "softmax + contrastive",
        "softmax",
        "head.add={contrastive={weight=0.05,margin=1.0,distance='euclidean'}}",
        *_PAIRED,
    ),
    "Triplet Loss": faces(
        "triplet", "triplet", "head.mining=semihard", "train.sampler=identity", "train.images_per_identity=4"
    ),
    "L-Softmax Loss": faces("L-Softmax", "l_softmax", "head.margin=4"),
    "Softmax+Center Loss": faces("softmax + center", "softmax", _CENTER),
    "SphereFace": A_SOFTMAX[4],
}
_VARIANTS = (
    faces(
        "softmax + contrastive, unit vectors", "softmax", "head.add={contrastive={weight=0.05,margin=1.0}}", *_PAIRED
    ),
    faces("softmax + triplet, unit vectors", "softmax", "head.add={triplet={weight=0.05}}", *_PAIRED),
)
OTHERS = {row: setting.but(setting.title, *STEADY) for row, setting in _OTHERS.items()}
"""The losses of Tables 4 and 5, all by one rate at which they train."""
VARIANTS = {setting.title: setting.but(setting.title, *STEADY) for setting in _VARIANTS}
"""Two of them as they are not in the paper: of unit vectors, the triplet loss beside softmax."""
SMALL_OTHERS = [
    searched(OTHERS[row].but(OTHERS[row].name, *LIGHT, small=True)) for row in ("Softmax+Center Loss", "SphereFace")
]
_SMALL_PAIRS = [replace(setting, measure="verification") for setting in SMALL_OTHERS]
OTHERS_NOTE = (
    "All by a rate of 0.05, with a warm-up of an epoch and gradients clipped, chosen for none of them: at 0.1 some "
    "seeds of SphereFace and of softmax with the contrastive or triplet loss ended in no number. The contrastive loss "
    "is of embeddings as they are and the triplet loss alone (sec. 3.5); both of unit vectors beside softmax are rows "
    "more. Center's weight is Wen et al.'s, those of the two others are a guess."
)


def beside_others(ours: Setting, small: Sequence[Setting], others: Iterable[Setting]) -> list[tuple[Setting, Setting]]:
    """SphereFace and each of the others at its size: what a table says is better, and than what."""
    small_center, small_ours = small
    return [*((ours, setting) for setting in others if setting is not ours), (small_ours, small_center)]


@experiment("sphereface/table4", [*OTHERS.values(), *VARIANTS.values(), *_SMALL_PAIRS])
def other_losses(evidence: Evidence) -> Outcome:
    """Table 4: SphereFace beside five others."""
    settings = [*OTHERS.values(), *VARIANTS.values()]
    findings = (
        rows(evidence, OTHERS, "LFW")
        + rows(evidence, VARIANTS)
        + rows(evidence, {setting.title: setting for setting in _SMALL_PAIRS})
    )
    for one, other in beside_others(OTHERS["SphereFace"], _SMALL_PAIRS, settings):
        findings += better(evidence, one, other)
    return Outcome(
        findings=findings,
        figures={"table4": lambda: draw_rows(evidence, settings, "lfw")},
        notes=[NOTE, SMALL_NOTE, OTHERS_NOTE, "Other authors' systems of the table are not trained."],
    )


_ABLATION = {
    "A: softmax with ReLU and biases": faces("A: softmax, ReLU, biases", "softmax", "backbone.last_relu=true"),
    "B: last ReLU removed": SOFTMAX.but("B: last ReLU removed"),
    "C: biases removed": faces("C: biases removed", "softmax", "head.bias=false"),
    "D: weights normalised": A_SOFTMAX[1].but("D: weights normalised"),
    "E: A-Softmax, m = 2": A_SOFTMAX[2].but("E: m = 2"),
    "F: A-Softmax, m = 3": A_SOFTMAX[3].but("F: m = 3"),
    "G: A-Softmax, m = 4": A_SOFTMAX[4].but("G: m = 4"),
}


@experiment("sphereface/table6", list(_ABLATION.values()))
def ablation(evidence: Evidence) -> Outcome:
    """Table 6: what each change does to accuracy."""
    findings, steps = rows(evidence, _ABLATION, "accuracy"), list(_ABLATION.values())
    for before, after in itertools.pairwise(steps):
        findings += better(evidence, after, before, sentence=f"accuracy rises from {before.title} to {after.title}")
    return Outcome(
        findings=findings,
        figures={"table6": lambda: draw_rows(evidence, steps, "lfw")},
        notes=[
            NOTE,
            "Not tested: the angular Fisher score, which in the paper falls from each row to the next; it is not kept "
            "of these runs.",
        ],
    )


LAYERS = (4, 10, 20, 36)
DEPTHS = {
    name: {
        layers: faces(f"{title}, {layers} layers", name, f"backbone.name=sfnet{layers}", *STEADY) for layers in LAYERS
    }
    for name, title in (("softmax", "softmax"), ("sphereface", "A-Softmax"))
}
_ALL_DEPTHS = [setting for group in DEPTHS.values() for setting in group.values()]


def known_depths(evidence: Evidence, depths: Mapping[str, Mapping[int, Setting]]) -> tuple[list[int], list[str]]:
    """The numbers of layers of which a run is on record, and a note that names the others."""
    known = [n for n in LAYERS if any(evidence.records[group[n]] for group in depths.values())] or list(LAYERS)
    others = ", ".join(str(layers) for layers in LAYERS if layers not in known)
    return known, [f"Not on record yet: {others} layers."] if others else []


@experiment("sphereface/fig6", _ALL_DEPTHS)
def depth(evidence: Evidence) -> Outcome:
    """Fig. 6: accuracy against the number of layers."""
    layers, missing = known_depths(evidence, DEPTHS)
    findings = []
    for group in DEPTHS.values():
        findings += rows(evidence, {group[n].title: group[n] for n in layers})
    for few, many in itertools.pairwise(layers):
        findings += better(evidence, DEPTHS["sphereface"][many], DEPTHS["sphereface"][few])
    for number in layers:
        findings += better(evidence, DEPTHS["sphereface"][number], DEPTHS["softmax"][number])

    def figure() -> Figure:
        lines = [curve(evidence, name, LAYERS, list(group.values()), "lfw") for name, group in DEPTHS.items()]
        panel = Panel("", "convolution and inner product layers", "accuracy on LFW, %", lines)
        return draw_panels([panel], width=5.2, height=3.4)

    measured = not any(evidence.stopped(setting) for setting in _ALL_DEPTHS)
    notes = [
        NOTE,
        "A rate of 0.05 with gradients clipped, at which softmax trains deeper networks, too. What softmax gains by "
        "depth the paper calls unsatisfactory, and soon saturated: its rows have no sentence.",
        *missing,
    ]
    return Outcome(findings=findings, figures={"fig6": figure} if measured else {}, notes=notes)


_BIASED = replace(SOFTMAX.but("softmax", *LIGHT), measure="biases")
_NEAR = 0.1
"""Times the deviation of the logits: a bias below is near zero."""


@experiment("sphereface/fig10", [_BIASED])
def biases(evidence: Evidence) -> Outcome:
    """Fig. 10: the biases of the last layer."""
    found = [record for record in evidence.records[_BIASED] if not record.stopped]
    by_seed = [record.arrays["bias"] / record.numbers["logit spread"] for record in found]
    shares = np.array([float((np.abs(bias) < _NEAR).mean()) for bias in by_seed])

    def histogram() -> Figure:
        bins = np.linspace(-1, 1, 81) * max(float(np.abs(bias).max()) for bias in by_seed)
        lines = [
            Line(f"seed {record.seed}", (bins[1:] + bins[:-1]) / 2, np.histogram(bias, bins)[0])
            for record, bias in zip(found, by_seed, strict=True)
        ]
        panel = Panel("softmax, 560 people", "bias over the deviation of the logits", "people", lines)
        return draw_panels([panel], width=5.2, height=3.4)

    claim = evidence.judged(
        over_seeds(shares - 0.5),
        f"{', '.join(f'{100 * share:.1f} %' for share in shares)} of the biases, by seed",
        (_BIASED,),
        note=f"most: more than half; near zero: below {_NEAR:g} of the deviation of the logits",
    )
    widest = ", ".join(f"{float(bias.std()):.3f}" for bias in by_seed)
    what = "deviation of the biases over that of the logits, by seed"
    rows_ = [Finding(what=what, ours=widest or NOT_MEASURED, measured=bool(widest))]
    ends = [float(record.arrays["bias"].std()) for record in found]
    how = "Biases start as those of torch's linear layer, evenly within 1 / sqrt(512) of zero, a deviation of 0.026" + (
        f"; after training it is {sum(ends) / len(ends):.3f}." if ends else "."
    )
    return Outcome(
        findings=[*rows_, claim], figures={"fig10": histogram} if found else {}, notes=[NOTE, LIGHT_NOTE, how]
    )
