"""What `hypersphere train NAME` trains: a recipe by its file or name, or images by a recipe that is made and shown."""

from __future__ import annotations

import argparse
import re
from glob import has_magic
from pathlib import Path

from hypersphere.cli.output import note
from hypersphere.core.config import as_table, digest, to_toml
from hypersphere.data import open_source
from hypersphere.distributed import World
from hypersphere.training import SHIPPED_RECIPES, Recipe, find_recipe, load_recipe, recipe_from_table, suggest_recipe
from hypersphere.training.recipe_tables import merge_tables, with_settings

_SHORTHANDS = ("steps", "epochs", "seed")


def find_or_suggest(options: argparse.Namespace, world: World) -> Recipe:
    """Return the recipe that is meant; one for images is made from what they are, and printed.

    Args:
        options: of `train`: `recipe`, `recipes`, `settings`, `dry_run`, and the shorthands `steps`, `epochs`, `seed`.
        world: the processes that train; the main one prints.
    """
    settings = [*options.settings, *shorthands(options)]
    if not is_data(options.recipe):
        recipe = load_recipe(find_recipe(options.recipe, options.recipes or SHIPPED_RECIPES), settings)
        if options.dry_run and world.is_main:
            print(to_toml(as_table(recipe)), end="")
        return recipe
    changed = with_settings({}, settings)
    source = open_source(options.recipe, changed.get("data", {}).get("format"))
    device = "cuda" if world.device.type == "cuda" else "cpu"
    table = suggest_recipe(source, options.recipe, device, changed)
    recipe = recipe_from_table(table, settings)
    if world.is_main:
        kind, say = "GPU" if device == "cuda" else "CPU", print if options.dry_run else note
        say(f"# No recipe was named: this one is chosen by the number of people and images, for a {kind}.")
        say("# To change it, give key=value; or keep it in a file, edit that and train it.")
        say(to_toml(merge_tables(table, changed)))
    return recipe


def shorthands(options: argparse.Namespace) -> list[str]:
    """`--epochs 3` as the setting `train.epochs=3`, and so on."""
    given = ((name, getattr(options, name, None)) for name in _SHORTHANDS)
    return [f"train.{name}={value}" for name, value in given if value is not None]


def folder_of(name: str, recipe: Recipe) -> Path:
    """Return the default folder of a run: its name and the recipe's digest."""
    stem = re.sub(r"[^\w.-]+", "-", Path(name).resolve().stem)
    return Path("runs") / f"{stem}-{digest(recipe)}"


def is_data(name: str) -> bool:
    """Whether a path is a data set, and no recipe."""
    path = Path(name)
    if (path / "recipe.toml").is_file():
        raise ValueError(
            f"{path} is the folder of a run: to go on with it, train what it was started with, or"
            f" {path / 'recipe.toml'} --out {path}"
        )
    return path.is_dir() or has_magic(name) or (path.is_file() and path.suffix != ".toml")
