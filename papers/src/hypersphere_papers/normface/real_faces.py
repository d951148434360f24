"""NormFace on real faces: Tables 2, 3."""

from __future__ import annotations

import math

import numpy as np

from hypersphere.theory import softmax_bound
from hypersphere_papers.engine.drawings import draw_rows
from hypersphere_papers.engine.evidence import Evidence, experiment
from hypersphere_papers.engine.face_records import (
    A_SOFTMAX,
    LIGHT,
    NOTE,
    SMALL,
    SMALL_NOTE,
    SOFTMAX,
    better,
    faces,
    on_record,
    rows,
    searched,
)
from hypersphere_papers.engine.face_searches import LFW
from hypersphere_papers.engine.interval_text import difference
from hypersphere_papers.engine.outcome import NOT_MEASURED, Finding, Outcome
from hypersphere_papers.engine.search_findings import TRIALS, search_better, search_rows
from hypersphere_papers.engine.setting import Setting
from hypersphere_papers.engine.verdict import FITTED, exactly, over_seeds

_SECOND = ("second.train.epochs=8.0", "second.optimizer.lr=0.001")
_UNIT = ("prototype_norm=1.0", "renormalize=true")


_DISTANCES = ("second.head.loss_weight=15.0", "second.train.epochs=16.0", "second.schedule.milestones=[10,14]")
"""Under a loss of distances: its gradient is 2 where that of a softmax is s = 30. Without the weight prototypes do not
reach their classes in 8 epochs (fit 53 %), and the network hardly changes."""


def tuned(title: str, head: str, *options: str) -> Setting:
    """The softmax network of 24 epochs, fine-tuned for 8 more with another loss; options are of its head."""
    own = (f"second.head.name={head}", *(f"second.head.{option}" for option in options))
    fast = ("second.optimizer.prototype_lr_factor=100.0", "second.optimizer.prototype_weight_decay=0.0")
    return faces(title, "softmax", *_SECOND, *own, *fast)


def by_distances(title: str, head: str, *options: str) -> Setting:
    """The same with a loss of distances, prototypes of norm 1, and 16 epochs."""
    return tuned(title, head, *options, *_UNIT).but(title, *_DISTANCES)


_CENTER = faces("softmax + center", "softmax", "head.add={center={weight=0.003}}")
_WEN = ("backbone.name=resnet28",)
"""The paper's network, the only one of the two with dropout; in "softmax, ResNet-28" without."""
BOTH = tuned("softmax, both normalised", "normface", "scale=30.0", *_UNIT)
_TABLE = {
    "softmax, not normalised": SOFTMAX,
    "softmax, ResNet-28": SOFTMAX.but("softmax, ResNet-28", *_WEN),
    "softmax + dropout, not normalised": SOFTMAX.but("softmax + dropout, ResNet-28", *_WEN, "backbone.dropout=0.5"),
    "softmax + center, not normalised": _CENTER,
    "softmax, features normalised": tuned("features normalised", "normface", "normalize=embeddings", "scale=30.0"),
    "softmax, weights normalised": tuned("weights normalised", "normface", "normalize=prototypes", *_UNIT),
    "softmax, both": BOTH,
    "softmax + center, both": BOTH.but("both, + center", "second.head.add={center={weight=0.01,normalize=true}}"),
    "C-contrastive, both": by_distances("C-contrastive alone", "c_contrastive"),
    "C-triplet, both": by_distances("C-triplet", "c_triplet", "negatives=hardest"),
    "C-triplet + center, both": by_distances("C-triplet + center", "c_triplet", "negatives=hardest", "center=true"),
    "softmax + C-contrastive, both": BOTH.but("both, + C-contrastive", "second.head.add={c_contrastive={weight=0.01}}"),
}


_PLAIN, *_BESIDE = (
    _TABLE[row].but(_TABLE[row].name, *LIGHT, small=True)
    for row in ("softmax, not normalised", "softmax + center, both", "softmax + C-contrastive, both")
)
"""The losses of Fig. 8 and what they are tuned from, at the size of a CPU."""
_ALONE = faces("features normalised, from scratch", "normface", "head.normalize=embeddings")
_WEIGHTS = A_SOFTMAX[1].but("weights normalised, from scratch")
_SCALED = faces("s = 30", "normface", "head.scale=30.0", "head.learnable_scale=false", *SMALL)
_UNSCALED = _SCALED.but("s = 1", "head.scale=1.0")
_LENGTHS = (
    "where a seed did not learn, its embeddings, whose length the loss does not see, grew without end at a rate of 0.1 "
    "without a warm-up"
)
_CLASSES = 200
"""People whom the last two are trained on."""


@experiment("normface/table2", [*_TABLE.values(), _PLAIN, *_BESIDE, _WEIGHTS, _ALONE, _UNSCALED, _SCALED])
def fine_tuned(evidence: Evidence) -> Outcome:
    """Table 2: losses with and without normalisation; and what secs. 3.3 and 5.2 say of training from scratch."""
    _, missing = on_record(evidence, {**_TABLE, _ALONE.title: _ALONE})
    table, _ = on_record(evidence, _TABLE)
    findings, settings = [], list(table.values())
    for row, setting in table.items():
        findings += rows(evidence, {row: setting}, "accuracy" if row in evidence.job.entry.rows else "")
    for row, setting in table.items():
        if row.endswith(", both"):
            findings += better(evidence, setting, SOFTMAX, sentence=f"{row} is better than plain softmax")
    findings += rows(evidence, {setting.title: setting for setting in (_PLAIN, *_BESIDE)})
    for setting in _BESIDE:
        findings += better(evidence, setting, _PLAIN)
    findings += [*_from_scratch(evidence), *_low_range(evidence)]
    return Outcome(
        findings=findings,
        figures={"table2": lambda: draw_rows(evidence, settings, "lfw")},
        notes=[
            NOTE,
            SMALL_NOTE,
            "24 epochs of softmax, then 8 of the loss named at a rate of 0.001, prototypes of norm 1 at 100 times that "
            "rate, as in the paper's sec. 5.1; C-contrastive and C-triplet alone times 15, as their gradients are 15 "
            "times smaller than those of s = 30, and for 16 epochs; softmax and softmax + center are not tuned "
            "further. Softmax + dropout is the paper's ResNet-28, beside the same without: SFNet-10 has no dropout.",
            "Sec. 3.3: SFNet-4 at 16 x 16 on the 200 people with most images, s not learned.",
            *missing,
        ],
    )


