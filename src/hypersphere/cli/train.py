"""`hypersphere train RECIPE key=value ...` and `hypersphere compare RECIPE --heads ... --seeds N`."""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import torch

from hypersphere.core import Progress
from hypersphere.core.config import digest, load_toml
from hypersphere.training import Recipe, Trainer, compare_cells, load_recipe, unseen_pairs


def add_command(commands: Any) -> None:
    """Add `train` and `compare` to the command line."""
    train = commands.add_parser("train", help="train a recipe, or go on where it stopped")
    train.add_argument("recipe", nargs="?", type=Path, help="a TOML file")
    train.add_argument(
        "settings", nargs="*", metavar="key=value", help="override the recipe, for example train.steps=100"
    )
    train.add_argument("--list", action="store_true", help="list the recipes below --recipes")
    train.add_argument("--recipes", type=Path, default=Path("recipes"), help="folder of recipes (%(default)s)")
    train.add_argument("--out", type=Path, help="folder of the run (runs/RECIPE-HASH)")
    train.add_argument("--device", default=None, help="cpu or cuda; what there is by default")
    train.set_defaults(run=run_train)

    compare = commands.add_parser(
        "compare", help="train a recipe with several heads, settings and seeds; print the table"
    )
    compare.add_argument("recipe", type=Path, help="a TOML file")
    compare.add_argument("settings", nargs="*", metavar="key=value", help="override the recipe")
    compare.add_argument("--heads", default="", help="names of losses, separated by commas")
    compare.add_argument("--grid", action="append", default=[], metavar="KEY=V,V,...", help="values of one setting")
    compare.add_argument("--seeds", type=int, default=1, help="runs of each cell (%(default)s)")
    compare.add_argument("--out", type=Path, help="folder of the cells (runs/compare-RECIPE)")
    compare.add_argument("--device", default=None, help="cpu or cuda")
    compare.set_defaults(run=run_compare)


def run_train(options: argparse.Namespace) -> None:
    """Train, or list the recipes."""
    if options.list:
        list_recipes(options.recipes)
        return
    if options.recipe is None:
        raise ValueError("name a recipe, or --list them")
    recipe = load_recipe(options.recipe, options.settings)
    folder = options.out or Path("runs") / f"{options.recipe.stem}-{digest(recipe)}"
    accuracy = train_one(recipe, folder, options.device)
    print(f"verification accuracy on unseen identities: {accuracy}" if accuracy else "done")
    print(f"checkpoints, log and resolved recipe: {folder}")


def train_one(recipe: Recipe, folder: Path, device: str | None) -> str:
    """Train a recipe in a folder; returns the accuracy on unseen identities in words, where the data can tell."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    trainer = Trainer(recipe, folder, device=device)
    with Progress(f"training {recipe.head['name']}", "steps") as progress:
        trained = trainer.run(progress)
    pairs = unseen_pairs(recipe)
    if pairs is None:
        return ""
    result = pairs.verify(trained.backbone, device)
    return f"{result.accuracy:.2%}"


def run_compare(options: argparse.Namespace) -> None:
    """Train every cell and print mean and deviation over the seeds."""
    if options.seeds < 1:
        raise ValueError(f"--seeds {options.seeds} must be at least 1")
    out = options.out or Path("runs") / f"compare-{options.recipe.stem}"
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    heads = [name for name in options.heads.split(",") if name]
    print(f"{'cell':<40}{'accuracy':>10}{'+-':>8}{'runs':>6}")
    for title, recipes in compare_cells(options.recipe, options.settings, heads, options.grid, options.seeds):
        scores = []
        for recipe in recipes:
            with Progress(f"{title}, seed {recipe.train.seed}", "steps") as progress:
                trained = Trainer(recipe, out / digest(recipe), device=device).run(progress)
            pairs = unseen_pairs(recipe)
            if pairs is None:
                raise ValueError("compare needs data with unseen identities: data.source='pocket'")
            scores.append(pairs.verify(trained.backbone, device).accuracy.value)
        spread = f"{statistics.stdev(scores):.2%}" if len(scores) > 1 else "-"
        print(f"{title:<40}{statistics.mean(scores):>10.2%}{spread:>8}{len(scores):>6}", flush=True)


def list_recipes(folder: Path) -> None:
    """Print every recipe below a folder with its sentence."""
    files = sorted(folder.rglob("*.toml"))
    if not files:
        raise ValueError(f"{folder}: no recipes there; name their folder with --recipes")
    for path in files:
        print(f"{path!s:<48} {load_toml(path).get('about', '')}")
