"""MNIST, from idx files or an `.npz` file."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.data import ArraySource, open_mnist, read_npz


@functools.cache
def open_digits(path: Path) -> tuple[ArraySource, ArraySource]:
    """MNIST's training and test images, read once.

    Args:
        path: a folder of idx files, plain or gzipped, or an `.npz` file with `train_images`, `train_labels`,
            `test_images` and `test_labels`.
    """
    if path.is_dir():
        train, test = (open_mnist(path, split) for split in ("train", "test"))
        arrays = [np.stack([source.read(i) for i in range(len(source))])[..., 0] for source in (train, test)]
        return _digits(arrays[0], train.labels), _digits(arrays[1], test.labels)
    names = [f"{split}_{what}" for split in ("train", "test") for what in ("images", "labels")]
    try:
        found = read_npz(path)
    except ValueError as error:
        raise ValueError(f"{error}; expected that, or a folder of idx files") from None
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"{path}: no {', '.join(missing)}; expected {', '.join(names)}")
    train_images, train_labels, test_images, test_labels = (found[name] for name in names)
    return _digits(train_images, train_labels), _digits(test_images, test_labels)


def _digits(images: npt.NDArray[Any], labels: npt.NDArray[Any]) -> ArraySource:
    if images.dtype != np.uint8 or images.shape[1:] != (28, 28) or labels.shape != images.shape[:1]:
        raise ValueError(f"MNIST has bytes (N, 28, 28) and labels (N,), not {images.shape} and {labels.shape}")
    return ArraySource(images[..., None], labels.astype(np.int64), where="MNIST")
