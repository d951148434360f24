"""Largest Margins on MNIST: the lengths of prototypes (Fig. 1), and the MNIST columns of Tables 1 and 5."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hypersphere.plots import Line, Panel, draw_panels
from hypersphere.reproduce.experiment.digits import digits, steps_of_epochs
from hypersphere.reproduce.experiment.evidence import Evidence, experiment
from hypersphere.reproduce.experiment.setting import Setting
from hypersphere.reproduce.experiment.verdict import over_seeds
from hypersphere.reproduce.job import Job
from hypersphere.reproduce.outcome import Finding, Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BATCH = 256
_PAPER_EPOCHS = 100
_LENGTH_EPOCHS, _TABLE_EPOCHS = 2, 1
_METRICS = {"MNIST acc": ("accuracy", 2), "MNIST m_cls": ("class margin", 2), "MNIST m_samp": ("sample margin", 4)}
"""Columns of the tables, what of a record they are, and digits."""
_LOSSES = {"CosFace": "cosface", "ArcFace": "arcface", "NormFace": "normface"}


def _lengths(job: Job) -> list[Setting]:
    steps = steps_of_epochs(job, _BATCH, job.epochs or _LENGTH_EPOCHS)
    return [digits(job, "softmax", "softmax", steps=steps, measure="lengths")]


@experiment("largest-margins/fig1", _lengths)
def norm_ratio(evidence: Evidence) -> Outcome:
    """Fig. 1, its MNIST curve: the ratio of the longest to the shortest prototype."""
    job, (setting,) = evidence.job, evidence.records
    epochs = job.epochs or _LENGTH_EPOCHS
    each = steps_of_epochs(job, _BATCH, epochs) // epochs
    ratios = [record.arrays.get("lengths", np.full(1, np.nan)) for record in evidence.records[setting]]
    ends = [values[each - 1 :: each] for values in ratios]
    above = max(int(np.flatnonzero(values >= 1.3)[-1]) + 1 if (values >= 1.3).any() else 0 for values in ratios)
    findings = [
        evidence.judged(
            over_seeds([1.3 - values.max() for values in ends]),
            "; ".join(", ".join(f"{value:.3f}" for value in values) for values in ends),
            (setting,),
            sentence="at the end of every epoch the longest prototype is below 1.3 times the shortest",
        ),
        evidence.judged(
            over_seeds([1.3 - values.max() for values in ratios]),
            f"at most {max(values.max() for values in ratios):.3f}",
            (setting,),
            sentence="so it is after every step",
            note=f"above it until step {above}; an epoch has {each}" if above else "",
        ),
    ]
    note = f"The 4-layer CNN with 128-D features, {epochs} epochs ({_PAPER_EPOCHS} in the paper), softmax with bias."
    figures = {"fig1": lambda: _draw_ratios(dict(zip(job.seeds, ratios, strict=True)), each)}
    return Outcome(findings=findings, figures=figures, notes=[note])


def _draw_ratios(ratios: Mapping[int, np.ndarray], each: int) -> Figure:
    """Longest over shortest prototype by epoch, one line a seed."""
    lines = [
        Line(f"seed {seed}", np.arange(1, len(values) + 1) / each, values, ("-", "--", ":")[seed % 3])
        for seed, values in ratios.items()
    ]
    panel = Panel("MNIST, softmax", "epoch", "longest / shortest prototype", lines, y_range=(1.0, None))
    return draw_panels([panel], width=4.8, height=3.4)


@dataclass(frozen=True)
class Row:
    """A row of the tables; margins are those of App. C.2.

    Args:
        loss: as the paper calls it, `CE` or one of `_LOSSES`; nothing for R_sm alone.
        scale: s; None of CE and of R_sm alone.
        weight: of R_sm.
    """

    loss: str
    scale: int | None = None
    weight: float = 0.0

    @property
    def title(self) -> str:
        """`CosFace (s = 20) + 0.5 R_sm`, as the catalogue calls it."""
        loss = self.loss if self.scale is None else f"{self.loss} (s = {self.scale})"
        added = "" if not self.weight else "R_sm" if self.weight == 1 else f"{self.weight:g} R_sm"
        return " + ".join(part for part in (loss, added) if part)

    def setting(self, job: Job, steps: int) -> Setting:
        """What is trained."""
        if not self.loss:
            return digits(job, self.title, "sample_margin", steps=steps)
        scale = () if self.scale is None else (f"head.scale={float(self.scale)}",)
        added = (f"head.add.sample_margin.weight={self.weight}",) if self.weight else ()
        return digits(job, self.title, _LOSSES.get(self.loss, "softmax"), *scale, *added, steps=steps)


ROWS = {
    row.title: row
    for row in (
        Row("", weight=1.0),
        *(Row("CE", weight=weight) for weight in (0.0, 0.5)),
        *(Row(loss, s, weight) for loss in _LOSSES for s in (5, 10, 20, 40, 64) for weight in (0.0, 0.5, 1.0)),
    )
}
"""By title."""


def _rows(job: Job) -> list[Setting]:
    steps = steps_of_epochs(job, _BATCH, job.epochs or _TABLE_EPOCHS)
    return [ROWS[title].setting(job, steps) for title in job.entry.rows]


@experiment("largest-margins/table1", _rows)
@experiment("largest-margins/table5", _rows)
def margins(evidence: Evidence) -> Outcome:
    """Every row of the table, on MNIST: accuracy, class margin and mean sample margin."""
    job = evidence.job
    epochs = job.epochs or _TABLE_EPOCHS
    measured = {setting.title: setting for setting in evidence.records}
    findings = [
        evidence.value(f"{title}, {column}", setting, metric, digits=places)
        for title, setting in measured.items()
        for column, (metric, places) in _METRICS.items()
    ]
    notes = [
        f"The 4-layer CNN with 128-D features (the paper does not print the width), {epochs} of the paper's "
        f"{_PAPER_EPOCHS} epochs, no augmentation; the sample margins are of test images, by cosines."
    ]
    figures = {job.entry.id.split("/")[1]: lambda: _draw(evidence, measured)}
    return Outcome(findings=[*_claims(evidence, measured, epochs), *findings], figures=figures, notes=notes)


def _claims(evidence: Evidence, measured: Mapping[str, Setting], epochs: int) -> list[Finding]:
    def mean(row: Row, metric: str) -> float:
        return evidence.mean(measured[row.title], metric)

    rows = [ROWS[title] for title in measured]
    pairs = [(row, more) for row in rows if not row.weight for more in rows if more == Row(row.loss, row.scale, 0.5)]
    raised = {name: sum(mean(more, name) > mean(row, name) for row, more in pairs) for name, _ in _METRICS.values()}
    falls = []
    for loss in _LOSSES:
        own = [mean(row, "class margin") for row in rows if row.loss == loss and not row.weight]
        falls.append(all(first > second for first, second in itertools.pairwise(own)))
    short = f"; after {epochs} of the paper's {_PAPER_EPOCHS} epochs" if epochs < _PAPER_EPOCHS else ""
    sentences = {
        "0.5 R_sm raises the class margin of every loss": f"{raised['class margin']} of {len(pairs)}",
        "0.5 R_sm raises the sample margin of every loss": f"{raised['sample margin']} of {len(pairs)}",
        "0.5 R_sm raises the accuracy in most cases": f"{raised['accuracy']} of {len(pairs)}",
        "without it the class margin falls as s grows": f"{sum(falls)} of {len(falls)} losses",
    }
    settings: Sequence[Setting] = list(measured.values())
    return [
        evidence.judged(None, ours, settings, sentence=sentence, note=f"no interval: a count{short}")
        for sentence, ours in sentences.items()
    ]


def _draw(evidence: Evidence, measured: Mapping[str, Setting]) -> Figure:
    panels = []
    for metric, label in (("class margin", "class margin (degrees)"), ("sample margin", "mean sample margin")):
        lines = []
        for loss in _LOSSES:
            for weight, style in ((0.0, "-"), (0.5, "--")):
                rows = [row for title in measured if (row := ROWS[title]).loss == loss and row.weight == weight]
                scales = [float(row.scale or 0) for row in rows]
                values = [evidence.mean(measured[row.title], metric) for row in rows]
                lines.append(Line(f"{loss}{' + 0.5 R_sm' if weight else ''}", scales, values, style))
        panels.append(Panel(f"MNIST: {label}", "scale s", label, lines))
    return draw_panels(panels, width=4.6, height=3.6)
