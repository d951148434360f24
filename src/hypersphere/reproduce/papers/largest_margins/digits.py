"""Largest Margins Tables 1 and 5, their MNIST columns: accuracy, class margin and mean sample margin."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hypersphere.core import Reporter
from hypersphere.geometry import class_margin, sample_margins
from hypersphere.plots import Line, Panel, draw_panels
from hypersphere.reproduce.experiment.digits import seconds_a_step, train_digits
from hypersphere.reproduce.experiment.verdict import over_seeds
from hypersphere.reproduce.job import Job, item
from hypersphere.reproduce.outcome import Finding, Outcome
from hypersphere.reproduce.papers.sphereface.digits import mnist

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPOCHS = 1
_BATCH = 256
_PAPER_EPOCHS = 100
_METRICS = ("MNIST acc", "MNIST m_cls", "MNIST m_samp")
_NAMES = {"CE": "softmax", "CosFace": "cosface", "ArcFace": "arcface", "NormFace": "normface"}
_ROW = re.compile(
    r"(?P<loss>CE|CosFace|ArcFace|NormFace)?(?: \(s = (?P<scale>\d+)\))?(?: ?\+? ?(?P<weight>0\.5 )?(?P<regular>R_sm))?"
)
_MEASURED: dict[tuple[Path, str, int, int], tuple[float, float, float]] = {}


def setting(row: str) -> tuple[str, dict[str, Any]]:
    """The loss and its options of a row such as `CosFace (s = 20) + 0.5 R_sm`; margins as in App. C.2."""
    match = _ROW.fullmatch(row)
    if match is None or not (match["loss"] or match["regular"]):
        raise ValueError(f"{row!r} is no row of Table 5")
    weight = {None: 1.0, "0.5 ": 0.5}[match["weight"]] if match["regular"] else 0.0
    if match["loss"] is None:
        return "sample_margin", {}
    options: dict[str, Any] = {} if match["loss"] == "CE" else {"scale": float(match["scale"])}
    if match["loss"] in ("CosFace", "ArcFace"):
        options["margin"] = 0.1
    if match["loss"] == "NormFace":
        options["learnable_scale"] = False
    if weight:
        options["add"] = {"sample_margin": {"weight": weight}}
    return _NAMES[match["loss"]], options


def _measure(data: Path, row: str, epochs: int, seed: int, progress: Reporter) -> tuple[float, float, float]:
    """Test accuracy in per cent, class margin in degrees and mean sample margin of one row."""
    train, test = mnist(data)
    loss, options = setting(row)
    trained = train_digits(
        train, loss, epochs=epochs, dim=128, options=options, batch_size=_BATCH, seed=seed, progress=progress
    )
    weight = trained.head.weight.detach()
    features = trained.features(test)
    margins = sample_margins(features, weight, test.labels)
    right = margins > 0
    if loss == "softmax":
        logits = features @ weight.T + trained.bias()
        right = logits.argmax(1) == test.labels
    return 100 * float(right.double().mean()), math.degrees(float(class_margin(weight))), float(margins.mean())


def _train_rows(job: Job, epochs: int) -> None:
    """Train and measure the rows of the table with every seed, where another table has not done so before."""
    assert job.data is not None
    wanted = [(job.data, row, epochs, seed) for row in job.entry.rows for seed in job.seeds]
    left = [run for run in wanted if run not in _MEASURED]
    if not left:
        return
    train, _ = mnist(job.data)
    loss, options = setting(left[0][1])

    def measure() -> float:
        return seconds_a_step(train, loss, dim=128, options=options, batch_size=_BATCH)

    with job.training(len(left), epochs * (len(train.labels) // _BATCH), measure) as part:
        for number, run in enumerate(left):
            _MEASURED[run] = _measure(*run, part(number))


@item("largest-margins/table1", "largest-margins/table5")
def margins(job: Job) -> Outcome:
    """Every row of the table, on MNIST."""
    assert job.data is not None
    epochs = job.epochs or EPOCHS
    _train_rows(job, epochs)
    measured: dict[str, tuple[float, float, float]] = {}
    for row in job.entry.rows:
        found = [_MEASURED[job.data, row, epochs, seed] for seed in job.seeds]
        measured[row] = tuple(sum(column) / len(found) for column in zip(*found, strict=True))
    findings = [
        job.value(f"{row}, {metric}", ours, digits=(2, 2, 4)[place])
        for row, values in measured.items()
        for place, (metric, ours) in enumerate(zip(_METRICS, values, strict=True))
    ]
    short = f"after {epochs} of the paper's {_PAPER_EPOCHS} epochs" if epochs < _PAPER_EPOCHS else ""
    notes = [
        f"The 4-layer CNN with 128-D features (the paper does not print the width), {epochs} of the paper's "
        f"{_PAPER_EPOCHS} epochs, no augmentation; the sample margins are of test images, by cosines."
    ]
    return Outcome(
        findings=[*(replace(claim, note=short) for claim in _claims(job, measured)), *findings],
        figures={job.entry.id.split("/")[1]: lambda: _draw(measured)},
        notes=notes,
    )


def _claims(job: Job, measured: dict[str, tuple[float, float, float]]) -> list[Finding]:
    pairs = [(row, f"{row} + 0.5 R_sm") for row in measured if f"{row} + 0.5 R_sm" in measured]
    wider = [row for row, more in pairs if measured[more][1] > measured[row][1]]
    deeper = [row for row, more in pairs if measured[more][2] > measured[row][2]]
    better = [row for row, more in pairs if measured[more][0] > measured[row][0]]
    falls = []
    for name in ("CosFace", "ArcFace", "NormFace"):
        margins_ = [values[1] for row, values in measured.items() if re.fullmatch(rf"{name} \(s = \d+\)", row)]
        falls.append(all(first > second for first, second in itertools.pairwise(margins_)))
    count = len(pairs)
    return [
        job.judged(None, f"{len(wider)} of {count}", sentence="0.5 R_sm raises the class margin of every loss"),
        job.judged(None, f"{len(deeper)} of {count}", sentence="0.5 R_sm raises the sample margin of every loss"),
        job.judged(None, f"{len(better)} of {count}", sentence="0.5 R_sm raises the accuracy in most cases"),
        job.judged(None, f"{sum(falls)} of 3 losses", sentence="without it the class margin falls as s grows"),
    ]


def _draw(measured: dict[str, tuple[float, float, float]]) -> Any:
    panels = []
    for place, title in ((1, "class margin (degrees)"), (2, "mean sample margin")):
        lines = []
        for name in ("CosFace", "ArcFace", "NormFace"):
            for more, style in (("", "-"), (" + 0.5 R_sm", "--")):
                points = [
                    (float(match[1]), values[place])
                    for row, values in measured.items()
                    if (match := re.fullmatch(rf"{name} \(s = (\d+)\){re.escape(more)}", row))
                ]
                lines.append(Line(f"{name}{more}", [x for x, _ in points], [y for _, y in points], style))
        panels.append(Panel(f"MNIST: {title}", "scale s", title, lines))
    return draw_panels(panels, width=4.6, height=3.6)


def _draw_ratios(ratios: dict[int, list[float]], each: int) -> Figure:
    """Longest over shortest prototype by epoch, one line a seed."""
    lines = [
        Line(f"seed {seed}", np.arange(1, len(values) + 1) / each, values, ("-", "--", ":")[seed % 3])
        for seed, values in ratios.items()
    ]
    panel = Panel("MNIST, softmax", "epoch", "longest / shortest prototype", lines, y_range=(1.0, None))
    return draw_panels([panel], width=4.8, height=3.4)


@item("largest-margins/fig1")
def norm_ratio(job: Job) -> Outcome:
    """Largest Margins Fig. 1, its MNIST curve: the ratio of the longest to the shortest prototype."""
    train, _ = mnist(job.data)
    ratios: dict[int, list[float]] = {seed: [] for seed in job.seeds}
    epochs, each = job.epochs or EPOCHS, len(train.labels) // _BATCH

    def measure() -> float:
        return seconds_a_step(train, "softmax", dim=128, batch_size=_BATCH)

    with job.training(len(ratios), epochs * each, measure) as part:
        for number, (seed, values) in enumerate(ratios.items()):

            def watch(step: int, head: Any, values: list[float] = values) -> None:
                lengths = head.weight.detach().norm(dim=1)
                values.append(float(lengths.max() / lengths.min()))

            train_digits(
                train,
                "softmax",
                epochs=epochs,
                dim=128,
                batch_size=_BATCH,
                seed=seed,
                progress=part(number),
                watch=watch,
            )
    ends = [values[each - 1 :: each] for values in ratios.values()]
    above = max(
        (step + 1 for values in ratios.values() for step, value in enumerate(values) if value >= 1.3), default=0
    )
    findings = [
        job.judged(
            over_seeds([1.3 - max(values) for values in ends]),
            "; ".join(", ".join(f"{value:.3f}" for value in values) for values in ends),
            sentence="at the end of every epoch the longest prototype is below 1.3 times the shortest",
        ),
        job.judged(
            over_seeds([1.3 - max(values) for values in ratios.values()]),
            f"at most {max(max(values) for values in ratios.values()):.3f}",
            sentence="so it is after every step",
            note=f"above it until step {above}; an epoch has {each}" if above else "",
        ),
    ]
    note = f"The 4-layer CNN with 128-D features, {job.epochs or EPOCHS} epochs (100 in the paper), softmax with bias."
    return Outcome(findings=findings, figures={"fig1": lambda: _draw_ratios(ratios, each)}, notes=[note])
