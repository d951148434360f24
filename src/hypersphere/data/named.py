"""Images by name, as protocols name them: in a folder, in tar archives, or in a verification pack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hypersphere.core import is_integer
from hypersphere.data.file_access import IMAGE_SUFFIXES, ByteFile, Root, is_image_name, safe_name
from hypersphere.data.formats.folder import read_image_file
from hypersphere.data.formats.packs import PackSource
from hypersphere.data.formats.tar import read_entries
from hypersphere.data.source import EncodedSource

Reader = Callable[[], bytes]


class NameIndex:
    """Finds names: exactly, or else without the suffix of an image (`Ada_0001.jpg` for a list that has `Ada_0001.png`).

    Args:
        names: different from each other.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._exact = {name: place for place, name in enumerate(names)}
        self._stems: dict[str, int] = {}
        for place, name in enumerate(names):
            self._stems[_stem(name)] = -1 if _stem(name) in self._stems else place

    def find(self, names: Iterable[str]) -> npt.NDArray[np.int64]:
        """The place of each name, -1 where it is not known, or known with two suffixes and not with this one."""
        places = [self._exact[name] if name in self._exact else self._stems.get(_stem(name), -1) for name in names]
        return np.array(places, dtype=np.int64)


class NamedImages(EncodedSource):
    """The images that a protocol names. They have no identities here: every label is -1.

    Args:
        path: a folder, a tar archive, a folder of archives, or a `.bin` pack, whose images are named `0`, `1`, ...
        names: which ones, relative to the folder or the archive (in an archive with a single folder around everything,
            to that folder); another suffix of images will do where the stated one is not there.

    Attributes:
        files: the names that were found, in order, without repetition.
        missing: those that were not.

    Example:
        >>> NamedImages("lfw112.tar", ["Aaron_Eckhart/Aaron_Eckhart_0001.jpg"]).missing
        []
    """

    def __init__(self, path: str | Path, names: Iterable[str]) -> None:
        self.path = Path(path)
        wanted = list(dict.fromkeys(names))
        found = dict(zip(wanted, _readers(self.path, wanted), strict=True))
        self.files = [name for name, reader in found.items() if reader is not None]
        self.missing = [name for name, reader in found.items() if reader is None]
        self._readers = [reader for reader in found.values() if reader is not None]
        self._index = NameIndex(self.files)
        super().__init__(np.full(len(self.files), -1, dtype=np.int64), [])

    def describe(self, index: int) -> str:
        """Folder or archive, and name."""
        return f"{self.path}: {self.files[index]}"

    def encoded(self, index: int) -> bytes:
        """The image, as stored."""
        return self._readers[index]()

    def find(self, names: Iterable[str]) -> npt.NDArray[np.int64]:
        """The place of each name among `files`, -1 where it is missing."""
        return self._index.find(names)


class ImageFiles(EncodedSource):
    """Image files wherever they lie. They have no identities here: every label is -1.

    Args:
        files: their paths; one that is missing cannot be read.

    Attributes:
        files: the paths as they were given, as text.

    Example:
        >>> ImageFiles(["ada.jpg", "photos/grace.png"]).read(0).shape
        (112, 112, 3)
    """

    def __init__(self, files: Iterable[str | Path]) -> None:
        if isinstance(files, str | Path):
            raise ValueError(f"files={str(files)!r} is one path: give a list of files")
        self.files = [str(file) for file in files]
        super().__init__(np.full(len(self.files), -1, dtype=np.int64), [])

    def describe(self, index: int) -> str:
        """The image's path."""
        return self.files[index]

    def encoded(self, index: int) -> bytes:
        """The file's content."""
        return read_image_file(self.files[index])


def _readers(path: Path, names: Sequence[str]) -> list[Reader | None]:
    """For every name what reads its image, None where there is none."""
    if path.suffix == ".bin":
        pack = PackSource(path)
        places = [int(name) if is_integer(name) and len(name) < 20 else -1 for name in names]
        return [partial(pack.encoded, place) if 0 <= place < len(pack) else None for place in places]
    if path.is_dir():
        archives = sorted(path.glob("*.tar"))
        return _in_archives(archives, names) if archives else _in_folder(Root(path), names)
    return _in_archives([path], names)


def _in_folder(root: Root, names: Sequence[str]) -> list[Reader | None]:
    readers: list[Reader | None] = []
    for name in names:
        safe, stem = safe_name(name, str(root.path)), _stem(name)
        tries = [safe, *(stem + suffix for suffix in sorted(IMAGE_SUFFIXES))]
        found = next((one for one in tries if root.check(one, str(root.path))), None)
        readers.append(None if found is None else partial(read_image_file, str(root.path / found)))
    return readers


def _in_archives(paths: Sequence[Path], names: Sequence[str]) -> list[Reader | None]:
    entries = [(path, entry) for path in paths for entry in read_entries(path)]
    files = {path: ByteFile(path) for path in paths}
    members = [entry.name for _, entry in entries]
    double = {name for name, times in Counter(members).items() if times > 1} & set(names)
    if double:
        owners = " and ".join(str(path) for path, entry in entries if entry.name == min(double))
        raise ValueError(f"{min(double)!r} is in {owners}; name the archive that is meant")
    found = NameIndex(members).find(names)
    if len({name.partition("/")[0] for name in members}) == 1 and all("/" in name for name in members):
        inside = NameIndex([name.partition("/")[2] for name in members]).find(names)
        found = np.where(found < 0, inside, found)
    readers: list[Reader | None] = []
    for place in found.tolist():
        if place < 0:
            readers.append(None)
            continue
        path, entry = entries[place]
        readers.append(partial(files[path].read, entry.offset, entry.size))
    return readers


def _stem(name: str) -> str:
    return name.rpartition(".")[0] if is_image_name(name) else name
