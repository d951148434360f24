"""Image folders: `root/identity/image.jpg`."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from hypersphere.core import Reporter, naming_file, staged_folder
from hypersphere.data.file_access import is_image_name, safe_name
from hypersphere.data.image_limits import MAX_BYTES
from hypersphere.data.images import UnreadableImage, encode, suffix_of
from hypersphere.data.source import (
    EncodedSource,
    ImageSource,
    Labels,
    Subset,
    encoded_of,
    first_few,
    names_of,
    number_names,
)

SPLITS = ("train", "val", "valid", "validation", "test", "dev")


class FileSource(EncodedSource):
    """Images that are files below one folder.

    Args:
        root: the folder.
        files: their paths relative to it, with `/` between the parts.
        labels, names: as in every source.
    """

    def __init__(self, root: Path, files: Sequence[str], labels: Labels, names: Sequence[str]) -> None:
        super().__init__(labels, names)
        self.root = root
        self.files = list(files)

    def describe(self, index: int) -> str:
        """The image's path."""
        return os.path.join(self.root, self.files[index])

    def encoded(self, index: int) -> bytes:
        """The file's content."""
        return read_image_file(os.path.join(self.root, self.files[index]))


def read_image_file(path: str) -> bytes:
    """The content of a regular file: one of another kind, such as a pipe, could keep the reader waiting for ever."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableImage(f"{path}: not a regular file")
        if status.st_size > MAX_BYTES:
            raise UnreadableImage(f"{path}: {status.st_size:,} bytes, more than the {MAX_BYTES:,} of an image")
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UnreadableImage(f"{path}: {error.strerror or error}") from error


class FolderSource(FileSource):
    """An image folder: the identity is the folder directly below the root, images may lie deeper. All sorted by name.

    Args:
        path: the folder.
        split: read `path/split` instead.

    Example:
        >>> source = FolderSource("people")
        >>> source.names[source.labels[0]]
        'ada'
    """

    def __init__(self, path: str | Path, split: str | None = None) -> None:
        root = Path(path) / split if split else Path(path)
        if not root.is_dir():
            raise ValueError(f"{root} is {'not a folder' if root.exists() else 'missing'}")
        identities = sorted(entry.name for entry in os.scandir(root) if _is_shown_folder(entry))
        if not identities:
            raise ValueError(f"{root} has no folders; expected one folder of images per identity")
        files: list[str] = []
        owners: list[str] = []
        empty = []
        for identity in identities:
            found = sorted(images_below(os.path.join(root, identity), identity, ()))
            files += found
            owners += [identity] * len(found)
            if not found:
                empty.append(identity)
        if empty:
            raise ValueError(f"{root}: {len(empty)} identities have no image: {first_few(empty, len(empty))}")
        if not split and all(name.lower() in SPLITS for name in identities):
            raise ValueError(
                f"{root} holds the splits {', '.join(identities)}; say which with the option split, or open one of them"
            )
        super().__init__(root, files, *number_names(owners))


def _is_shown_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir() and not entry.name.startswith(".") and entry.name != "__MACOSX"


def images_below(folder: str, prefix: str, parents: tuple[tuple[int, int], ...]) -> Iterator[str]:
    status = os.stat(folder)
    here = status.st_dev, status.st_ino
    if here in parents:
        raise ValueError(f"{folder} is a link to a folder that contains it")
    with os.scandir(folder) as entries:
        for entry in entries:
            name = f"{prefix}/{entry.name}"
            if _is_shown_folder(entry):
                yield from images_below(entry.path, name, (*parents, here))
            elif is_image_name(entry.name):
                yield name


def write_folder(
    source: ImageSource, path: str | Path, *, quality: int | None = None, progress: Reporter | None = None
) -> None:
    """Write `path/identity/0000.jpg`; all or nothing. Stored bytes are copied as they are.

    A folder's labels follow the sorted names. Names that are just numbers get leading zeros, so that the order stays.

    Args:
        source: the images; each must have an identity.
        path: the new folder.
        quality: of images that are not stored as bytes: None for PNG, 1 to 100 for JPEG.
        progress: called as `progress(done, total)`.
    """
    folders = folder_names(source, str(path))
    counts = [0] * len(folders)
    with staged_folder(Path(path)) as target:
        for folder in folders:
            (target / folder).mkdir()
        for index, data in enumerate(stored_images(source, quality, progress)):
            label = int(source.labels[index])
            if label < 0:
                raise ValueError(f"{source.describe(index)} has no identity; an image folder cannot hold it")
            name = f"{folders[label]}/{counts[label]:04d}{suffix_of(data, source.describe(index))}"
            with naming_file(Path(path) / name):
                (target / name).write_bytes(data)
            counts[label] += 1


def stored_images(
    source: ImageSource, quality: int | None, progress: Reporter | None, order: Labels | None = None
) -> Iterator[bytes]:
    """The bytes of every image, as stored where they are stored, otherwise encoded."""
    indices = range(len(source)) if order is None else order
    for done, index in enumerate(indices, start=1):
        data = encoded_of(source, int(index))
        yield encode(source.read(int(index)), quality) if data is None else data
        if progress is not None:
            progress(done, len(indices))


def folder_names(source: ImageSource, where: str) -> list[str]:
    """One folder name per identity, in the order of the labels."""
    names = names_of(source)
    width = len(str(max(len(names) - 1, 0)))
    if names == [str(k) for k in range(len(names))]:
        names = [name.zfill(width) for name in names]
    folders = [safe_name(name, f"{where}: identity").replace("/", "_") for name in names]
    hidden = [folder for folder in folders if folder.startswith(".")]
    if hidden:
        raise ValueError(f"{where}: identity {hidden[0]!r} would be a hidden folder")
    if len(set(folders)) < len(folders):
        double = next(folder for k, folder in enumerate(folders) if folder in folders[:k])
        raise ValueError(f"{where}: two identities would share the folder {double!r}")
    return folders


def file_of(source: ImageSource, index: int) -> Path | None:
    """The file of an image, or None where it is not a file of its own."""
    if isinstance(source, Subset):
        return file_of(source.source, int(source.indices[index]))
    return source.root / source.files[index] if isinstance(source, FileSource) else None
