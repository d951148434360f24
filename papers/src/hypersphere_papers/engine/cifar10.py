"""CIFAR-10, decoded once into files that every process maps."""

from __future__ import annotations

import functools
import lzma
import shutil
import warnings
from pathlib import Path

import numpy as np

from hypersphere.core import digest, file_digest, read_sealed, sealed_text, whole_file, write_atomically
from hypersphere.data import ArraySource, Fitted, InMemory, open_source, read_npy

SPLITS = ("train", "test")
SIZE = (32, 32)


def is_cifar(path: Path) -> bool:
    """Whether a path looks like what `open_objects` takes."""
    if path.is_dir():
        return (path / "data_batch_1.bin").is_file() or all((path / split).is_dir() for split in SPLITS)
    return path.name.endswith((".tar", ".tar.xz"))


@functools.cache
def open_objects(path: Path, folder: Path, size: tuple[int, int] = SIZE) -> tuple[ArraySource, ArraySource]:
    """CIFAR-10's training and test images.

    Args:
        path: a folder with the binary version or with `split/class/image`, or a tar archive of the latter, plain or
            with xz.
        folder: where the decoded images are kept.
        size: height and width; the images have 32 x 32, and are resized to another.
    """
    if not path.exists():
        raise ValueError(f"{path} is missing; expected CIFAR-10 as a folder or a tar archive")
    about = path.stat()
    name = digest({"path": str(path.resolve()), "size": about.st_size, "time": about.st_mtime_ns})
    if size != SIZE:
        name = f"{name}-{size[0]}x{size[1]}"
    files = [[folder / f"{name}-{split}-{what}.npy" for what in ("images", "labels")] for split in SPLITS]
    digests = folder / f"{name}-digests.json"
    if not _are_whole(digests):
        plain = _unpacked(path, folder / f"{name}.tar") if path.suffix == ".xz" else path
        for split, (images, labels) in zip(SPLITS, files, strict=True):
            source = open_source(plain, "tar" if plain.is_file() else "cifar", split=split)
            held = InMemory(Fitted(source, size, resize=size != SIZE))
            for file, array in ((images, held.images.permute(0, 2, 3, 1).numpy()), (labels, held.labels)):
                with whole_file(file) as partial:
                    np.save(partial, array)
        if plain != path:
            plain.unlink()
        kept = {file.name: file_digest(file) for pair in files for file in pair}
        write_atomically(digests, sealed_text(kept))
    train, test = (
        ArraySource(read_npy(images, mapped=True), read_npy(labels), where="CIFAR-10") for images, labels in files
    )
    if train.num_classes != test.num_classes:
        raise ValueError(f"{path}: {train.num_classes} classes to train on, but {test.num_classes} in the test images")
    return train, test


def _are_whole(digests: Path) -> bool:
    """Whether the files of a list of digests are as they were written; a warning where they are not."""
    if not digests.is_file():
        return False
    try:
        kept, sealed = read_sealed(digests, "list of digests")
        damaged = [name for name, then in kept.items() if file_digest(digests.with_name(name)) != then]
        if sealed and not damaged:
            return True
        cause = f"{digests.with_name(damaged[0]) if damaged else digests}: damaged"
    except (ValueError, OSError) as error:
        cause = str(error)
    warnings.warn(f"{cause}; the images are decoded again", RuntimeWarning, stacklevel=3)
    return False


def _unpacked(path: Path, plain: Path) -> Path:
    """The archive without its compression."""
    try:
        with lzma.open(path) as packed, whole_file(plain) as partial, partial.open("wb") as file:
            shutil.copyfileobj(packed, file)
    except (lzma.LZMAError, EOFError) as error:
        raise ValueError(f"{path}: no whole xz file ({error})") from None
    return plain
