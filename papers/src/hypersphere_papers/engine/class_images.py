"""What settings on MNIST and CIFAR-10 train on and are tested on."""

from __future__ import annotations

from pathlib import Path

from hypersphere.data import ImageSource
from hypersphere.training import DataSettings, training_source
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
