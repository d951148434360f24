"""Run `hypersphere train RECIPE key=value ...`."""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace
from pathlib import Path

from torch import nn

from hypersphere.cli.chosen_recipe import find_or_suggest, folder_of
from hypersphere.cli.output import Results, note, wrapped
from hypersphere.cli.training_progress import TrainingProgress
from hypersphere.core import Progress, install_hint, is_installed
from hypersphere.core.config import as_table, digest, load_toml
from hypersphere.distributed import World, default_workers, join_world
from hypersphere.evaluation import Verification
from hypersphere.models import MODEL_FILE
from hypersphere.training import (
    NO_VALIDATION,
    SHIPPED_RECIPES,
    Checkpoints,
    Logger,
    Recipe,
    TensorBoard,
    Trainer,
    ValidationSettings,
    WeightsAndBiases,
    load_run,
    recipe_names,
    train_recipe,
    validation_sets,
)


def run_train(options: argparse.Namespace) -> Results | None:
    """Train, or list the recipes."""
    if options.list:
        return list_recipes(options.recipes or SHIPPED_RECIPES)
    if options.recipe is None:
        raise ValueError("name a recipe or a folder of images; `hypersphere train --list` names the recipes")
    with join_world(options.device) as world:
        recipe = find_or_suggest(options, world)
        folder = options.out or folder_of(options.recipe, recipe)
        if options.dry_run:
            return Results({"recipe": as_table(recipe)})
        results = train_and_verify(recipe, folder, world, options, f"training {recipe.head['name']}")
        if not world.is_main:
            return None
    for title, verified in results.items():
        accuracies = [f"{result.accuracy.value:.2%}" for result in verified]
        mean = statistics.mean(result.accuracy.value for result in verified)
        shown = (
            f"{verified[0].accuracy:.2%}" if len(verified) == 1 else f"{mean:.2%}, the mean of {', '.join(accuracies)}"
        )
        print(f"verification accuracy on {title}: {shown}")
    print(f"checkpoints, log and resolved recipe: {folder}")
    model = (folder / "second" if recipe.second else folder) / MODEL_FILE
    if model.is_file():
        print(f"the model: {model}")
    elif not is_installed("safetensors"):
        print(install_hint("safetensors", "The model file is left out: writing it"))
    accuracy = {title: [result.accuracy for result in verified] for title, verified in results.items()}
    return Results({"folder": folder, "recipe": digest(recipe), "accuracy": accuracy})


def train_and_verify(
    recipe: Recipe, folder: Path, world: World, options: argparse.Namespace, title: str
) -> dict[str, list[Verification]]:
    """Train a recipe; returns by validation set the accuracy of each late snapshot, or of the network."""
    workers = options.workers if options.workers is not None else default_workers(world.device)
    device = str(world.device)
    holding = device if recipe.data.device == "cuda" else "cpu"
    sets = validation_sets(recipe) if world.is_main else []
    if options.best and world.is_main and not sets:
        raise ValueError(f"--best {NO_VALIDATION}")
    with Progress("reading validation images", "images") as reading:
        sets = [each.in_memory(holding, reading) for each in sets]

    def score(network: nn.Module) -> dict[str, float]:
        return {each.title: each.verify(network, device).accuracy.value for each in sets}

    asked = options.best or recipe.data.validation != ValidationSettings()

    progress = TrainingProgress(title, options.recipe)

    def make(stage: Recipe, place: Path) -> Trainer:
        with Progress("checking images", "images") as checking:
            trainer = Trainer(
                stage,
                place,
                world=world,
                evaluate=score if asked and sets else None,
                keep_best=options.best,
                loggers=_loggers(options, stage, place) if world.is_main else [],
                workers=workers,
                compile=options.compile,
                checking=checking if world.is_main else None,
            )
        progress.expect(trainer.total, place)
        return trainer

    with progress:
        trained = train_recipe(recipe, folder, make, progress if world.is_main else None)
    if trained.statistics_batches:
        note(
            f"{trained.steps} steps are too few for BatchNorm's running statistics: they were estimated anew over"
            f" {trained.statistics_batches} batches of training images"
        )
    best = Checkpoints(trained.folder / "checkpoints").best() if options.best and world.is_main else None
    if best is not None and not trained.snapshots:
        note(f"the best checkpoint, chosen on {sets[0].title}, is that of step {best:,}; it is the one that is scored")
        trained = replace(trained, backbone=load_run(trained.folder)[1].to(world.device))
    return {each.title: each.verify_run(trained, device) for each in sets}


def _loggers(options: argparse.Namespace, recipe: Recipe, folder: Path) -> list[Logger]:
    loggers: list[Logger] = [TensorBoard(folder / "tensorboard")] if options.tensorboard else []
    if options.wandb:
        name = folder.name if folder.name != "second" else f"{folder.parent.name}-second"
        loggers.append(WeightsAndBiases(options.wandb, name, as_table(recipe), folder))
    return loggers


def list_recipes(folder: Path) -> Results:
    """Print every recipe below a folder with its sentence."""
    names = recipe_names(folder)
    width = max(map(len, names))
    recipes = {name: load_toml(path).get("about", "") for name, path in names.items()}
    for name, about in recipes.items():
        print(wrapped(f"{name:<{width}}  ", about))
    return Results({"recipes": recipes})
