"""Comparisons: the cells of a table of heads, settings and seeds."""

from __future__ import annotations

import itertools
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from hypersphere.core import read_json, to_value, write_atomically
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


def check_same_plugins(folder: str | Path, plugins: Mapping[str, str]) -> None:
    """Refuse to go on with runs that other code has trained: a recipe only knows its loss by name.

    Args:
        folder: of the comparison; it gets `plugins.json`.
        plugins: names of files with their digests, as `load_plugins` returns them.
    """
    path = Path(folder) / "plugins.json"
    before = read_json(path) if path.exists() else {}
    changed = sorted(name for name in plugins.keys() & before.keys() if plugins[name] != before[name])
    if changed:
        raise ValueError(
            f"{folder} has runs of another version of {changed[0]}; name another folder, or remove this one to train"
            " all of them again"
        )
    if plugins.items() - before.items():
        write_atomically(path, json.dumps({**before, **plugins}, indent=2, sort_keys=True).encode())


def _split(values: str) -> list[str]:
    """Return the values of an axis, cut at the commas outside brackets and quotes."""
    try:
        return [to_value(entry) for entry in tomllib.loads(f"values = [{values}]")["values"]]
    except tomllib.TOMLDecodeError:
        return values.split(",")
