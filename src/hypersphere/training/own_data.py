"""A recipe for images that nobody wrote one for: network, size, augmentation and head by how much there is to see.

The values follow what is published for small sets: up to some 100,000 images an IResNet-18 rather than a deeper one;
scales near 32 instead of 64 for thousands of people; a margin that grows over the first third of the run; rotation,
crop, changes of resolution, light and colour, each for a fifth of the images (AdaFace); many passes over few images.
Without a GPU, a small SFNet on small images.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.core import build, check_choice
from hypersphere.data import ImageSource, UnreadableImage
from hypersphere.training.recipe import TrainSettings, ValidationSettings
from hypersphere.training.recipe_tables import merge_tables

_SIDES = (32, 64, 112)
_SAMPLED = 32
_EPOCHS = 10, 100
_LEAST_PAIRS = 20


def suggest_recipe(
    source: ImageSource, path: str | Path, device: str = "cpu", changes: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a recipe for a set of images, as a table with what it chooses: all else keeps its default.

    Args:
        source: the images, opened; some are read for their size.
        path: where they are, the recipe's `data.source`.
        device: `cpu` or `cuda`, what it will be trained on.
        changes: a table that is laid over the recipe; the length of the run is taken from there where it has one.

    Example:
        >>> recipe = recipe_from_table(suggest_recipe(hs.data.open_source("people"), "people"))
    """
    check_choice("device", device, ("cpu", "cuda"))
    people, images = source.num_classes, len(source)
    if people < 2:
        raise ValueError(
            f"{path}: training needs images of at least two people, each with a label; here are {images:,} images of"
            f" {people}"
        )
    gpu = device == "cuda"
    epochs = min(max((2_000_000 if gpu else 60_000) // images, _EPOCHS[0]), _EPOCHS[1])
    train = {"epochs": float(epochs), "batch_size": min(128 if gpu else 32, images)}
    train = merge_tables(train, (changes or {}).get("train", {}))
    settings = build(TrainSettings, train, "train")
    steps = settings.steps or (settings.epochs or 1) * math.ceil(images / settings.batch_size)
    size = _size(source, str(path), 112 if gpu else 64)
    return {
        "about": f"{people:,} people, {images:,} images",
        "data": {"source": str(path), "size": size, "resize": True, **_validation(source)},
        "augment": _augmentation(size),
        "backbone": _backbone(images, gpu),
        "head": {"name": "arcface", **_margin(people), "margin_steps": max(1, int(steps / 3))},
        **(_sgd() if gpu else _adamw()),
        "train": {"precision": "bfloat16", **train} if gpu else train,
    }


def _validation(source: ImageSource) -> dict[str, Any]:
    """Some people are held out to score the run on, where enough are left to learn from.

    As many pairs as whoever is drawn is sure to have, up to `ValidationSettings.count`.
    """
    people, labels = source.num_classes, np.asarray(source.labels)
    each = np.bincount(labels[labels >= 0], minlength=people)
    several = np.sort(each[each >= 2])
    held = 500 if people >= 5000 else round(0.1 * people)
    least = several[:held]
    count = min(ValidationSettings().count, int((least * (least - 1)).sum()))
    if people < 100 or len(several) < held or count < _LEAST_PAIRS:
        return {}
    return {"validation": {"identities": 500.0 if people >= 5000 else 0.1, "count": count}}


def _backbone(images: int, gpu: bool) -> dict[str, Any]:
    if not gpu:
        return {"name": "sfnet4", "dim": 128, "batch_norm": True}
    name = "iresnet18" if images < 100_000 else "iresnet50" if images < 1_000_000 else "iresnet100"
    return {"name": name, "dim": 512, "dropout": 0.4 if images < 100_000 else 0.0}


def _margin(people: int) -> dict[str, float]:
    """ArcFace's scale and margin: both grow with the number of people to be told apart."""
    if people < 1000:
        return {"scale": 24.0, "margin": 0.3}
    return {"scale": 32.0, "margin": 0.4} if people < 20_000 else {"scale": 64.0, "margin": 0.5}


def _augmentation(size: list[int]) -> dict[str, Any]:
    return {
        "flip": 0.5,
        "shift": 0.5,
        "max_shift": max(1, max(size) // 16),
        "rotate": 0.2,
        "crop": 0.2,
        "low_resolution": 0.2,
        "photometric": 0.2,
        "grey": 0.1,
    }


def _sgd() -> dict[str, Any]:
    schedule = {"name": "cosine", "warmup": 1.0, "unit": "epoch"}
    return {"optimizer": {"name": "sgd", "lr": 0.1, "weight_decay": 5e-4}, "schedule": schedule}


def _adamw() -> dict[str, Any]:
    return {"optimizer": {"name": "adamw", "lr": 0.002, "weight_decay": 5e-4}, "schedule": {"name": "cosine"}}


def _size(source: ImageSource, path: str, most: int) -> list[int]:
    """Height and width: the images' own shape, no larger than need be; sides are multiples of 16."""
    shapes, cause = [], ""
    for index in np.unique(np.linspace(0, len(source) - 1, _SAMPLED).round().astype(int)).tolist():
        try:
            shapes.append(source.read(index).shape[:2])
        except UnreadableImage as error:
            cause = str(error)
    if not shapes:
        raise ValueError(f"{path}: none of the {min(_SAMPLED, len(source))} images looked at can be read: {cause}")
    height, width = np.median(np.array(shapes), axis=0)
    longest = max(height, width)
    side = next((each for each in _SIDES if each >= min(longest, most)), most)
    return [max(16, 16 * round(side * float(each) / float(longest) / 16)) for each in (height, width)]
