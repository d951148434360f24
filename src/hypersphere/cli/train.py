"""`hypersphere train RECIPE key=value ...`: train a recipe or images, or go on where a run stopped."""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypersphere as hs
from hypersphere.cli.output import Results, note, wrapped
from hypersphere.cli.parser import add_device, add_loading, add_plugins
from hypersphere.core import Progress, install_hint, is_installed

if TYPE_CHECKING:
    from hypersphere.training import Logger, Recipe


def add_command(commands: Any) -> None:
    """Add `train` to the command line."""
    train = commands.add_parser(
        "train",
        help="train a recipe or a folder of images, or go on where it stopped",
        description="Train a recipe, or go on where it stopped. A folder of images (one folder per person) or another"
        " data set gets a recipe of its own, which is printed. Several processes: torchrun --nproc-per-node N -m"
        " hypersphere train ...",
    )
    train.add_argument(
        "recipe", nargs="?", help="a recipe's name (--list), a TOML file, or images: folder, .tar, .rec, list"
    )
    train.add_argument(
        "settings", nargs="*", metavar="key=value", help="override the recipe, for example train.steps=100"
    )
    train.add_argument("--list", action="store_true", help="list the recipes by name")
    train.add_argument("--recipes", type=Path, metavar="FOLDER", help="where recipes are found by name (the package's)")
    train.add_argument("--dry-run", action="store_true", help="print the recipe and stop")
    add_length(train)
    train.add_argument("--seed", type=int, metavar="N", help="short for train.seed=N")
    train.add_argument("--out", type=Path, help="folder of the run (runs/RECIPE-HASH)")
    add_device(train)
    add_plugins(train)
    add_loading(train)
    train.add_argument("--tensorboard", action="store_true", help="log to OUT/tensorboard besides OUT/log.jsonl")
    train.add_argument("--wandb", metavar="PROJECT", help="log to a project of Weights & Biases besides OUT/log.jsonl")
    train.add_argument(
        "--best", action="store_true", help="keep the checkpoint with the best score on data.validation, too"
    )
    train.set_defaults(run="train:run_train", goes_on=True)


def add_length(parser: argparse.ArgumentParser) -> None:
    """The two settings that everybody changes first; all others are written key=value."""
    parser.add_argument("--epochs", type=float, metavar="N", help="short for train.epochs=N")
    parser.add_argument("--steps", type=int, metavar="N", help="short for train.steps=N")


def all_settings(options: argparse.Namespace) -> list[str]:
    """The settings of the recipe, with `--epochs 3` as `train.epochs=3`, and so on."""
    given = ((name, getattr(options, name, None)) for name in ("steps", "epochs", "seed"))
    return [*options.settings, *(f"train.{name}={value}" for name, value in given if value is not None)]


def run_train(options: argparse.Namespace) -> Results | None:
    """Train, or list the recipes."""
    folder = options.recipes or hs.training.SHIPPED_RECIPES
    if options.list:
        return list_recipes(folder)
    if options.recipe is None:
        raise ValueError("name a recipe or a folder of images; `hypersphere train --list` names the recipes")
    hs.core.load_plugins(options.plugin)
    with hs.distributed.join_world(options.device) as world:
        device = "cuda" if world.device.type == "cuda" else "cpu"
        chosen = hs.training.choose_recipe(options.recipe, all_settings(options), device=device, folder=folder)
        recipe = chosen.recipe
        if world.is_main:
            _show_recipe(chosen, device, options.dry_run)
        if options.dry_run:
            return Results({"recipe": hs.core.as_table(recipe)})
        out = options.out or hs.training.run_folder(options.recipe, recipe)
        run = hs.training.train_and_verify(
            recipe,
            out,
            world,
            progress=TrainingProgress(options.recipe),
            show=Progress,
            best=options.best,
            workers=options.workers,
            compile=options.compile,
            loggers=lambda stage, place: _loggers(options, stage, place),
        )
        if not world.is_main:
            return None
    if run.trained.statistics_batches:
        note(
            f"{run.trained.steps} steps are too few for BatchNorm's running statistics: they were estimated anew over"
            f" {run.trained.statistics_batches} batches of training images"
        )
    if run.trained.warning:
        print(f"hypersphere: warning: {run.trained.warning}", file=sys.stderr)
    if run.best is not None:
        note(f"the best checkpoint, chosen on {run.chosen_on}, is that of step {run.best:,}; it is the one scored")
    for title, verified in run.results.items():
        mean = statistics.mean(result.accuracy.value for result in verified)
        all_of_them = ", ".join(f"{result.accuracy.value:.2%}" for result in verified)
        shown = f"{verified[0].accuracy:.2%}" if len(verified) == 1 else f"{mean:.2%}, the mean of {all_of_them}"
        print(f"verification accuracy on {title}: {shown}")
    print(f"checkpoints, log and resolved recipe: {out}")
    picture = run.trained.folder / "training.png"
    if picture.is_file():
        print(f"loss, angles and validation, drawn: {picture}")
    model = run.trained.folder / hs.models.MODEL_FILE
    if model.is_file():
        print(f"the model: {model}")
    elif not is_installed("safetensors"):
        print(install_hint("safetensors", "The model file is left out: writing it"))
    accuracy = {title: [result.accuracy for result in verified] for title, verified in run.results.items()}
    warning = {"warning": run.trained.warning} if run.trained.warning else {}
    return Results({"folder": out, "recipe": hs.core.digest(recipe), "accuracy": accuracy, **warning})


