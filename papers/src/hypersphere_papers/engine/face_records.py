"""Settings that train on real faces, and how their records are shown and judged."""

from __future__ import annotations

from collections.abc import Mapping

from hypersphere_papers.engine.evidence import Evidence
from hypersphere_papers.engine.outcome import Finding
from hypersphere_papers.engine.setting import Setting

SETS = {"lfw": "on LFW", "pairs": "on people held out"}
"""The two sets of pairs by the names of their decisions; settings were chosen on the second."""
NOTE = (
    "33,993 real faces of 5,741 people; [losses.md](../results/losses.md) has the recipe and what was tuned. SFNet-10 "
    "at 56 x 56, 24 epochs, unless a row says otherwise; tested on LFW's 6,000 pairs and on 30,000 pairs of 500 people "
    "held out of training. Of these each person counts alike, since one has 39 % of the pairs of one person; a "
    "sentence that pairs alone would decide otherwise is undecided. Gains are in points, with their interval over "
    "people and runs, and every seed's own."
)


def faces(title: str, head: str, *overrides: str) -> Setting:
    """A loss on real faces."""
    return Setting(title, (f"head.name={head}", *overrides), "verification", "faces")


def searched(setting: Setting) -> Setting:
    """The same, for what templates, distractors and trials say of its networks."""
    return setting.measured_by("searches")


def ranked(setting: Setting) -> Setting:
    """The same, for the similarities of pairs and for how its networks rank the people held out."""
    return setting.measured_by("rankings")


def with_margins(setting: Setting) -> Setting:
    """The same, for the similarities and sample margins of the images that its networks were trained on."""
    return setting.measured_by("margins")


_SLOW = "optimizer.lr=0.02"
"""The rate that was the best of three for losses whose prototypes start near zero."""
STEADY = ("optimizer.lr=0.05", "schedule.warmup=1.0", "optimizer.max_grad_norm=5.0")
"""A rate at which networks of every depth train, without batch normalisation: at 0.1 some runs end in no number."""
SOFTMAX = faces("softmax", "softmax")
A_SOFTMAX = {
    1: faces("A-Softmax, m = 1", "modified_softmax"),
    **{m: faces(f"A-Softmax, m = {m}", "sphereface", f"head.margin={m}") for m in (2, 3, 4)},
}
COSFACE = faces("CosFace", "cosface", _SLOW)
ARCFACE = faces("ArcFace", "arcface")
LM_SOFTMAX = faces("LM-Softmax", "lm_softmax", _SLOW)
SPHEREFACE_R = faces("SphereFace (R v0, m = 1.5)", "sphereface_r")
SPHEREFACE2 = faces("SphereFace2", "sphereface2")

_TINY = "data.size=[16,16]"
LIGHT_PEOPLE = ("data.most_images=560", _TINY)
HUNDRED_PEOPLE = ("data.most_images=100", _TINY, "backbone.name=sfnet4")
LIGHT = (*LIGHT_PEOPLE, "backbone.name=sfnet4")
"""SFNet-4 at 16 x 16 on the 560 people with most images: a run takes two minutes of a CPU's core, and fits."""
_LIGHT_SIZE = "SFNet-4 at 16 x 16, trained on the 560 people with most images (at least 10 each, 13,941 in all)."
LIGHT_NOTE = f"The runs of this item are small enough for a CPU: {_LIGHT_SIZE}"
SMALL_NOTE = f"Small: {_LIGHT_SIZE}"
"""For items whose other runs are larger."""
SMALL = (
    "data.most_images=200",
    "data.size=[16,16]",
    "backbone.name=sfnet4",
    "train.epochs=16.0",
    "schedule.milestones=[10,14]",
    "train.precision=float32",
    "train.log_every=10",
)
"""SFNet-4 at 16 x 16 on 200 people, which a CPU trains: for sentences about whether a loss can be trained at all."""


def ampface(margin: float) -> Setting:
    """AmpFace at s = 30."""
    return faces(f"m0 = {margin:g}", "ampface", f"head.margin={margin}", _SLOW)


def better(
    evidence: Evidence, better: Setting, worse: Setting, *, sentence: str = "", equal: bool = False
) -> list[Finding]:
    """That one setting is better than another (or no worse), on each of the two sets of pairs."""
    said = sentence or f"{better.title} is {'at least as good as' if equal else 'better than'} {worse.title}"
    return [
        evidence.better(better, worse, outcome, sentence=f"{said}, {where}", equal=equal)
        for outcome, where in SETS.items()
    ]


def on_record(evidence: Evidence, settings: Mapping[str, Setting]) -> tuple[dict[str, Setting], list[str]]:
    """The settings of which a run is on record, and a note that names the others; all, where there is none at all."""
    known = {row: setting for row, setting in settings.items() if evidence.records[setting]} or dict(settings)
    others = ", ".join(row for row in settings if row not in known)
    return known, [f"Not on record yet: {others}."] if others else []


def rows(evidence: Evidence, settings: Mapping[str, Setting], column: str = "") -> list[Finding]:
    """Accuracy of settings on the two sets of pairs; beside that on LFW the paper's number of a row and column."""
    found = []
    for row, setting in settings.items():
        printed = evidence.printed(row, column) if column else evidence.unprinted(row)
        found.append(evidence.row(setting, "lfw", paper=printed))
        found.append(evidence.row(setting, "pairs", data="held-out people"))
    return found
