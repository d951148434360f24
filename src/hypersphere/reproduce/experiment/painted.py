"""What settings train on and are tested on: MNIST, CIFAR-10, or pocket faces, painted once and mapped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from hypersphere.core import digest, whole_file
from hypersphere.core.read_arrays import read_npy
from hypersphere.data import ArraySource, ImageSource, Subset
from hypersphere.pocket import TEST, PocketFaces
from hypersphere.reproduce.experiment.cifar10 import open_objects
from hypersphere.reproduce.experiment.mnist import open_digits
from hypersphere.training.recipe import DataSettings
from hypersphere.training.training_data import training_source

UNSEEN, IMAGES = 400, 10
NEW_IMAGES = 100
"""Of every class, for testing classifiers: those after the ones trained on."""
_PIECE = 500


def painted(faces: PocketFaces, folder: Path) -> ArraySource:
    """The same images from a file of `folder`, painted now where it is not there."""
    what = {
        "people": faces.num_classes,
        "images": faces.images_per_identity,
        "size": faces.size,
        "seed": faces.seed,
        "first": faces.first_identity,
        "difficulty": faces.difficulty,
        "grey": faces.grey,
    }
    path = folder / f"{digest(what)}.npy"
    if not path.is_file():
        starts = range(0, len(faces), _PIECE)
        parts = [faces.batch(range(at, min(at + _PIECE, len(faces)))) for at in starts]
        with whole_file(path) as partial:
            np.save(partial, np.concatenate([part.permute(0, 2, 3, 1).numpy() for part in parts]))
    return ArraySource(read_npy(path, mapped=True), faces.labels, where="pocket faces")


def _faces(data: DataSettings, identities: int, images: int, first: int = 0) -> PocketFaces:
    return PocketFaces(
        num_identities=identities,
        images_per_identity=images,
        size=data.size,
        seed=data.seed,
        first_identity=first,
        difficulty=data.difficulty,
        grey=data.grey,
    )


def training_images(data: DataSettings, folder: Path, *, new: bool = False) -> tuple[ImageSource, ImageSource | None]:
    """What a recipe trains on, imbalanced and noisy as it says; with `new`, also other images of the same classes.

    Args:
        data: of the recipe.
        folder: of painted and of decoded images.
        new: whether other images are wanted: later ones of the same people, or the test images of MNIST and CIFAR-10.
    """
    if data.source != "pocket":
        path = Path(data.source)
        whole, tested = open_digits(path) if data.grey else open_objects(path, folder, data.size)
        return training_source(data, whole), tested
    own = data.images_per_identity
    if not new:
        return training_source(data, painted(_faces(data, data.identities, own), folder)), None
    everything = painted(_faces(data, data.identities, own + NEW_IMAGES), folder)
    number = np.arange(len(everything)) % (own + NEW_IMAGES)
    train, test = (Subset(everything, np.flatnonzero(chosen)) for chosen in (number < own, number >= own))
    return training_source(data, train), test


def unseen_images(data: DataSettings, folder: Path) -> ArraySource:
    """400 people never seen, of the kind that a recipe trains on."""
    return painted(_faces(data, UNSEEN, IMAGES, TEST.start), folder)


def unseen_labels() -> npt.NDArray[np.int64]:
    """Who is on each of the unseen images."""
    return np.repeat(np.arange(UNSEEN, dtype=np.int64), IMAGES)


def paint_all(data: DataSettings, folder: Path, measure: str) -> None:
    """Paint what a run of these data needs, before many processes ask for it at once."""
    training_images(data, folder, new=measure != "people")
    if measure == "people":
        unseen_images(data, folder)
