"""The main comparison: twelve losses by one network at one size, at rates of one grid that other seeds have chosen.

`hypersphere reproduce --main-comparison --data FOLDER --seeds 3 --device cuda` trains it where the faces are at hand;
with `--list` it only says which runs are left.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from hypersphere.cli import Results, note
from hypersphere.core import Progress, check_integer, choose_device
from hypersphere_papers.engine.face_records import faces
from hypersphere_papers.engine.record import Record
from hypersphere_papers.engine.record_folder import RunFiles
from hypersphere_papers.engine.runs import gather_runs
from hypersphere_papers.engine.setting import Setting
from hypersphere_papers.engine.verdict import FITTED, gain_of

RATES = (0.1, 0.05, 0.02, 0.01)
CHOOSING_SEED = 9
"""Its runs choose the rate of each loss, by the people held out, and are judged by nothing."""
MINUTES_A_RUN = 6.0
"""Of one NVIDIA H200, as runs of IResNet-18 for 50 epochs on record took (docs/results/faces.md)."""
_HOW = (
    "data.size=[112,112]",
    "backbone.name=iresnet18",
    *(f"augment.{kind}=0.5" for kind in ("rotate", "zoom", "shift")),
    *(f"augment.{kind}=0.2" for kind in ("crop", "low_resolution", "photometric", "erase")),
    "augment.grey=0.05",
    "train.epochs=50.0",
    "schedule.milestones=[29,42]",
    "schedule.warmup=1.0",
    "optimizer.max_grad_norm=5.0",
    "train.ema=0.999",
)
_UNIT = "head.prototype_norm=1.0"
"""Prototypes of every loss that normalises them start from norm 1."""
CELLS = {
    setting.title: setting
    for setting in (
        faces("softmax", "softmax", *_HOW),
        faces("softmax + center", "softmax", "head.add={center={weight=0.003}}", *_HOW),
        faces("m = 1", "modified_softmax", *_HOW),
        faces("SphereFace, m = 2", "sphereface", "head.margin=2", *_HOW),
        faces("SphereFace, m = 4", "sphereface", "head.margin=4", *_HOW),
        faces("NormFace", "normface", *_HOW),
        faces("C-contrastive", "c_contrastive", "head.loss_weight=15.0", _UNIT, *_HOW),
        faces("CosFace", "cosface", _UNIT, *_HOW),
        faces("ArcFace", "arcface", *_HOW),
        faces("AmpFace", "ampface", _UNIT, *_HOW),
        faces("LM-Softmax", "lm_softmax", _UNIT, *_HOW),
        faces("SphereFace2-C", "sphereface2", *_HOW),
    )
}
"""Scales, margins and weights of losses are those of `recipes/losses.toml`."""


def at_rate(setting: Setting, rate: float) -> Setting:
    """The same at a rate of the grid."""
    return setting.but(f"{setting.title}, {rate:g}", f"optimizer.lr={rate}")


@dataclass(frozen=True)
class Choice:
    """The rate of a loss.

    Args:
        rate: that of the run with most pairs of the people held out right, among those that fit; None where a run of
            the grid is missing, or none was trained to its end.
        missing: runs of the grid that are not on record.
        fit: per cent of its training images that the chosen run has right; below 95 % no run of the grid has fitted.
    """

    rate: float | None
    missing: int
    fit: float = math.nan


def choose_rate(setting: Setting, records: Mapping[str, Record]) -> Choice:
    """Choose the rate of a loss by the seed that is not judged."""
    keys = {rate: at_rate(setting, rate).key(CHOOSING_SEED) for rate in RATES}
    missing = sum(key not in records for key in keys.values())
    runs = {rate: records[key].numbers for rate, key in keys.items() if key in records and not records[key].stopped}
    if missing or not runs:
        return Choice(None, missing)
    fits = {rate: numbers["train accuracy"] for rate, numbers in runs.items()}
    fitted = [rate for rate in runs if fits[rate] >= FITTED]
    best = max(fitted, key=lambda rate: runs[rate]["pairs"]) if fitted else max(runs, key=lambda rate: fits[rate])
    return Choice(best, 0, fits[best])


def run_main_comparison(options: argparse.Namespace) -> Results:
    """Train what is left, first the grid of rates and then the judged seeds, and print how the losses compare."""
    if options.items or options.all:
        raise ValueError("--main-comparison is no item: give no names and no --all beside it")
    if options.data is None:
        raise ValueError("--main-comparison needs --data FOLDER: runs on record, or the faces to train on")
    seeds = tuple(range(check_integer("--seeds", options.seeds, 1)))
    if CHOOSING_SEED in seeds:
        raise ValueError(
            f"--seeds {len(seeds)} must be at most {CHOOSING_SEED}: the seed after those chooses the rates"
        )
    gather = partial(
        gather_runs,
        files=RunFiles(options.data, options.data),
        jobs=check_integer("--jobs", options.jobs, 1),
        device=choose_device(options.device),
        progress=Progress,
        announce=(lambda _: None) if options.list else note,
        train=not options.list,
    )
    grid = gather([at_rate(setting, rate) for setting in CELLS.values() for rate in RATES], (CHOOSING_SEED,)).records
    choices = {title: choose_rate(setting, grid) for title, setting in CELLS.items()}
    chosen = {title: at_rate(CELLS[title], choice.rate) for title, choice in choices.items() if choice.rate is not None}
    judged = gather(list(chosen.values()), seeds).records if chosen else {}
    runs = {
        title: [judged[key] for seed in seeds if (key := setting.key(seed)) in judged]
        for title, setting in chosen.items()
    }
    for line in table(choices, runs, len(seeds)):
        print(line)
    left = sum(choice.missing for choice in choices.values())
    left += sum(len(seeds) - len(runs.get(title, ())) for title in CELLS)
    total = len(CELLS) * (len(RATES) + len(seeds))
    note(f"\n{left} of {total} runs are left, about {left * MINUTES_A_RUN / 60:.1f} hours of one H200 one by one.")
    return Results({"runs": total, "left": left, "rates": {title: choice.rate for title, choice in choices.items()}})


def table(choices: Mapping[str, Choice], runs: Mapping[str, list[Record]], seeds: int) -> list[str]:
    """Return a line for each loss: its rate, its accuracy on LFW, and what it gains on softmax."""
    lines = [f"{'loss':<18} {'rate':>5} {'fit, %':>7} {'LFW, %':>14}  gain on softmax, points"]
    base = runs.get("softmax", [])
    for title, choice in choices.items():
        records = runs.get(title, [])
        ended = [record for record in records if not record.stopped]
        rate = "-" if choice.rate is None else f"{choice.rate:g}"
        fit = f"{choice.fit:.1f}" if math.isfinite(choice.fit) else "-"
        cells = f"{title:<18} {rate:>5} {fit:>7}"
        if choice.missing:
            lines.append(f"{cells}  {choice.missing} of {len(RATES)} runs of the grid of rates are left")
        elif len(ended) < seeds:
            lines.append(f"{cells}  {len(ended)} of {seeds} seeds ended, {seeds - len(records)} are left")
        else:
            values = [record.numbers["lfw"] for record in ended]
            shown = f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}" if seeds > 1 else f"{values[0]:.2f}"
            lines.append(f"{cells} {shown:>14}  {_gain(base, ended, title)}")
    return lines


def _gain(base: list[Record], records: list[Record], title: str) -> str:
    """The paired gain on softmax, with its interval over people and seeds."""
    if title == "softmax" or len(base) != len(records) or any(record.stopped for record in base):
        return ""
    one, two = (np.stack([record.arrays["lfw"].astype(np.float64) for record in side]) for side in (base, records))
    left, right = records[0].arrays["lfw subjects"]
    return gain_of(one, two, (left, right)).text()
