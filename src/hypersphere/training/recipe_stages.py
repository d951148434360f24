"""A whole recipe: its one stage, or its two."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypersphere.training.finished_run import Trained
from hypersphere.training.logs import TrainingReporter
from hypersphere.training.recipe import Recipe
from hypersphere.training.trainer import Trainer

Making = Callable[[Recipe, Path], Trainer]
SECOND = "second"
"""The folder of the second stage, in that of the first."""


def train_recipe(
    recipe: Recipe, folder: str | Path, make: Making = Trainer, progress: TrainingReporter | None = None
) -> Trained:
    """Train a recipe in a folder, or go on where it stopped.

    The second stage of a recipe that has one lies in `folder/second`, and begins from the network of the first: with a
    frozen backbone and class-balanced batches it is cRT (Kang et al., 2020).

    Args:
        recipe: what to do.
        folder: of the run.
        make: makes the trainer of a stage; `Trainer` itself by default, with its defaults.
        progress: called as `progress(step, steps, log values in words)`, for each stage from the start.
    """
    folder = Path(folder)
    first, *rest = recipe.stages()
    trained = make(first, folder).run(progress)
    for stage in rest:
        trained = make(stage, folder / SECOND).run(progress)
    return trained
