"""Every image of a path with its name, whether or not anybody has sorted them by identity."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np

from hypersphere.data.convert import guess_format, open_source
from hypersphere.data.file_access import is_image_name
from hypersphere.data.fit import Fitted
from hypersphere.data.formats import FileSource, RecordSource, TarSource
from hypersphere.data.formats.folder import images_below
from hypersphere.data.named import ImageFiles, NamedImages
from hypersphere.data.source import ImageSource, Labels, Subset, encoded_of


def open_every_image(path: str | Path, format: str | None = None) -> tuple[ImageSource, list[str]]:  # noqa: A002
    """The images of a folder (in folders below it or not), a tar, a list, a record file, or another known format.

    Args:
        path: what to open; a single image file is a set of one.
        format: as `open_source` takes it; guessed by default.

    Returns:
        the images and the name of each: its path within the folder or archive, its record, or its number.

    Example:
        >>> source, names = open_every_image("photos")
        >>> names
        ['grace.png']
    """
    place = Path(path)
    if format in (None, "folder") and place.is_dir() and not _is_special(place):
        files = sorted(name.removeprefix("/") for name in images_below(os.fspath(place), "", ()))
        if not files:
            raise ValueError(f"{place}: no images in it, nor in folders below it")
        return _unlabelled(place, files), files
    if format is None and place.is_file() and is_image_name(place.name):
        return _unlabelled(place.parent, [place.name]), [place.name]
    source = open_source(path, format)
    return source, image_names(source)


def image_names(source: ImageSource) -> list[str]:
    """The name of each image: its path within the folder or archive, its record, or its number."""
    if isinstance(source, Fitted):
        return image_names(source.source)
    if isinstance(source, Subset):
        names = image_names(source.source)
        return [names[index] for index in source.indices.tolist()]
    if isinstance(source, FileSource | NamedImages | ImageFiles):
        return list(source.files)
    if isinstance(source, TarSource):
        return list(source.members)
    if isinstance(source, RecordSource):
        return [str(key) for key in source.keys.tolist()]
    return [str(number) for number in range(len(source))]


def images_digest(source: ImageSource) -> str:
    """SHA-256 over the name and the bytes of every image, as stored, sorted; over its pixels where none are stored.

    The same images have the same digest in one archive, in several or in a folder.

    Example:
        >>> len(images_digest(open_source("people")))
        64
    """
    inside, indices = _unfitted(source, np.arange(len(source)))
    lines = []
    for name, index in zip(image_names(source), indices.tolist(), strict=True):
        data = encoded_of(inside, index)
        content = inside.read(index).tobytes() if data is None else data
        lines.append(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode("utf-8", "surrogateescape"))
    return hashlib.sha256(b"".join(sorted(lines))).hexdigest()


def _unfitted(source: ImageSource, indices: Labels) -> tuple[ImageSource, Labels]:
    """The images as stored, and where those of a selection are among them."""
    if isinstance(source, Fitted):
        return _unfitted(source.source, indices)
    return _unfitted(source.source, source.indices[indices]) if isinstance(source, Subset) else (source, indices)


def _is_special(folder: Path) -> bool:
    """Whether a folder is of a format of its own, such as a folder of archives."""
    try:
        return guess_format(folder) != "folder"
    except ValueError:
        return False


def _unlabelled(root: Path, files: list[str]) -> FileSource:
    return FileSource(root, files, np.full(len(files), -1, dtype=np.int64), [])
