"""Settings: a recipe with overrides, and what is measured of the network it leaves."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hypersphere.training import Recipe, load_recipe, run_key

_FOLDER = Path(__file__).parents[1] / "recipes"
RECIPES = {"mnist": _FOLDER / "mnist.toml", "faces": _FOLDER / "losses.toml", "cifar10": _FOLDER / "cifar10.toml"}
"""By the data."""
FACE_FILES = (
    "data.source=faces.tar",
    "data.validation.pairs=lfw-pairs.txt",
    "data.validation.images=lfw112.tar",
)
"""What the files of the real faces are called; a run's key knows only their names."""
FACE_NAMES = tuple(entry.partition("=")[2] for entry in FACE_FILES)
SMALL = "small: "
"""How titles of small runs begin."""


@dataclass(frozen=True)
class Setting:
    """One cell of an experiment.

    Args:
        name: in tables and legends.
        overrides: `key.sub=value` settings on top of the recipe.
        measure: of MNIST and CIFAR-10: `classes`: test images, with margins; `features`: those and the features
            themselves; `lengths`: those, and the longest over the shortest prototype after every step. Of faces:
            `verification`: pairs; `searches`: templates, distractors and trials besides; `rankings`: similarities of
            pairs, and rankings of the people held out; `features`: those of the images trained on; `margins`: their
            similarities and sample margins; `biases`: those of a classifier, beside its logits.
        data: `mnist`, `cifar10`, or `faces` (`recipes/losses.toml`), whose runs are those of a
            record file.
        small: whether a CPU trains it, in an item that has larger runs too; its title says so.

    Two settings with the same overrides and measure are one run, whatever their titles, and wherever their data lie.
    """

    name: str
    overrides: tuple[str, ...]
    measure: str
    data: str
    small: bool = False

    @property
    def title(self) -> str:
        """The name; `small: ` before that of a small run."""
        return f"{SMALL if self.small else ''}{self.name}"

    @property
    def cell(self) -> str:
        """What the record of a run calls it: `cosface, optimizer.lr=0.02`, whatever the title."""
        return ", ".join(self.overrides).removeprefix("head.name=")

    def recipe(self, seed: int) -> Recipe:
        """The resolved recipe of a seed."""
        return _recipe(self.data, self.overrides, seed)

    def key(self, seed: int) -> str:
        """What a run of this setting is filed under: its recipe, wherever its data lie, and what is measured."""
        recipe = self.recipe(seed)
        if self.data != "faces":
            recipe = replace(recipe, data=replace(recipe.data, source=self.data))
        return run_key(recipe) if self.measure == "verification" else f"{run_key(recipe)}-{self.measure}"

    def measured_by(self, measure: str) -> Setting:
        """The same training, measured otherwise."""
        return replace(self, measure=measure)

    def but(self, name: str, *overrides: str, small: bool = False) -> Setting:
        """The same with more overrides."""
        return replace(self, name=name, overrides=(*self.overrides, *overrides), small=small)


@functools.cache
def _recipe(data: str, overrides: tuple[str, ...], seed: int) -> Recipe:
    if data == "faces":
        return load_recipe(RECIPES[data], [*FACE_FILES, *overrides, f"train.seed={seed}"])
    engines = ["head.engine=dense"]
    if any(entry.startswith("second.head.name=") for entry in overrides):
        engines.append("second.head.engine=dense")
    return load_recipe(RECIPES[data], [*overrides, *engines, f"train.seed={seed}"])


def unique(settings: Iterable[Setting], seeds: Sequence[int]) -> dict[str, tuple[Setting, int]]:
    """The runs that settings need, each once, by key: seed by seed, so that one cut short leaves whole seeds, and of
    each seed larger networks first, so that none of them comes last.
    """
    wanted = list(settings)
    runs = {setting.key(seed): (setting, seed) for seed in seeds for setting in wanted}
    order = sorted(runs, key=lambda key: (runs[key][1], runs[key][0].recipe(runs[key][1]).backbone["name"] == "cnn4"))
    return {key: runs[key] for key in order}
