"""The training images of a recipe: opened, cut down, made imbalanced or noisy as it says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from hypersphere.data import (
    ImageSource,
    PocketFaces,
    Subset,
    imbalance,
    long_tailed_counts,
    noisy_labels,
    open_source,
    step_counts,
)
from hypersphere.data.images import Image
from hypersphere.data.source import Indices, Labels
from hypersphere.training.recipe import DataSettings


def training_source(settings: DataSettings) -> ImageSource:
    """The images that a recipe trains on."""
    source = _open(settings)
    if settings.most_images is not None:
        source = Subset(source, _most_images(source.labels, settings.most_images))
    if settings.imbalance is not None:
        source = Subset(source, imbalance(source.labels, _counts(source, settings), settings.seed))
    if settings.label_noise:
        noisy = noisy_labels(source.labels, settings.label_noise, source.num_classes, settings.seed)
        source = Relabelled(source, noisy)
    return source


@dataclass(frozen=True)
class Relabelled:
    """A source with other labels."""

    source: ImageSource
    labels: Labels

    @property
    def num_classes(self) -> int:
        return self.source.num_classes

    def __len__(self) -> int:
        return len(self.source)

    def read(self, index: int) -> Image:
        return self.source.read(index)

    def describe(self, index: int) -> str:
        return self.source.describe(index)

    def batch(self, indices: Indices) -> Tensor:
        return self.source.batch(indices)


def _open(settings: DataSettings) -> ImageSource:
    if not settings.source:
        raise ValueError("data.source is empty: this recipe needs a data set of yours, data.source=PATH")
    if settings.source != "pocket":
        return open_source(settings.source, settings.format)
    return PocketFaces(
        num_identities=settings.identities,
        images_per_identity=settings.images_per_identity,
        size=settings.size,
        seed=settings.seed,
        difficulty=settings.difficulty,
        grey=settings.grey,
    )


def _counts(source: ImageSource, settings: DataSettings) -> Labels:
    largest = int(np.bincount(source.labels[source.labels >= 0]).min())
    if settings.imbalance == "step":
        return step_counts(source.num_classes, largest, settings.imbalance_ratio, settings.minority)
    return long_tailed_counts(source.num_classes, largest, settings.imbalance_ratio)


def _most_images(labels: Labels, count: int) -> Labels:
    sizes = np.bincount(labels[labels >= 0])
    if not 2 <= count <= len(sizes):
        raise ValueError(f"most_images={count} must be between 2 and the {len(sizes)} identities there are")
    largest = np.argsort(-sizes, kind="stable")[:count]
    return np.flatnonzero(np.isin(labels, largest))
