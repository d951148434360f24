"""The demo: three losses trained on pocket faces, compared on people never seen, in a report."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hypersphere.core import check_range, digest, read_json, write_atomically
from hypersphere.evaluation import compare_accuracy, pair_metrics, verify_pairs
from hypersphere.plots import new_figure
from hypersphere.training.demo_report import FARS, LOSSES, RECIPE, DemoOutcome, Sphere, build_report, sphere
from hypersphere.training.finished_run import Trained
from hypersphere.training.logs import read_log
from hypersphere.training.recipe import Recipe, load_recipe
from hypersphere.training.train_and_verify import Show
from hypersphere.training.trainer import Trainer
from hypersphere.training.validation import unseen_pairs


@dataclass(frozen=True)
class DemoExtent:
    """How much the demo does; smaller in tests.

    Args:
        steps: of training; the recipe's own by default.
        people: never seen in training, to test with.
        pairs: of their images.
    """

    steps: int | None = None
    people: int = 400
    pairs: int = 12_000


def demo_recipes(seed: int, extent: DemoExtent) -> dict[str, Recipe]:
    """Return the recipe of each loss."""
    shorter = [] if extent.steps is None else [f"train.steps={extent.steps}"]
    return {name: load_recipe(RECIPE, [f"head.name={name}", f"train.seed={seed}", *shorter]) for name in LOSSES}


def run_demo(
    out: str | Path, seed: int, extent: DemoExtent, *, show: Show, announce: Callable[[DemoOutcome], None]
) -> tuple[dict[str, DemoOutcome], Path]:
    """Train each loss, or take up its run; write the report.

    Args:
        out: folder of the runs and the report.
        seed: of weights, order and augmentation.
        extent: how much to do.
        show: makes reporters of progress.
        announce: called with each loss when it is trained and tested.

    Returns:
        the outcomes by loss, and the file of the report.
    """
    start = time.monotonic()
    new_figure(1, 1)  # fails now, not after training, where matplotlib is missing
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    recipes = demo_recipes(seed, extent)
    pairs = unseen_pairs(recipes["softmax"], extent.people, extent.pairs)
    outcomes: dict[str, DemoOutcome] = {}
    spheres: list[Sphere] = []
    for name, recipe in recipes.items():
        trainer = Trainer(recipe, out / f"{name}-{digest(recipe)}")
        if not spheres:
            spheres.append(sphere("before training", trainer.backbone, pairs))
        trained, seconds = train_timed(trainer, LOSSES[name], show)
        scores = pairs.scores(trained.backbone)
        result = verify_pairs(scores, pairs.same, subjects=pairs.subjects)
        metrics = pair_metrics(scores, pairs.same, pairs.subjects, FARS)
        gain = None
        if outcomes:
            gain = compare_accuracy(outcomes["softmax"].result.right, result.right, subjects=pairs.subjects).estimate
        log = read_log(trained.folder / "log.jsonl")
        outcomes[name] = DemoOutcome(
            title=LOSSES[name],
            recipe=recipe,
            folder=trained.folder,
            scores=scores,
            result=result,
            metrics=metrics,
            gain=gain,
            log=log,
            seconds=seconds,
        )
        spheres.append(sphere(f"after, {LOSSES[name]}", trained.backbone, pairs))
        announce(outcomes[name])
    page = build_report(outcomes, spheres, pairs, out=out, seed=seed, seconds=time.monotonic() - start)
    return outcomes, page.save(out / "report.html")


def train_timed(trainer: Trainer, title: str, show: Show) -> tuple[Trained, float | None]:
    """The trained network, and the seconds it took over all calls: None where one was killed and did not say."""
    clock = trainer.folder / "seconds.json"
    spent = _seconds(clock) if clock.exists() else None
    saved = trainer.checkpoints.steps()
    if saved[-1:] == [trainer.total]:
        return trainer.run(), spent
    clock.unlink(missing_ok=True)
    start = time.monotonic()
    try:
        with show(f"training {title}", "steps") as progress:
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
