"""Tar archives with random access: WebDataset shards (`key.jpg` + `key.cls`) and plain ones (`identity/image.jpg`)."""

from __future__ import annotations

import io
import itertools
import os
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from hypersphere.core import Reporter, Staged, check_integer, parse_integer, staged_folder
from hypersphere.data.file_access import ByteFile, is_image_name
from hypersphere.data.formats.folder import SPLITS, folder_names, stored_images
from hypersphere.data.formats.list_file import label_names
from hypersphere.data.formats.tar_headers import BLOCK, read_members
from hypersphere.data.formats.tar_index import Entry, read_index, stage_index
from hypersphere.data.images import suffix_of
from hypersphere.data.source import EncodedSource, ImageSource, Labels, number_labels, number_names


class TarSource(EncodedSource):
    """One tar archive or several, read in any order without unpacking.

    With `.cls` members it is a WebDataset: `key.jpg` and `key.cls` are one sample, the class a number. Otherwise the
    identity is the folder directly below the root, over all archives; a single folder around everything is skipped.
    Opening reads the members' headers, or the index beside the archive (`archive.tar.index`, written by `write_tar` and
    with `cache`) where it fits the archive.

    Args:
        path: an archive, a folder of archives, or a sequence of archives.
        split: take the members below this folder only.
        relabel: number the classes that occur from 0 on, instead of refusing a gap.
        cache: write the index beside each archive that has none.

    Example:
        >>> source = TarSource("shards/")
        >>> source.read(12).shape
        (112, 112, 3)
    """

    def __init__(
        self,
        path: str | Path | Sequence[str | Path],
        split: str | None = None,
        relabel: bool = False,
        cache: bool = False,
    ) -> None:
        paths = _archives(path)
        where = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
        names: list[str] = []
        numbers: list[int | None] = []
        places: list[tuple[int, int, int]] = []
        seen: dict[str, int] = {}
        for shard, archive in enumerate(paths):
            for entry in read_entries(archive, cache=cache):
                if split and not entry.name.startswith(f"{split}/"):
                    continue
                if entry.name in seen:
                    raise ValueError(
                        f"{archive}: {entry.name!r} occurs twice; the first is in {paths[seen[entry.name]]}"
                    )
                seen[entry.name] = shard
                names.append(entry.name)
                numbers.append(entry.label)
                places.append((shard, entry.offset, entry.size))
        if not names:
            raise ValueError(f"{where}: no images" + (f" below {split!r}" if split else ""))
        super().__init__(*_identities(names, numbers, where, split, relabel))
        self.members = names
        self._places: npt.NDArray[np.int64] = np.array(places, dtype=np.int64)
        self._files = [ByteFile(archive) for archive in paths]

    def describe(self, index: int) -> str:
        """Archive and member."""
        return f"{self._files[self._places[index, 0]].path}: {self.members[index]}"

    def encoded(self, index: int) -> bytes:
        """The member's content."""
        shard, offset, size = self._places[index]
        return self._files[int(shard)].read(int(offset), int(size))


def _archives(path: str | Path | Sequence[str | Path]) -> list[Path]:
    if not isinstance(path, (str, Path)):
        paths = [Path(one) for one in path]
        if not paths:
            raise ValueError("no archive given")
        return paths
    path = Path(path)
    if not path.is_dir():
        return [path]
    paths = sorted(path.glob("*.tar"))
    if not paths:
        raise ValueError(f"{path} has no .tar archives")
    return paths


def _identities(
    names: list[str], numbers: list[int | None], where: str, split: str | None, relabel: bool
) -> tuple[Labels, list[str]]:
    labelled = [number for number in numbers if number is not None]
    if labelled and len(labelled) < len(numbers):
        raise ValueError(f"{where}: {names[numbers.index(None)]!r} has no .cls member beside it, others have")
    parts = [name.split("/")[1 if split else 0 : -1] for name in names]
    if labelled:
        labels, kept = number_labels(np.array(labelled), where, relabel=relabel)
        return labels, label_names(labels, kept, ["/".join(folders) or "." for folders in parts])
    while all(len(folders) > 1 for folders in parts) and len({folders[0] for folders in parts}) == 1:
        parts = [folders[1:] for folders in parts]
    bare = next((name for name, folders in zip(names, parts, strict=True) if not folders), None)
    if bare is not None:
        raise ValueError(f"{where}: {bare!r} has neither a .cls member nor a folder that names its identity")
    owners = [folders[0] for folders in parts]
    if not split and {owner.lower() for owner in owners} <= set(SPLITS):
        raise ValueError(f"{where} holds the splits {', '.join(sorted(set(owners)))}; say which with the option split")
    return number_names(owners)


