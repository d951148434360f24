"""What a run is scored on: pairs of identities that training never saw, of its own data or of a list."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from hypersphere.core import Reporter
from hypersphere.data import Fitted, ImageSource, InMemory, NamedImages
from hypersphere.evaluation import Verification, embed, verify_pairs
from hypersphere.evaluation.protocols import read_pairs
from hypersphere.geometry import normalize
from hypersphere.pocket import VALIDATION, PocketFaces, verification_pairs
from hypersphere.training.checkpoints import load_weights
from hypersphere.training.finished_run import Trained, run_embedder
from hypersphere.training.recipe import Recipe
from hypersphere.training.training_data import readable_held_out

NO_VALIDATION = (
    "needs people whom training does not see: data.validation.identities=0.1 holds a tenth of the identities out,"
    " data.validation.pairs=LIST with data.validation.images=PATH scores a list of pairs"
)
"""What to tell somebody who asks for scores of data that have no validation set."""
_IDENTITIES = 200
_PAIRS = 6000


@dataclass(frozen=True)
class UnseenPairs:
    """Pairs of images of identities that are not in the training set.

    Args:
        recipe: whose normalisation and flip the images get.
        source: the images.
        left, right: (n,) indices of each pair's images.
        same: (n,) whether they show one person.
        people: (n,) numbers of the people on the left and on the right images.
        folds: (n,) the fold of each pair; ten consecutive parts by default.
        title: what the set is called.
    """

    recipe: Recipe
    source: ImageSource
    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    same: npt.NDArray[np.bool_]
    people: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None
    folds: npt.NDArray[np.int64] | None = None
    title: str = "unseen identities"

    @property
    def subjects(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Who is on the first image of every pair, and on the second."""
        if self.people is not None:
            return self.people
        labels = np.asarray(self.source.labels)
        return labels[self.left], labels[self.right]

    @property
    def people_on_images(self) -> npt.NDArray[np.int64]:
        """(images,) the number of the person on each image; -1 on one that is in no pair of a list."""
        if self.people is None:
            return np.asarray(self.source.labels)
        found = np.full(len(self.source), -1, dtype=np.int64)
        for places, people in zip((self.left, self.right), self.people, strict=True):
            found[places] = people
        return found

    def in_memory(self, device: torch.device | str, progress: Reporter | None = None) -> UnseenPairs:
        """Return the same pairs with their images decoded and held on a device."""
        held = self.source if isinstance(self.source, InMemory) else InMemory(self.source, "cpu", progress)
        return replace(self, source=held.to(device))

    def scores(self, network: nn.Module, device: str = "cpu") -> npt.NDArray[np.float32]:
        """Return the cosine of every pair."""
        unit = normalize(self.embeddings(network, device))
        scores: npt.NDArray[np.float32] = (
            (unit[torch.from_numpy(self.left)] * unit[torch.from_numpy(self.right)]).sum(1).numpy()
        )
        return scores

    def verify(self, network: nn.Module, device: str = "cpu") -> Verification:
        """Ten-fold verification accuracy of a network, with an interval over subjects."""
        return self.judge(self.scores(network, device))

    def judge(self, scores: npt.NDArray[np.float32]) -> Verification:
        """Return the verification of the pairs from their cosines."""
        return verify_pairs(scores, self.same, 10 if self.folds is None else self.folds, subjects=self.subjects)

    def verify_run(self, trained: Trained, device: str = "cpu") -> list[Verification]:
        """Return the verification by what a run left behind: by each of its late snapshots, or by its network."""
        if not trained.snapshots:
            return [self.verify(trained.backbone, device)]
        network, results = copy.deepcopy(trained.backbone), []
        for path in trained.snapshots:
            network.load_state_dict(load_weights(path))
            results.append(self.verify(network, device))
        return results

    def embeddings(self, network: nn.Module, device: str = "cpu") -> Tensor:
        """(images, dim); with `data.validation.flip` merged with those of the mirror images."""
        validation = self.recipe.data.validation
        flip = validation.flip_merge if validation.flip else "none"
        return embed(run_embedder(self.recipe, network, device, flip=flip), self.source)


def validation_sets(recipe: Recipe) -> list[UnseenPairs]:
    """Return what the checkpoints of a recipe are scored on; the first set decides which one is the best.

    Identities held out of the training images come first, then a list of pairs, as `data.validation` says; a recipe
    on pocket faces that says nothing is scored on pocket people never seen. Other data without `data.validation`
    have none.
    """
    sets = []
    settings = recipe.data.validation
    if settings.identities:
        held = readable_held_out(recipe.data)
        count = min(settings.count, _most_pairs(held))
        left, right, same = verification_pairs(held, count, seed=recipe.data.seed)
        sets.append(UnseenPairs(recipe, held, left, right, same, title="held-out identities"))
    if settings.pairs is not None:
        sets.append(_listed(recipe))
    if not sets and recipe.data.source == "pocket":
        sets.append(unseen_pairs(recipe))
    return sets


def _most_pairs(source: ImageSource) -> int:
    """Return how many pairs there are, half of them of one person."""
    labels = np.asarray(source.labels)
    images = np.bincount(labels[labels >= 0])
    same = int((images * (images - 1) // 2).sum())
    return 2 * max(1, min(same, math.comb(int(images.sum()), 2) - same))


def unseen_pairs(recipe: Recipe, identities: int = _IDENTITIES, pairs: int = _PAIRS) -> UnseenPairs:
    """Verification pairs of pocket people whom no recipe trains on."""
    data = recipe.data
    source = PocketFaces(
        num_identities=identities,
        images_per_identity=10,
        size=data.size,
        seed=data.seed,
        first_identity=VALIDATION.start,
        difficulty=data.difficulty,
        grey=data.grey,
    )
    left, right, same = verification_pairs(source, pairs, seed=data.seed)
    return UnseenPairs(recipe, source, left, right, same)


def _listed(recipe: Recipe) -> UnseenPairs:
    """Return the pairs of a list; every image must be there."""
    data, settings = recipe.data, recipe.data.validation
    assert settings.pairs is not None
    assert settings.images is not None
    pairs = read_pairs(settings.pairs)
    images = NamedImages(settings.images, pairs.names)
    pairs.check_images(images.missing, images.files)
    source = Fitted(images, data.size, grey=data.grey, resize=data.resize)
    sides = pairs.subjects if pairs.subjects is not None else (pairs.left, pairs.right)
    number = {name: place for place, name in enumerate(dict.fromkeys([*sides[0], *sides[1]]))}
    left_people, right_people = (_numbers(side, number) for side in sides)
    return UnseenPairs(
        recipe,
        source,
        images.find(pairs.left),
        images.find(pairs.right),
        pairs.same,
        (left_people, right_people),
        pairs.folds,
        pairs.title,
    )


def _numbers(names: Sequence[str], number: dict[str, int]) -> npt.NDArray[np.int64]:
    return np.array([number[name] for name in names], dtype=np.int64)
