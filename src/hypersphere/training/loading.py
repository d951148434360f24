"""The images of every step: opened, loaded ahead, augmented, each a function of (seed, step) alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hypersphere.core import Reporter
from hypersphere.data import (
    Augmentation,
    AugmentedSteps,
    ImageSource,
    InMemory,
    Prefetcher,
    ProcessPrefetcher,
    cutmix,
    mixup,
)
from hypersphere.distributed import World
from hypersphere.training.build import make_batches
from hypersphere.training.recipe import Recipe, TrainSettings
from hypersphere.training.training_data import readable_source, training_source

Loaded = tuple[Tensor, Tensor]
Loader = Prefetcher[Loaded] | ProcessPrefetcher[Loaded]
Mixture = tuple[Tensor, Tensor, Tensor | float, Tensor | float]
"""Images mixed in pairs, with whom each was mixed, and the shares of its own label and of the other's."""
_AHEAD = 8
"""Steps whose augmentation is planned at once where a GPU augments: there the steps come one after another."""


class TrainingImages:
    """The images and labels of a run, step by step.

    Args:
        recipe: of the run.
        folder: of the run; the list of unreadable images lies there.
        world: the processes that train together, each with its part of every batch.
        source: the images; made from the recipe by default.
        workers: processes that load images ahead; 0 loads them when needed, as do images held in memory.
        compile: compile the augmentation on a GPU.
        checking: called as `checking(done, total)` while the images are read once.
    """

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        world: World,
        *,
        source: ImageSource | None,
        workers: int,
        compile: bool,  # noqa: A002
        checking: Reporter | None,
    ) -> None:
        self.recipe, self.world, self.device = recipe, world, world.device
        self.source = source if source is not None else _readable(recipe, folder, world, checking)
        if recipe.data.device is not None and not isinstance(self.source, InMemory):
            self.source = InMemory(self.source, _memory(recipe.data.device, self.device), checking)
        self.workers = 0 if isinstance(self.source, InMemory) else workers
        self.labels = torch.from_numpy(np.asarray(self.source.labels, dtype=np.int64))
        _check_labels(self.labels, self.source.num_classes)
        self.unlabelled = bool((self.labels < 0).any())
        ahead, compiled = 1 if self.device.type == "cpu" else _AHEAD, compile and self.device.type == "cuda"
        self.augment = AugmentedSteps(recipe.augment, self._draw, ahead=ahead, compile=compiled)
        self.batches = make_batches(recipe, self.source, world)

    def loader(self, start: int, stop: int) -> Loader:
        """Return what loads the batches of the steps from `start` to `stop`, ahead of them where there are workers."""
        if not self.workers:
            return Prefetcher(self.load, start=start, stop=stop, workers=0)
        pin = self.device.type == "cuda"
        return ProcessPrefetcher(self.load, start=start, stop=stop, workers=self.workers, pin=pin)

    def load(self, step: int) -> Loaded:
        """Return the images and labels of a step; the images are augmented already where the CPU does that."""
        indices = self.batches.batch_at(step)
        images, labels = self.source.batch(indices), self.labels[torch.from_numpy(indices)]
        return (self._augmented(images, step) if self.device.type == "cpu" else images), labels

    def to_device(self, images: Tensor, labels: Tensor, step: int) -> Loaded:
        """Return what was loaded for a step on the device of the network; a GPU augments there."""
        if self.device.type != "cpu":
            images = self._augmented(images.to(self.device, non_blocking=True), step)
            labels = labels.to(self.device, non_blocking=True)
        return images, labels

    def plain(self, indices: Tensor) -> Tensor:
        """Return images of the source, normalised and not augmented, on the device of the network."""
        images = self.source.batch(indices.numpy()).to(self.device, non_blocking=True)
        normalised = Augmentation(mean=self.recipe.augment.mean, std=self.recipe.augment.std)
        return normalised(images, torch.Generator()).contiguous(memory_format=torch.channels_last)

    def _augmented(self, images: Tensor, step: int) -> Tensor:
        return self.augment(images, step).contiguous(memory_format=torch.channels_last)

    def _draw(self, step: int, images: int) -> Tensor:
        """Return the random numbers of a step's images, those that they have if one process sees the whole batch."""
        generator = torch.Generator().manual_seed(mix_seed(self.recipe.train.seed, step))
        self.recipe.augment.draw(self.world.rank * images, generator)  # those of the ranks before
        return self.recipe.augment.draw(images, generator)


def mix(images: Tensor, mixing: torch.Generator, settings: TrainSettings) -> Mixture:
    """Return the images mixed in pairs; where the recipe has both ways, a fair coin chooses one (as timm does)."""
    ways = [(way, alpha) for way, alpha in ((mixup, settings.mixup), (cutmix, settings.cutmix)) if alpha]
    way, alpha = ways[int(torch.randint(2, (), generator=mixing)) if len(ways) == 2 else 0]
    mixed, order, share = way(images, mixing, alpha)
    return mixed, order, share, 1 - share


def mix_seed(*numbers: int) -> int:
    """Return one 63-bit seed made of several numbers."""
    mixed = 0
    for number in numbers:
        mixed = (mixed * 6364136223846793005 + number + 1442695040888963407) % 2**63
    return mixed


def _readable(recipe: Recipe, folder: Path, world: World, checking: Reporter | None) -> ImageSource:
    """Return the images that can be read; the main process tries all, and the others read the list that it wrote."""
    source, data = training_source(recipe.data), recipe.data
    if not world.is_main:
        world.barrier()
        return readable_source(source, data, folder, listed=True)
    readable = readable_source(source, data, folder, checking)
    world.barrier()
    return readable


def _memory(asked: str, device: torch.device) -> torch.device:
    """Return where images are held: on the device that trains, or in the machine's memory."""
    if asked == "cuda" and device.type != "cuda":
        raise ValueError(f"data.device='cuda', but the run is on {device.type}: use data.device=cpu")
    return device if asked == "cuda" else torch.device("cpu")


def _check_labels(labels: Tensor, num_classes: int) -> None:
    if len(labels) and not (int(labels.min()) >= -1 and int(labels.max()) < num_classes):
        raise ValueError(
            f"labels lie between {int(labels.min())} and {int(labels.max())}: with {num_classes} classes they must be"
            f" 0 to {num_classes - 1}, or -1"
        )
