"""Comparisons: the cells of a table of heads, settings and seeds, and pairs of identities that training never saw."""

from __future__ import annotations

import copy
import itertools
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from hypersphere.core.config import to_value
from hypersphere.data import ImageSource, PocketFaces, verification_pairs
from hypersphere.evaluation import Verification, embed, verify_pairs
from hypersphere.geometry import normalize
from hypersphere.training.checkpoints import load_weights
from hypersphere.training.recipe import Recipe, load_recipe
from hypersphere.training.trainer import Trained

_IDENTITIES = 200
_PAIRS = 6000


@dataclass(frozen=True)
class UnseenPairs:
    """Pairs of images of identities that are not in the training set."""

    recipe: Recipe
    source: ImageSource
    left: np.ndarray
    right: np.ndarray
    same: np.ndarray

    @property
    def subjects(self) -> tuple[np.ndarray, np.ndarray]:
        """Who is on the first image of every pair, and on the second."""
        labels = np.asarray(self.source.labels)
        return labels[self.left], labels[self.right]

    def scores(self, network: nn.Module, device: str = "cpu") -> np.ndarray:
        """The cosine of every pair."""
        unit = normalize(embed(network, self.source, preparation=self.recipe.augment, device=device))
        return (unit[torch.from_numpy(self.left)] * unit[torch.from_numpy(self.right)]).sum(1).numpy()

    def verify(self, network: nn.Module, device: str = "cpu") -> Verification:
        """Ten-fold verification accuracy of a network, with an interval over subjects."""
        return verify_pairs(self.scores(network, device), self.same, subjects=self.subjects)

    def verify_run(self, trained: Trained, device: str = "cpu") -> list[Verification]:
        """The same of what a run left behind: of its late snapshots one by one, or of its network."""
        if not trained.snapshots:
            return [self.verify(trained.backbone, device)]
        network, results = copy.deepcopy(trained.backbone), []
        for path in trained.snapshots:
            network.load_state_dict(load_weights(path))
            results.append(self.verify(network, device))
        return results


def unseen_pairs(recipe: Recipe, identities: int = _IDENTITIES, pairs: int = _PAIRS) -> UnseenPairs | None:
    """Verification pairs for a recipe on pocket faces; None for other data, whose test sets are elsewhere."""
    data = recipe.data
    if data.source != "pocket":
        return None
    source = PocketFaces(
        num_identities=identities,
        images_per_identity=10,
        size=data.size,
        seed=data.seed,
        first_identity=10_000_000,
        difficulty=data.difficulty,
        grey=data.grey,
    )
    left, right, same = verification_pairs(source, pairs, seed=data.seed)
    return UnseenPairs(recipe, source, left, right, same)


def compare_cells(
    path: str | Path, settings: Sequence[str], heads: Sequence[str], grid: Sequence[str], seeds: int
) -> Iterator[tuple[str, list[Recipe]]]:
    """Every cell of a table: its title, and its recipes over the seeds.

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
    for cell in itertools.product(*axes):
        chosen = list(itertools.chain(*cell))
        recipes = [load_recipe(path, [*settings, *chosen, f"train.seed={seed}"]) for seed in range(seeds)]
        yield ", ".join(setting.removeprefix("head.name=") for setting in chosen) or Path(path).stem, recipes


def _split(values: str) -> list[str]:
    """The values of an axis, cut at the commas outside brackets and quotes."""
    try:
        return [to_value(entry) for entry in tomllib.loads(f"values = [{values}]")["values"]]
    except tomllib.TOMLDecodeError:
        return values.split(",")
