"""Train a recipe and score what came of it, as `hypersphere train` does."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from hypersphere.core import write_atomically
from hypersphere.distributed import World, default_workers
from hypersphere.evaluation import Verification
from hypersphere.models import CARD_FILE
from hypersphere.training.checkpoints import Checkpoints
from hypersphere.training.finished_run import Trained, load_run, run_card
from hypersphere.training.logs import Logger, TrainingReporter
from hypersphere.training.recipe import Recipe, ValidationSettings, load_recipe
from hypersphere.training.recipe_stages import train_recipe
from hypersphere.training.trainer import Trainer
from hypersphere.training.training_plot import save_training_plot
from hypersphere.training.validation import NO_VALIDATION, validation_sets

Show = Callable[[str, str], AbstractContextManager[TrainingReporter]]
"""Makes a reporter of progress from a title and what is counted."""


class StageReporter(TrainingReporter, Protocol):
    """A reporter that is told before each stage what it trains and how long it is."""

    def expect(self, stage: Recipe, total: int, folder: Path) -> None:
        """The next run is this stage of a recipe, with so many steps, in this folder."""
        ...


@dataclass(frozen=True)
class TrainedRun:
    """What a run left behind.

    Args:
        trained: its network, folder and late snapshots.
        results: by validation set, the accuracy of each late snapshot, or of the network.
        best: the step of the checkpoint that is kept and scored as the best; None where none was asked for.
        chosen_on: the validation set that chose it.
    """

    trained: Trained
    results: dict[str, list[Verification]]
    best: int | None
    chosen_on: str


def train_and_verify(
    recipe: Recipe,
    folder: str | Path,
    world: World,
    *,
    progress: AbstractContextManager[StageReporter],
    show: Show,
    best: bool = False,
    workers: int | None = None,
    compile: bool = False,  # noqa: A002
    loggers: Callable[[Recipe, Path], Sequence[Logger]] = lambda recipe, folder: (),
) -> TrainedRun:
    """Train a recipe in a folder, or go on where it stopped; verify its network on people never seen.

    Args:
        recipe: what to do.
        folder: of the run.
        world: the processes that train together.
        progress: of the steps.
        show: makes the reporters of what comes before them.
        best: keep the checkpoint with the best score, and score that one.
        workers: processes that load images; the device's usual number by default.
        compile: hand the network to torch.compile.
        loggers: makes those of a stage, from its recipe and folder.
    """
    device = str(world.device)
    sets = validation_sets(recipe) if world.is_main else []
    if best and world.is_main and not sets:
        raise ValueError(f"--best {NO_VALIDATION}")
    with show("reading validation images", "images") as reading:
        sets = [each.in_memory(device if recipe.data.device == "cuda" else "cpu", reading) for each in sets]

    def score(network: nn.Module) -> dict[str, float]:
        return {each.title: each.verify(network, device).accuracy.value for each in sets}

    asked = best or recipe.data.validation != ValidationSettings()
    given: dict[str, Any] = {
        "world": world,
        "evaluate": score if asked and sets else None,
        "keep_best": best,
        "workers": default_workers(world.device) if workers is None else workers,
        "compile": compile,
    }

    def make(stage: Recipe, place: Path) -> Trainer:
        with show("checking images", "images") as checking:
            told: dict[str, Any] = {"loggers": loggers(stage, place), "checking": checking} if world.is_main else {}
            trainer = Trainer(stage, place, **given, **told)
        steps.expect(stage, trainer.total, place)
        return trainer

    with progress as steps:
        trained = train_recipe(recipe, folder, make, steps if world.is_main else None)
    step = Checkpoints(trained.folder / "checkpoints").best() if best and world.is_main else None
    if step is not None and not trained.snapshots:
        trained = replace(trained, backbone=load_run(trained.folder)[1].to(world.device))
    results = {each.title: each.verify_run(trained, device) for each in sets}
    if results and (trained.folder / CARD_FILE).is_file():
        _complete_card(trained, results)
    if world.is_main:
        accuracy = {title: statistics.mean(one.accuracy.value for one in many) for title, many in results.items()}
        save_training_plot(trained.folder, accuracy)
    return TrainedRun(trained, results, None if trained.snapshots else step, sets[0].title if sets else "")


def _complete_card(trained: Trained, results: dict[str, list[Verification]]) -> None:
    """Write the model card again, with what was measured after training."""
    shown = {f"{title}, verification accuracy": f"{verified[-1].accuracy:.2%}" for title, verified in results.items()}
    card = run_card(load_recipe(trained.folder / "recipe.toml"), trained.trained_on, shown, trained.warning)
    write_atomically(trained.folder / CARD_FILE, card.encode())
