"""Comparisons: the cells of a table of heads, settings and seeds."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Sequence
from pathlib import Path

from hypersphere.core import to_value
from hypersphere.training.build import check_parts
from hypersphere.training.recipe import Recipe, load_recipe


def compare_cells(
    path: str | Path, settings: Sequence[str], heads: Sequence[str], grid: Sequence[str], seeds: int
) -> list[tuple[str, list[Recipe]]]:
    """Return every cell of a table: its title, and its recipes over the seeds, all of them checked.

    Args:
        path: the recipe.
        settings: overrides of every cell.
        heads: losses to compare; the recipe's own if none.
        grid: `key=v1,v2,...`, each one axis of the table.
        seeds: runs of each cell, seeds 0, 1, ...
    """
    axes = [[[f"head.name={name}"] for name in heads]] if heads else []
    for axis in grid:
        key, equals, values = axis.partition("=")
        if not equals or not values:
            raise ValueError(f"--grid {axis!r} is no axis: write key.sub=value,value,...")
        axes.append([[f"{key}={value}"] for value in _split(values)])
    cells = []
    for cell in itertools.product(*axes):
        chosen = list(itertools.chain(*cell))
        recipes = [load_recipe(path, [*settings, *chosen, f"train.seed={seed}"]) for seed in range(seeds)]
        title = ", ".join(setting.removeprefix("head.name=") for setting in chosen) or Path(path).stem
        try:
            for stage in recipes[0].stages():
                check_parts(stage)
        except ValueError as error:
            raise ValueError(f"{title}: {error}") from None
        cells.append((title, recipes))
    return cells


def _split(values: str) -> list[str]:
    """Return the values of an axis, cut at the commas outside brackets and quotes."""
    try:
        return [to_value(entry) for entry in tomllib.loads(f"values = [{values}]")["values"]]
    except tomllib.TOMLDecodeError:
        return values.split(",")
