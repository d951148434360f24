"""What runs on MNIST and CIFAR-10 train on, and what is measured of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hypersphere.data import ImageSource
from hypersphere.training import DataSettings, Recipe, Trained, Trainer, UnseenPairs, training_source
from hypersphere_papers.engine import measure
from hypersphere_papers.engine.cifar10 import open_objects
from hypersphere_papers.engine.mnist import open_digits


def class_images(data: DataSettings, folder: Path) -> tuple[ImageSource, ImageSource]:
    """What a recipe trains on, imbalanced and noisy as it says; and the test images of the data set.

    Args:
        data: of the recipe.
        folder: of decoded images.
    """
    path = Path(data.source)
    train, test = open_digits(path) if data.grey else open_objects(path, folder, data.size)
    return training_source(data, train), test


@dataclass
class ClassMeasure:
    """Follows a run on classes and measures its network; one for every run.

    Args:
        kind: as of `Setting`: `classes`, `features` or `lengths`.
        recipe: of the run.
        folder: of decoded images.
        history: at checkpoints before the end: step, accuracy, class and sample margin.
        lengths: longest over shortest prototype after every step.
    """

    kind: str
    recipe: Recipe
    folder: Path
    history: list[tuple[float, ...]] = field(default_factory=list)
    lengths: list[Tensor] = field(default_factory=list)

    def source(self, recipe: Recipe) -> ImageSource:
        """Open the training images."""
        return class_images(recipe.data, self.folder)[0]

    def watch(self, trainer: Trainer) -> Callable[[], None] | None:
        """Measure a stage at its checkpoints, and its prototypes after every step where their lengths are asked for."""
        stage, head = trainer.recipe, trainer.head
        _, new = class_images(stage.data, self.folder)

        def look(network: nn.Module) -> dict[str, float]:
            embed = measure.embedder(stage, network, str(trainer.world.device))
            numbers, _ = measure.measure_classes(embed, head, new)
            names = ("accuracy", "class margin", "sample margin")
            self.history.append((trainer.step, *(numbers[name] for name in names)))
            return {"accuracy": numbers["accuracy"]}

        def note_lengths() -> None:
            lengths = head.weight.detach().norm(dim=1)
            self.lengths.append(lengths.max() / lengths.min())  # waited for at the end, not at every step

        if stage.train.checkpoint_every < trainer.total:
            trainer.evaluate, trainer.keep_best = look, False
        return note_lengths if self.kind == "lengths" else None

    def __call__(self, trained: Trained, sets: Sequence[UnseenPairs], device: str) -> Mapping[str, Any]:
        """Measure the network at the end."""
        train, new = class_images(self.recipe.data, self.folder)
        embed = measure.embedder(self.recipe, trained.backbone, device)
        numbers, arrays = measure.measure_classes(embed, trained.head, new)
        fit_numbers, fit_arrays = measure.measure_fit(embed, trained.head, train)
        arrays |= fit_arrays
        if self.kind == "features":
            arrays |= measure.measure_features(embed, trained.head, train, new)
        if self.history:
            arrays["history"] = np.array(self.history)
        if self.lengths:
            arrays["lengths"] = torch.stack(self.lengths).float().cpu().numpy()
        return {name: value for name, value in (numbers | fit_numbers).items() if math.isfinite(value)} | arrays