def read_entries(path: str | Path, *, cache: bool = False) -> list[Entry]:
    """The images of an archive, from the index beside it where that fits, otherwise from the members' headers.

    Args:
        path: the archive.
        cache: write the index when there is none that fits.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} is missing, or not a file")
    entries = read_index(path)
    if entries is None:
        entries = _scan(path)
        if cache:
            with Staged() as stage:
                stage_index(stage, path, entries, path.stat())
    return entries


def _scan(path: Path) -> list[Entry]:
    images: dict[str, Entry] = {}
    classes: dict[str, int] = {}
    with path.open("rb") as file:
        for name, offset, size in read_members(path, file):
            key = _key(name)
            if name.lower().endswith(".cls"):
                if key in classes:
                    raise ValueError(f"{path}: {name!r} occurs twice")
                classes[key] = _read_class(path, file, name, offset, size)
            elif is_image_name(name):
                if name in images:
                    raise ValueError(f"{path}: {name!r} occurs twice")
                images[name] = Entry(name, offset, size, None)
    if not classes:
        return list(images.values())
    by_key: dict[str, str] = {}
    for name in images:
        key = _key(name)
        if key in by_key:
            raise ValueError(f"{path}: sample {key!r} has two images, {by_key[key]!r} and {name!r}")
        by_key[key] = name
    alone = next((key for key in classes if key not in by_key), None)
    if alone is not None:
        raise ValueError(f"{path}: {alone + '.cls'!r} has no image beside it")
    return [entry._replace(label=classes.get(_key(name))) for name, entry in images.items()]


def _key(name: str) -> str:
    """The name of a WebDataset sample: everything before the first dot of the file's name."""
    folder, slash, base = name.rpartition("/")
    return folder + slash + base.partition(".")[0]


def _read_class(path: Path, file: BinaryIO, name: str, offset: int, size: int) -> int:
    where = f"{path}: {name!r}"
    if size > 32:
        raise ValueError(f"{where} holds {size} bytes; expected the number of a class")
    file.seek(offset)
    text = file.read(size).decode("ascii", "replace")
    return parse_integer(text.strip(), f"{where}: class", -1)


def write_tar(
    source: ImageSource,
    path: str | Path,
    *,
    shard_size: int | None = None,
    quality: int | None = None,
    progress: Reporter | None = None,
) -> list[Path]:
    """Write a source as WebDataset shards, `identity/0000.jpg` + `identity/0000.cls`, with an index beside each.

    Stored bytes are copied as they are. The folder keeps the identity's name. All or nothing is written.

    Args:
        source: the images; those without identity get class -1 and a folder `none`.
        path: the archive, or the new folder of shards where `shard_size` is given.
        shard_size: images per shard.
        quality: of images that are not stored as bytes: None for PNG, 1 to 100 for JPEG.
        progress: called as `progress(done, total)`.

    Returns:
        the archives written.
    """
    path = Path(path)
    samples = _samples(source, str(path), quality, progress)
    if shard_size is None:
        with Staged() as stage:
            _write_archive(stage, path, samples)
        return [path]
    check_integer("shard_size", shard_size, 1)
    names = [f"shard-{number:06d}.tar" for number in range(-(-len(source) // shard_size))]
    with staged_folder(path) as folder:
        for name in names:
            with Staged() as stage:
                _write_archive(stage, folder / name, itertools.islice(samples, shard_size))
    return [path / name for name in names]


def _samples(
    source: ImageSource, where: str, quality: int | None, progress: Reporter | None
) -> Iterator[tuple[str, str, bytes, int]]:
    """Key, suffix, bytes and class of every image."""
    folders = folder_names(source, where)
    folders.append(next(name for name in ("none", *(f"none-{k}" for k in range(len(folders)))) if name not in folders))
    counts = [0] * len(folders)
    for index, data in enumerate(stored_images(source, quality, progress)):
        label = int(source.labels[index])
        key = f"{folders[label]}/{counts[label]:04d}"
        counts[label] += 1
        yield key, suffix_of(data, source.describe(index)), data, label


def _write_archive(stage: Staged, path: Path, samples: Iterable[tuple[str, str, bytes, int]]) -> None:
    file = stage.open(path)
    entries = []
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for key, suffix, data, label in samples:
            offset = _add(archive, key + suffix, data)
            entries.append(Entry(key + suffix, offset, len(data), label))
            _add(archive, key + ".cls", str(label).encode())
    file.flush()
    stage_index(stage, path, entries, os.fstat(file.fileno()))


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> int:
    """Add a member; returns the offset of its content."""
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))
    return archive.offset - -(-len(data) // BLOCK) * BLOCK
