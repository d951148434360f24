"""Largest Margins on MNIST and balanced CIFAR-10: the lengths of prototypes (Fig. 1), and Tables 1 and 5."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hypersphere.plots import Line, Panel, draw_panels
from hypersphere_papers.engine.digits import digits, epochs_of, steps_of_epochs
from hypersphere_papers.engine.evidence import Evidence, experiment
from hypersphere_papers.engine.job import Job
from hypersphere_papers.engine.objects import EPOCH_STEPS, LIGHT_NOTE, NOTE, balanced, measured
from hypersphere_papers.engine.outcome import Finding, Outcome
from hypersphere_papers.engine.record_folder import is_record_folder
from hypersphere_papers.engine.setting import SMALL, Setting
from hypersphere_papers.engine.verdict import Verdict, every, most, over_seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BATCH = 256
_PAPER_EPOCHS, _ENOUGH_EPOCHS = 100, 20
"""After the second, every training image is right and the rate has fallen to 0: claims are judged from there on."""
_LENGTH_EPOCHS, _TABLE_EPOCHS = 2, 1
_METRICS = {"acc": ("accuracy", 2), "m_cls": ("class margin", 2), "m_samp": ("sample margin", 4)}
"""Columns of the tables, what of a record they are, and digits."""
_LOSSES = {"CosFace": "cosface", "ArcFace": "arcface", "NormFace": "normface"}


@dataclass(frozen=True)
class _Group:
    """Rows on one data set by networks of one size.

    Args:
        data: of their settings.
        name: of the data in the tables.
        figure: how their figure is called; nothing: as the item.
        small: whether they are small.
        note: how they were trained.
    """

    data: str
    name: str
    figure: str = ""
    small: bool = False
    note: str = ""

    @property
    def title(self) -> str:
        """`small: CIFAR-10`."""
        return f"{SMALL if self.small else ''}{self.name}"


_GROUPS = (
    _Group("mnist", "MNIST"),
    _Group("cifar10", "CIFAR-10", "cifar", note=NOTE),
    _Group("cifar10", "CIFAR-10", "small", small=True, note=LIGHT_NOTE),
)


def _lengths(job: Job) -> list[Setting]:
    steps = steps_of_epochs(job, _BATCH, epochs_of(job) or _LENGTH_EPOCHS)
    settings = [digits(job, "MNIST", "softmax", steps=steps, measure="lengths")]
    if is_record_folder(job.data):
        settings.append(balanced(replace(job, epochs=None), "CIFAR-10", "softmax", measure="lengths"))
    return settings


@experiment("largest-margins/fig1", _lengths)
def norm_ratio(evidence: Evidence) -> Outcome:
    """Fig. 1, its curves of MNIST and CIFAR-10: the ratio of the longest to the shortest prototype."""
    epochs = epochs_of(evidence.job) or _LENGTH_EPOCHS
    findings: list[Finding] = []
    panels: list[Panel] = []
    for setting in [setting for setting, found in evidence.records.items() if found]:
        own = evidence.on(setting.data)
        each = steps_of_epochs(own.job, _BATCH, epochs) // epochs if setting.data == "mnist" else EPOCH_STEPS
        ratios = [record.arrays.get("lengths", np.full(each, np.nan)) for record in own.records[setting]]
        ends = [values[each - 1 :: each] for values in ratios]
        above = max((int(np.flatnonzero(v >= 1.3)[-1]) + 1 for v in ratios if (v >= 1.3).any()), default=0)
        highest = ", ".join(f"{values.max():.3f}" for values in ends)
        said = f"{setting.title}: at the end of every epoch the longest prototype is below 1.3 times the shortest"
        judged = [
            own.judged(
                over_seeds([1.3 - values.max() for values in ends]),
                f"the highest of every seed: {highest}",
                (setting,),
                sentence=said,
                note=f"in {len(ends[0])} epochs" if ends else "",
            ),
            own.judged(
                over_seeds([1.3 - values.max() for values in ratios]),
                f"at most {max((float(values.max()) for values in ratios), default=math.nan):.3f}",
                (setting,),
                sentence=f"{setting.title}: so it is after every step",
                note=f"above it until step {above}; an epoch has {each}" if above else "",
            ),
        ]
        findings += [replace(found, row=setting.title) for found in judged]
        panels.append(_ratios(setting.title, dict(zip(own.job.seeds, ratios, strict=True)), each))
    notes = [
        f"MNIST: the 4-layer CNN with 128-D features, {epochs} epochs ({_PAPER_EPOCHS} in the paper), softmax.",
        *([NOTE] if len(panels) > 1 else []),
    ]
    return Outcome(findings=findings, figures={"fig1": lambda: draw_panels(panels, width=4.8, height=3.4)}, notes=notes)


def _ratios(title: str, ratios: Mapping[int, np.ndarray], each: int) -> Panel:
    """Longest over shortest prototype by epoch, one line a seed."""
    lines = [
        Line(f"seed {seed}", np.arange(1, len(values) + 1) / each, values, ("-", "--", ":")[seed % 3])
        for seed, values in ratios.items()
    ]
    return Panel(f"{title}, softmax", "epoch", "longest / shortest prototype", lines, y_range=(1.0, None))


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

    def digits(self, job: Job, steps: int) -> Setting:
        """What is trained on MNIST."""
        return digits(job, self.title, *self._head(), steps=steps)

    def objects(self, job: Job, *, light: bool = False) -> Setting:
        """What is trained on CIFAR-10; `light`: at the size that a CPU trains."""
        return balanced(replace(job, epochs=None), self.title, *self._head(), light=light)

    def _head(self) -> tuple[str, *tuple[str, ...]]:
        """The loss, and its settings."""
        if not self.loss:
            return ("sample_margin",)
        scale = () if self.scale is None else (f"head.scale={float(self.scale)}",)
        added = (f"head.add.sample_margin.weight={self.weight}",) if self.weight else ()
        return _LOSSES.get(self.loss, "softmax"), *scale, *added


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
    steps = steps_of_epochs(job, _BATCH, epochs_of(job) or _TABLE_EPOCHS)
    settings = [ROWS[title].digits(job, steps) for title in job.entry.rows]
    if not is_record_folder(job.data):
        return settings
    settings += [ROWS[title].objects(job) for title in job.entry.rows]
    if job.entry.id == "largest-margins/table1":  # the other rows of Table 5 were not trained at this size
        settings += [ROWS[title].objects(job, light=True) for title in job.entry.rows]
    return settings


@experiment("largest-margins/table1", _rows)
@experiment("largest-margins/table5", _rows)
def margins(evidence: Evidence) -> Outcome:
    """The rows of the table on MNIST and CIFAR-10: accuracy, class margin and mean sample margin."""
    job = evidence.job
    epochs, label = epochs_of(job) or _TABLE_EPOCHS, job.entry.id.split("/")[1]
    claims: list[Finding] = []
    rows: list[Finding] = []
    figures, notes = {}, []
    for group in _GROUPS:
        own = evidence.on(group.data)
        found = {
            setting.name: setting
            for setting, records in own.records.items()
            if records and setting.small == group.small
        }
        if not found:
            continue
        left = f"{len(found)} of {len(job.entry.rows)} rows were trained" if len(found) < len(job.entry.rows) else ""
        short = f"after {epochs} of the paper's {_PAPER_EPOCHS} epochs" if epochs < _ENOUGH_EPOCHS else ""
        claims += _claims(own, found, group, left or (short if group.data == "mnist" else ""))
        for title, setting in found.items():
            for column, (metric, places) in _METRICS.items():
                if group.small:
                    paper = evidence.printed(title, f"{group.name} {column}")
                    rows.append(own.row(setting, measured(metric, group.small), paper=paper))
                else:
                    rows.append(own.value(f"{title}, {group.name} {column}", setting, metric, digits=places))
        notes += [group.note] if group.note else []
        notes += [f"{group.title}: {left}."] if left else []
        if any(len(_at_scales(found, loss, 0.0)) > 1 for loss in _LOSSES):
            figures[group.figure or label] = functools.partial(_draw, own, found, group)
    mnist = (
        f"MNIST: the 4-layer CNN with 128-D features (the paper does not print the width), {epochs} of the paper's "
        f"{_PAPER_EPOCHS} epochs, no augmentation; the sample margins are of test images, by cosines."
    )
    return Outcome(findings=[*claims, *rows], figures=figures, notes=[mnist, *notes])


def _claims(evidence: Evidence, found: Mapping[str, Setting], group: _Group, problem: str) -> list[Finding]:
    """What the paper says of its rows; undecided where these have a problem: too few, or trained too shortly."""
    rows = [ROWS[title] for title in found]
    pairs = [(row, more) for row in rows if not row.weight for more in rows if more == Row(row.loss, row.scale, 0.5)]
    verdicts: dict[str, dict[str, Verdict]] = {}
    for metric, _ in _METRICS.values():
        verdicts[metric] = {}
        for row, more in pairs:
            plain, added = found[row.title], found[more.title]
            if metric == "accuracy":
                gain = evidence.better(added, plain, "samples")
            else:
                gain = evidence.larger(measured(metric, group.small), added, plain)
            verdicts[metric][row.title] = gain.verdict or "undecided"
    falls: dict[str, Verdict] = {}
    for loss in _LOSSES:
        own = [found[row.title] for row in rows if row.loss == loss and not row.weight]
        values = np.array([evidence.values(setting, "class margin") for setting in own])
        if len(own) > 1:
            falls[loss] = evidence.judged(over_seeds(-np.diff(values, axis=0).max(0)), "", own).verdict or "undecided"
    sentences: list[tuple[str, Mapping[str, Verdict], Callable[[Sequence[Verdict]], Verdict]]] = [
        ("0.5 R_sm raises the class margin of every loss", verdicts["class margin"], every),
        ("0.5 R_sm raises the sample margin of every loss", verdicts["sample margin"], every),
        ("0.5 R_sm raises the accuracy in most cases", verdicts["accuracy"], most),
        ("without it the class margin falls as s grows", falls, every),
    ]
    return [
        Finding(
            what=f"{group.title}: {sentence}",
            ours=_counted(each),
            verdict="undecided" if problem else rule(list(each.values())),
            alone=rule(list(each.values())) if problem else None,
            note=problem or evidence.unfit(*found.values()),
            proxy=evidence.proxy([*found.values()]),
        )
        for sentence, each, rule in sentences
        if each
    ]


def _counted(found: Mapping[str, Verdict]) -> str:
    """`held in 7 of 9; contradicted: CE`."""
    text = f"held in {sum(verdict == 'held' for verdict in found.values())} of {len(found)}"
    for verdict in ("contradicted", "undecided"):
        names = [name for name, each in found.items() if each == verdict]
        text += f"; {verdict}: {', '.join(names)}" if names else ""
    return text


def _at_scales(found: Mapping[str, Setting], loss: str, weight: float) -> list[Row]:
    """The rows of a loss with so much of R_sm that were trained."""
    return [row for title in found if (row := ROWS[title]).loss == loss and row.weight == weight]


def _draw(evidence: Evidence, found: Mapping[str, Setting], group: _Group) -> Figure:
    panels = []
    for metric, label in (("class margin", "class margin (degrees)"), ("sample margin", "mean sample margin")):
        lines = []
        for loss in _LOSSES:
            for weight, style in ((0.0, "-"), (0.5, "--")):
                rows = _at_scales(found, loss, weight)
                if len(rows) < 2:
                    continue
                scales = [float(row.scale or 0) for row in rows]
                values = [evidence.mean(found[row.title], measured(metric, group.small)) for row in rows]
                lines.append(Line(f"{loss}{' + 0.5 R_sm' if weight else ''}", scales, values, style))
        panels.append(Panel(f"{group.title}: {label}", "scale s", label, lines))
    return draw_panels(panels, width=4.6, height=3.6)
