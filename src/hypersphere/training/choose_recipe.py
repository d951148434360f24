"""What a name means to `train`: a recipe by its file or name, or images, which get a recipe of their own."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path

from hypersphere.core import digest, to_toml
from hypersphere.data import open_source
from hypersphere.training.own_data import suggest_recipe
from hypersphere.training.recipe import Recipe, load_recipe, recipe_from_table, recipe_keys
from hypersphere.training.recipe_names import SHIPPED_RECIPES, find_recipe
from hypersphere.training.recipe_tables import merge_tables, with_settings

ELSEWHERE = {
    "lr": "optimizer.lr",
    "learning_rate": "optimizer.lr",
    "weight_decay": "optimizer.weight_decay",
    "loss": "head.name",
    "backbone": "backbone.name",
    "network": "backbone.name",
    "data": "data.source",
}
"""What other tools call their options, and the recipe's key for it."""


@dataclass(frozen=True)
class ChosenRecipe:
    """A recipe, and for images the text of the one that was made for them."""

    recipe: Recipe
    suggested: str | None = None


def choose_recipe(
    name: str, settings: Sequence[str], *, device: str = "cpu", folder: str | Path = SHIPPED_RECIPES
) -> ChosenRecipe:
    """Return the recipe that is meant; one for images is made from what they are.

    Args:
        name: a recipe's name, a TOML file, or images: a folder, a list, an archive.
        settings: `key.sub=value`, laid over the recipe.
        device: that will train: `cpu` or `cuda`.
        folder: where recipes are found by name.
    """
    if not is_data(name):
        return ChosenRecipe(load_recipe(find_recipe(name, folder), settings))
    changed = with_settings({}, settings)
    source = open_source(name, changed.get("data", {}).get("format"))
    table = suggest_recipe(source, name, device, changed)
    return ChosenRecipe(recipe_from_table(table, settings), to_toml(merge_tables(table, changed)))


def run_folder(name: str, recipe: Recipe) -> Path:
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


def as_setting(words: Sequence[str]) -> str:
    """Return an option that is none, and its value, as the setting of a recipe that is meant, or as an example.

    Example:
        >>> as_setting(["--batch-size", "64"])
        'train.batch_size=64'
    """
    option, _, value = words[0].partition("=")
    value = value or next((word for word in words[1:2] if not word.startswith("-")), "VALUE")
    by_end = dict(ELSEWHERE)
    for key in recipe_keys():
        by_end[key.rpartition(".")[2]] = by_end[key.replace(".", "_")] = key
    close = difflib.get_close_matches(option.removeprefix("--").replace("-", "_"), by_end, n=1, cutoff=0.75)
    return f"{by_end[close[0]]}={value}" if close else "train.batch_size=64, for example"
