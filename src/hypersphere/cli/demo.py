"""`hypersphere demo`: three losses trained on pocket faces, compared on people never seen, in a report."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path

from hypersphere.cli.demo_report import FARS, LOSSES, RECIPE, Outcome, Sphere, build_report, row, sphere
from hypersphere.cli.output import Results, note
from hypersphere.core import Progress, check_range, read_json
from hypersphere.core.config import digest
from hypersphere.core.files import write_atomically
from hypersphere.evaluation import compare_accuracy, pair_metrics, verify_pairs
from hypersphere.plots import new_figure
from hypersphere.training import Recipe, Trained, Trainer, load_recipe, read_log, unseen_pairs

_COLUMNS = {"loss": 11, "accuracy [95 %]": 23, "against softmax": 21, "EER": 8, "TAR@1e-2": 9, "s": 6}
"""Of the table on a terminal, with their widths; the report has more."""


@dataclass(frozen=True)
class Extent:
    """How much the demo does; smaller in tests.

    Args:
        steps: of training; the recipe's own by default.
        people: never seen in training, to test with.
        pairs: of their images.
    """

    steps: int | None = None
    people: int = 400
    pairs: int = 12_000


def run(options: argparse.Namespace) -> Results:
    """Run the demo as large as it is."""
    return run_demo(options.out, options.seed)


def run_demo(out: Path, seed: int, extent: Extent | None = None) -> Results:
    """Train each loss (or take up its run), print the table and write the report."""
    extent, start = extent or Extent(), time.monotonic()
    if seed < 0:
        raise ValueError(f"--seed {seed} must be 0 or more")
    new_figure(1, 1)  # fails now, not after training, where matplotlib is missing
    out.mkdir(parents=True, exist_ok=True)
    recipes = {name: _recipe(name, seed, extent) for name in LOSSES}
    data = recipes["softmax"].data
    note(f"Training on {data.identities:,} pocket people, {data.images_per_identity} images of each; testing on")
    note(f"{extent.pairs:,} pairs of images of {extent.people} people never seen. Seed {seed}.\n")
    _print_row(tuple(_COLUMNS))
    pairs = unseen_pairs(recipes["softmax"], extent.people, extent.pairs)
    if pairs is None:
        raise ValueError(f"{RECIPE}: the demo needs data.source='pocket'")
    subjects = pairs.subjects
    outcomes: dict[str, Outcome] = {}
    spheres: list[Sphere] = []
    for name, recipe in recipes.items():
        trainer = Trainer(recipe, out / f"{name}-{digest(recipe)}")
        if not spheres:
            spheres.append(sphere("before training", trainer.backbone, pairs))
        trained, seconds = _train(trainer, LOSSES[name])
        scores = pairs.scores(trained.backbone)
        result = verify_pairs(scores, pairs.same, subjects=subjects)
        metrics = pair_metrics(scores, pairs.same, subjects, FARS)
        gain = None
        if outcomes:
            gain = compare_accuracy(outcomes["softmax"].result.right, result.right, subjects=subjects).estimate
        log = read_log(trained.folder / "log.jsonl")
        outcomes[name] = Outcome(LOSSES[name], recipe, trained.folder, scores, result, metrics, gain, log, seconds)
        spheres.append(sphere(f"after, {LOSSES[name]}", trained.backbone, pairs))
        cells = row(outcomes[name])
        _print_row((*cells[:5], *cells[6:]))
    page = build_report(outcomes, spheres, pairs, out=out, seed=seed, seconds=time.monotonic() - start)
    report = page.save(out / "report.html")
    print(f"\nThe report: {report}")
    losses = {
        name: {
            "accuracy": outcome.result.accuracy,
            "gain": outcome.gain,
            "metrics": outcome.metrics,
            "seconds": outcome.seconds,
            "folder": outcome.folder,
        }
        for name, outcome in outcomes.items()
    }
    return Results({"seed": seed, "losses": losses, "report": report})


def _print_row(cells: tuple[str, ...]) -> None:
    widths = list(_COLUMNS.values())
    print(f"{cells[0]:<{widths[0]}}" + "".join(map(str.rjust, cells[1:], widths[1:])), flush=True)


def _recipe(name: str, seed: int, extent: Extent) -> Recipe:
    shorter = [] if extent.steps is None else [f"train.steps={extent.steps}"]
    return load_recipe(RECIPE, [f"head.name={name}", f"train.seed={seed}", *shorter])


def _train(trainer: Trainer, title: str) -> tuple[Trained, float | None]:
    """The trained network, and the seconds it took over all calls: None where one was killed and did not say."""
    clock = trainer.folder / "seconds.json"
    spent = _seconds(clock) if clock.exists() else None
    saved = trainer.checkpoints.steps()
    if saved[-1:] == [trainer.total]:
        return trainer.run(), spent
    clock.unlink(missing_ok=True)
    start = time.monotonic()
    try:
        with Progress(f"training {title}", "steps") as progress:
            return trainer.run(progress), _added(spent, start, saved)
    finally:
        total = _added(spent, start, saved)
        if total is not None:
            write_atomically(clock, json.dumps({"seconds": total}).encode())


def _seconds(clock: Path) -> float | None:
    """What was written down; None where it is damaged."""
    try:
        return check_range("seconds", read_json(clock)["seconds"], 0)
    except (ValueError, TypeError, KeyError):
        return None


def _added(spent: float | None, start: float, saved: list[int]) -> float | None:
    if spent is None and saved:
        return None
    return (spent or 0.0) + time.monotonic() - start
