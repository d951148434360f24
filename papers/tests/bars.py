"""Digits that are not MNIST, and settings that train on them."""

from pathlib import Path

import numpy as np

from hypersphere_papers.engine.setting import Setting


def bars(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten classes: a bright bar at one of ten heights, under noise."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % 10
    images = random.integers(0, 60, (count, 28, 28))
    for image, label in zip(images, labels, strict=True):
        image[2 * label + 4 : 2 * label + 7, 4:24] += 180
    return images.astype(np.uint8), labels.astype(np.uint8)


def write_bars(path: Path, train: int = 300, test: int = 100) -> Path:
    """Write so many of them in MNIST's layout."""
    (images, labels), (test_images, test_labels) = bars(train, 0), bars(test, 1)
    np.savez(path, train_images=images, train_labels=labels, test_images=test_images, test_labels=test_labels)
    return path


def classifier(title: str, head: str, *overrides: str) -> Setting:
    """620 steps of a classifier of digits."""
    return Setting(title, (f"head.name={head}", "train.steps=620", *overrides), "classes", "mnist")