def _show_recipe(chosen: hs.training.ChosenRecipe, device: str, dry_run: bool) -> None:
    """Print a recipe that was made for images, and any before a dry run."""
    if chosen.suggested is not None:
        say = print if dry_run else note
        say(
            "# No recipe was named: this one is chosen by the number of people and images, for a"
            f" {'GPU' if device == 'cuda' else 'CPU'}.\n"
            "# To change it, give key=value; or keep it in a file, edit that and train it.\n"
            f"{chosen.suggested}"
        )
    elif dry_run:
        print(hs.core.to_toml(hs.core.as_table(chosen.recipe)), end="")


def _loggers(options: argparse.Namespace, recipe: Recipe, folder: Path) -> list[Logger]:
    loggers: list[Logger] = [hs.training.TensorBoard(folder / "tensorboard")] if options.tensorboard else []
    if options.wandb:
        name = folder.name if folder.name != "second" else f"{folder.parent.name}-second"
        loggers.append(hs.training.WeightsAndBiases(options.wandb, name, hs.core.as_table(recipe), folder))
    return loggers


class TrainingProgress(Progress):
    """A `Progress` of steps that says after which step a run goes on, and how to train a finished one for longer.

    Args:
        recipe: how the user called it.
    """

    def __init__(self, recipe: str) -> None:
        super().__init__("training", "steps")
        self.recipe, self.total, self.folder = recipe, 0, Path()

    def expect(self, stage: Recipe, total: int, folder: Path) -> None:
        """The next run is this stage of a recipe, with so many steps, in this folder."""
        self.title, self.total, self.folder = _title(stage), total, folder

    def begin(self, done: int) -> None:
        """Say where the run goes on, and count the rate from here."""
        super().begin(done)
        if self.silent or not done:
            return
        said = f"{self.folder}: going on after step {done:,} of {self.total:,}"
        if done >= self.total:
            said = (
                f"{self.folder}: finished, all {done:,} steps are done. To train on from its weights, as a new run:\n"
                f"  hypersphere train {self.recipe} train.start={self.folder} train.start_head=true train.steps={done}"
            )
        print(said, file=sys.stderr)


def _title(stage: Recipe) -> str:
    """What a stage trains: a head, a teacher's student, or both."""
    head, teacher = stage.head["name"], stage.teacher.model
    if teacher is None:
        return f"training {head}"
    told = f"a student of {Path(teacher).name}"
    return f"training {head} and {told}" if stage.head.get("loss_weight", 1.0) else f"training {told}"


def list_recipes(folder: Path) -> Results:
    """Print every recipe below a folder with its sentence."""
    names = hs.training.recipe_names(folder)
    width = max(map(len, names))
    recipes = {name: hs.core.load_toml(path).get("about", "") for name, path in names.items()}
    for name, about in recipes.items():
        print(wrapped(f"{name:<{width}}  ", about))
    return Results({"recipes": recipes})
