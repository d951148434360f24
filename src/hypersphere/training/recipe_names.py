"""Recipes by name: `pocket/faces` is the file `pocket/faces.toml` of the package."""

from __future__ import annotations

import difflib
from pathlib import Path

SHIPPED_RECIPES = Path(__file__).parents[1] / "recipes"
"""The recipes of this version: files of the package, in a checkout a link to its folder `recipes`."""


def recipe_names(folder: str | Path = SHIPPED_RECIPES) -> dict[str, Path]:
    """Return the recipes below a folder by their names: the path from there, without `.toml`."""
    folder = Path(folder)
    files = sorted(folder.rglob("*.toml"))
    if not files:
        raise ValueError(f"{folder}: no recipes there; name their folder with --recipes")
    return {file.relative_to(folder).with_suffix("").as_posix(): file for file in files}


def find_recipe(name: str | Path, folder: str | Path = SHIPPED_RECIPES) -> Path:
    """Return the file of a recipe.

    Args:
        name: a TOML file, or the name of a recipe below `folder`.
        folder: of recipes; those of this version by default.

    Example:
        >>> find_recipe("pocket/faces").name
        'faces.toml'
    """
    if Path(name).exists():
        return Path(name)
    known = recipe_names(folder)
    if str(name) in known:
        return known[str(name)]
    raise ValueError(f"{name}: neither a file nor a recipe; {_hint(str(name), list(known))}")


def _hint(name: str, known: list[str]) -> str:
    """Return the recipes that may be meant: the one whose name is alike, or else those whose last part is."""
    bare = name.removeprefix("recipes/").removesuffix(".toml")
    close = difflib.get_close_matches(bare, known, n=1, cutoff=0.8)
    if not close:
        last = difflib.get_close_matches(bare.rpartition("/")[2], [each.rpartition("/")[2] for each in known], n=1)
        close = [each for each in known if last and each.rpartition("/")[2] == last[0]]
    meant = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    return f"{meant}`hypersphere train --list` names all"