def _from_scratch(evidence: Evidence) -> list[Finding]:
    """Sec. 5.2: from scratch, weights alone collapse, and features alone end between softmax and the others."""
    fits = evidence.values(_WEIGHTS, "train accuracy")
    said = "sec. 5.2: with the weights alone normalised, training from scratch collapses"
    text = "fits " + ", ".join(f"{fit:.1f}" for fit in fits[np.isfinite(fits)]) + " % of its training images"
    found = rows(evidence, {_WEIGHTS.title: _WEIGHTS})
    found.append(evidence.decided(exactly(bool((fits < FITTED).all())), text, [_WEIGHTS], sentence=said))
    if not evidence.records[_ALONE]:
        return found
    found += rows(evidence, {_ALONE.title: _ALONE})
    fits, lengths = (evidence.values(_ALONE, name) for name in ("train accuracy", "norm"))
    known = [f"{fit:.1f} %, {length:.2g}" for fit, length in zip(fits, lengths, strict=True) if np.isfinite(fit)]
    what = f"{_ALONE.title}: training images right, mean length of the embeddings, by seed"
    note = _LENGTHS if (fits < FITTED).any() else ""
    found.append(Finding(what=what, ours="; ".join(known) or NOT_MEASURED, note=note, measured=bool(known)))
    said = "sec. 5.2: with the features alone normalised, training from scratch is better than plain softmax"
    found += better(evidence, _ALONE, SOFTMAX, sentence=said)
    said = "sec. 5.2: it is worse than fine-tuning with both normalised"
    return found + better(evidence, BOTH, _ALONE, sentence=said)


def _low_range(evidence: Evidence) -> list[Finding]:
    """Sec. 3.3: with s = 1 the loss is trapped above the bound of Prop. 2, and a larger s frees it."""
    bound, guess = float(softmax_bound(_CLASSES, 1.0)), math.log(_CLASSES)
    first, last = (evidence.values(_UNSCALED, name) for name in ("first loss", "last loss"))
    trapped = evidence.decided(
        exactly(bool((last > bound).all())),
        f"{first.mean():.2f} to {last.mean():.2f}, bound {bound:.2f}, a guess {guess:.2f} (200 people; the paper's: "
        "9.27 to 8.50, bound 8.27, of 10,575)",
        [_UNSCALED],
        sentence="sec. 3.3: with s = 1 the loss is trapped above the bound of Prop. 2",
    )
    said = "sec. 3.3: with s = 30 more of the training images are fitted than with s = 1"
    if any(evidence.stopped(setting) for setting in (_UNSCALED, _SCALED)):
        return [trapped, evidence.judged(None, "", [_UNSCALED, _SCALED], sentence=said)]
    fits, trapped_fits = (evidence.values(setting, "train accuracy") for setting in (_SCALED, _UNSCALED))
    text = f"{fits.mean():.1f} and {trapped_fits.mean():.1f} %{difference(fits - trapped_fits, 1)}"
    why = "judged without asking that the runs fit: the sentence is about how much they do"
    return [trapped, evidence.job.judged(over_seeds(fits - trapped_fits), text, sentence=said, note=why)]


_BASELINE, _BEFORE = "ResNet, softmax + center, No", "softmax, No"
_TRIALS = {
    _BASELINE: searched(_CENTER),
    _BEFORE: searched(SOFTMAX),
    "ResNet, softmax, Yes": searched(BOTH),
    "ResNet, C-triplet + center, Yes": searched(_TABLE["C-triplet + center, both"]),
    "ResNet, softmax + C-contrastive, Yes": searched(_TABLE["softmax + C-contrastive, both"]),
}


@experiment("normface/table3", list(_TRIALS.values()))
def trials(evidence: Evidence) -> Outcome:
    """Table 3: trials as BLUFR's, with and without normalisation."""
    measures = {"VR at FAR 0.1 %": "TPR at FAR 0.1 %", "DIR at FAR 1 %": "DIR at FAR 1 %"}
    findings = []
    for row, setting in _TRIALS.items():
        columns = measures if row in evidence.job.entry.rows else dict.fromkeys(measures, "")
        findings += search_rows(evidence, {row: setting}, columns, [LFW])
    for row, setting in _TRIALS.items():
        for worse in (_BEFORE, _BASELINE) if row.endswith("Yes") else ():
            findings += search_better(evidence, setting, _TRIALS[worse], list(measures), [LFW])
    settings = list(_TRIALS.values())
    return Outcome(
        findings=findings,
        figures={"table3": lambda: draw_rows(evidence, settings, f"DIR at FAR 1 %, {LFW}", "DIR at FAR 1 %, %")},
        notes=[
            TRIALS,
            "24 epochs of softmax, then 8 (C-triplet: 16) of the loss named, as in Table 2: softmax is what was tuned. "
            "The paper tuned a softmax + center network, its first row, which here is another one. Without the paper's "
            "PCA; the rows of the MaxOut network are not run.",
        ],
    )
