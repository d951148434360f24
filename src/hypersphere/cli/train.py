"""`hypersphere train RECIPE key=value ...` and `hypersphere compare RECIPE --heads ... --seeds N`."""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Sequence
from pathlib import Path

from torch import nn

from hypersphere.core import Progress
from hypersphere.core.config import as_table, digest, load_toml
from hypersphere.evaluation import Verification
from hypersphere.training import (
    SHIPPED_RECIPES,
    Logger,
    Processes,
    Recipe,
    TensorBoard,
    Trainer,
    TrainingStopped,
    WeightsAndBiases,
    compare_cells,
    join_processes,
    load_recipe,
    train_recipe,
    unseen_pairs,
)


def run_train(options: argparse.Namespace) -> None:
    """Train, or list the recipes."""
    if options.list:
        here = Path("recipes")
        list_recipes(options.recipes or (here if here.is_dir() else SHIPPED_RECIPES))
        return
    if options.recipe is None:
        raise ValueError("name a recipe, or --list them")
    recipe = load_recipe(options.recipe, options.settings)
    folder = options.out or Path("runs") / f"{options.recipe.stem}-{digest(recipe)}"
    with join_processes(options.device) as processes:
        results = train_and_verify(recipe, folder, processes, options, f"training {recipe.head['name']}")
        if not processes.first:
            return
    if len(results) == 1:
        print(f"verification accuracy on unseen identities: {results[0].accuracy:.2%}")
    elif results:
        accuracies = ", ".join(f"{result.accuracy.value:.2%}" for result in results)
        print(f"verification accuracy on unseen identities: {_mean(results):.2%}, the mean of {accuracies}")
    print(f"checkpoints, log and resolved recipe: {folder}")


def train_and_verify(
    recipe: Recipe,
    folder: Path,
    processes: Processes,
    options: argparse.Namespace,
    title: str,
) -> list[Verification]:
    """Train a recipe; returns the accuracy on unseen identities, of each late snapshot, where the data can tell."""
    workers = options.workers
    if workers is None:
        workers = min(8, os.cpu_count() or 1) if processes.device.type == "cuda" else 0
    pairs = unseen_pairs(recipe)

    def score(network: nn.Module) -> float:
        assert pairs is not None
        return pairs.verify(network, str(processes.device)).accuracy.value

    def make(stage: Recipe, place: Path) -> Trainer:
        with Progress("checking images", "images") as checking:
            return Trainer(
                stage,
                place,
                processes=processes,
                evaluate=score if options.best and pairs is not None else None,
                loggers=_loggers(options, stage, place) if processes.first else [],
                workers=workers,
                compile=options.compile,
                checking=checking if processes.first else None,
            )

    with Progress(title, "steps") as progress:
        trained = train_recipe(recipe, folder, make, progress if processes.first else None)
    if pairs is None or not processes.first:
        return []
    return pairs.verify_run(trained, str(processes.device))


def _loggers(options: argparse.Namespace, recipe: Recipe, folder: Path) -> list[Logger]:
    loggers: list[Logger] = [TensorBoard(folder / "tensorboard")] if options.tensorboard else []
    if options.wandb:
        name = folder.name if folder.name != "second" else f"{folder.parent.name}-second"
        loggers.append(WeightsAndBiases(options.wandb, name, as_table(recipe), folder))
    return loggers


def _mean(results: Sequence[Verification]) -> float:
    return statistics.mean(result.accuracy.value for result in results)


def run_compare(options: argparse.Namespace) -> None:
    """Train every cell and print mean and deviation over the seeds."""
    if options.seeds < 1:
        raise ValueError(f"--seeds {options.seeds} must be at least 1")
    out = options.out or Path("runs") / f"compare-{options.recipe.stem}"
    heads = [name for name in options.heads.split(",") if name]
    with join_processes(options.device) as processes:
        if processes.first:
            print(f"{'cell':<40}{'accuracy':>10}{'+-':>8}{'runs':>6}")
        for title, recipes in compare_cells(options.recipe, options.settings, heads, options.grid, options.seeds):
            scores = []
            for recipe in recipes:
                name = f"{title}, seed {recipe.train.seed}"
                if unseen_pairs(recipe) is None:
                    raise ValueError("compare needs data with unseen identities: data.source='pocket'")
                try:
                    results = train_and_verify(recipe, out / digest(recipe), processes, options, name)
                except TrainingStopped as cause:
                    if processes.first:
                        print(f"{title:<40}{'stopped':>10}  seed {recipe.train.seed}: {cause}", flush=True)
                    continue
                if processes.first:
                    scores.append(_mean(results))
            if scores:
                spread = f"{statistics.stdev(scores):.2%}" if len(scores) > 1 else "-"
                print(f"{title:<40}{statistics.mean(scores):>10.2%}{spread:>8}{len(scores):>6}", flush=True)


def list_recipes(folder: Path) -> None:
    """Print every recipe below a folder with its sentence."""
    files = sorted(folder.rglob("*.toml"))
    if not files:
        raise ValueError(f"{folder}: no recipes there; name their folder with --recipes")
    width = max(len(str(path)) for path in files)
    for path in files:
        print(f"{path!s:<{width}}  {load_toml(path).get('about', '')}")
