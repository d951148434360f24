"""Findings about searches: what stands in the place of IJB, MegaFace and BLUFR, and how runs compare in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hypersphere.plots import Line, Panel, draw_panels
from hypersphere_papers.engine.evidence import Evidence
from hypersphere_papers.engine.face_searches import CURVE_FARS, HELD_OUT, LFW, RANKS
from hypersphere_papers.engine.outcome import Finding
from hypersphere_papers.engine.record import Record
from hypersphere_papers.engine.setting import Setting
from hypersphere_papers.engine.verdict import FITTED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLACES = {HELD_OUT: "of people held out", LFW: "of people of LFW"}
"""How sentences name the people of a search."""
_RUNS = (
    "Measured at the end of runs of their own by the recipe of [losses.md](../results/losses.md): 33,993 real faces of "
    "5,741 people, SFNet-10 at 56 x 56, 24 epochs, unless a row says otherwise. Settings were chosen on the pairs of "
    "the people held out. Gains are in points, with their interval over people and runs, thresholds held, and every "
    "seed's own."
)
TEMPLATES = (
    f"{_RUNS} IJB is not at hand: the two templates of a person are every second image, pooled, of the 500 people held "
    "out (in the place of IJB-B) and of the 1,559 people of LFW who have two images among those of its pairs (IJB-C). "
    "1:1 has all pairs of a first and a second template; for 1:N each half of the people is a gallery and the other "
    "half has no mate in it. A rate that so few people cannot measure is left out."
)
DISTRACTORS = (
    f"{_RUNS} MegaFace is not at hand: every image of a person is searched by every other one of the same person among "
    "the 7,701 images of LFW (people held out) or the images of the people held out (LFW). People count alike, however "
    "many images they have."
)
TRIALS = (
    f"{_RUNS} BLUFR's lists are not at hand, and of LFW the 7,701 images of its pairs are: ten trials are drawn, each "
    "with three quarters of the people, half of those with two images enrolled with one. People count alike."
)


def search_rows(
    evidence: Evidence, table: Mapping[str, Setting], columns: Mapping[str, str], people: Sequence[str]
) -> list[Finding]:
    """A row of every setting, measure and set of people that is on record.

    Args:
        evidence: of the item.
        table: settings by the paper's row.
        columns: by measure, the paper's column; nothing where it has none.
        people: of `PLACES`.
    """
    found = []
    for row, setting in table.items():
        for name, column in columns.items():
            for who in people:
                known = column and who == people[0]
                printed = evidence.printed(row, column) if known else evidence.unprinted(row)
                found.append(evidence.row(setting, f"{name}, {who}", data=PLACES[who], paper=printed))
    return found


def search_better(
    evidence: Evidence,
    better: Setting,
    worse: Setting,
    names: Sequence[str],
    people: Sequence[str],
    *,
    equal: bool = False,
    sentence: str = "",
) -> list[Finding]:
    """That one setting is better than another (or no worse) by every measure, for every set of people."""
    said = sentence or f"{better.title} is {'at least as good as' if equal else 'better than'} {worse.title}"
    return [
        evidence.better(better, worse, f"{name}, {who}", sentence=f"{said}: {name} {PLACES[who]}", equal=equal)
        for name in names
        for who in people
    ]


def draw_search_curves(
    evidence: Evidence, settings: Sequence[Setting], people: Sequence[str], *, cmc: bool, roc: str
) -> Figure:
    """CMC curves and ROC curves, a panel of each for every set of people.

    Args:
        evidence: of the item.
        settings: a line each, the mean over the seeds that trained; those that did not fit are left out.
        people: of `PLACES`.
        cmc: whether there are panels of the CMC.
        roc: the array with the curve, `template ROC` or `distractor ROC`; of templates from a FAR of 1e-4 on.
    """
    first = CURVE_FARS.index(1e-4) if roc == "template ROC" else 0
    known = [setting for setting in settings if _trained(evidence, setting)]
    panels = []
    for who in people:
        if cmc:
            lines = [_line(evidence, setting, f"CMC, {who}", range(1, RANKS + 1)) for setting in known]
            panels.append(Panel(PLACES[who], "rank", "found, %", lines))
        lines = [_line(evidence, setting, f"{roc}, {who}", CURVE_FARS, first) for setting in known]
        panels.append(Panel(PLACES[who], "FAR", "TAR, %", lines, log_x=True))
    return draw_panels(panels, columns=2, width=4.4)


def _trained(evidence: Evidence, setting: Setting) -> list[Record]:
    """The runs of a setting that trained and fitted their images."""
    records = [record for record in evidence.records[setting] if not record.stopped]
    return [record for record in records if record.numbers["train accuracy"] >= FITTED]


def _line(evidence: Evidence, setting: Setting, name: str, x: Sequence[float], first: int = 0) -> Line:
    records = _trained(evidence, setting)
    values = 100 * np.mean([record.arrays[name] for record in records], axis=0)
    few = "" if len(records) == len(evidence.job.seeds) else f" ({len(records)} of {len(evidence.job.seeds)} seeds)"
    return Line(f"{setting.title}{few}", x[first : len(values)], values[first:])
