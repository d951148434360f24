"""Every image of a path with its name, whether or not anybody has sorted them by identity."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from hypersphere.data.convert import guess_format, open_source
from hypersphere.data.file_access import is_image_name
from hypersphere.data.formats import FileSource, RecordSource, TarSource
from hypersphere.data.formats.folder import images_below
from hypersphere.data.source import ImageSource


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
    if isinstance(source, FileSource):
        return source, list(source.files)
    if isinstance(source, TarSource):
        return source, list(source.members)
    if isinstance(source, RecordSource):
        return source, [str(key) for key in source.keys.tolist()]
    return source, [str(number) for number in range(len(source))]


def _is_special(folder: Path) -> bool:
    """Whether a folder is of a format of its own, such as a folder of archives."""
    try:
        return guess_format(folder) != "folder"
    except ValueError:
        return not any(images_below(os.fspath(folder), "", ()))


def _unlabelled(root: Path, files: list[str]) -> FileSource:
    return FileSource(root, files, np.full(len(files), -1, dtype=np.int64), [])
