"""Files: names that stay inside their root, reading at an offset from any thread or process, writing all or nothing."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"})


def is_image_name(name: str) -> bool:
    """Whether a file name has the suffix of an image, and is not hidden."""
    base = name.rpartition("/")[2]
    return os.path.splitext(base)[1].lower() in IMAGE_SUFFIXES and not base.startswith(".")


def safe_name(name: str, where: str) -> str:
    """A relative name with `/` between its parts that cannot leave its root, without `.` parts.

    Args:
        name: as it stands in a list or an archive.
        where: file and line or member, for the message.
    """
    if not name or "\0" in name:
        raise ValueError(f"{where}: empty name, or a name with a NUL character")
    if "\\" in name:
        raise ValueError(f"{where}: {name!r} has a backslash; write / between the parts of a path")
    if name[0] == "/" or name[1:2] == ":":
        raise ValueError(f"{where}: {name!r} is an absolute path; paths are relative to their root")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        raise ValueError(f"{where}: {name!r} leaves its root; paths stay inside it, without '..'")
    return "/".join(parts)


class Root:
    """A folder that names cannot leave, not even through a symbolic link.

    Args:
        path: the folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise ValueError(f"{self.path} is {'not a folder' if self.path.exists() else 'missing'}")
        self._real = os.path.realpath(self.path)
        self._inside: dict[str, bool] = {}

    def check(self, name: str, where: str) -> bool:
        """Whether the file is there; ValueError when a link on its way leads outside."""
        file = os.path.join(self._real, name)
        folder = os.path.dirname(file)
        if folder not in self._inside:
            self._inside[folder] = self._contains(os.path.realpath(folder))
        if not self._inside[folder] or (os.path.islink(file) and not self._contains(os.path.realpath(file))):
            raise ValueError(f"{where}: {name!r} leads outside of {self.path} through a symbolic link")
        return os.path.isfile(file)

    def _contains(self, real: str) -> bool:
        return real == self._real or real.startswith(self._real.rstrip(os.sep) + os.sep)


class ByteFile:
    """Reads ranges of a file, from any thread, and from worker processes however they start.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = path.stat().st_size
        self._file: BinaryIO | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "size": self.size}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.path, self.size = state["path"], state["size"]
        self._file, self._lock = None, threading.Lock()

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self.close()

    def close(self) -> None:
        """Close the file; the next read opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def read(self, offset: int, size: int) -> bytes:
        """`size` bytes from `offset` on; ValueError with file and offset where the file ends before."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise ValueError(
                f"{self.path}: {size} bytes at offset {offset} lie outside of the file ({self.size} bytes); "
                "it is truncated, or its index belongs to another file"
            )
        with self._lock:
            if self._file is None:
                self._file = self.path.open("rb", buffering=0)
            file = self._file
            if not hasattr(os, "pread"):  # Windows
                file.seek(offset)
                return file.read(size)
        data = os.pread(file.fileno(), size, offset)
        if len(data) < size:
            raise ValueError(f"{self.path}: ends within the {size} bytes at offset {offset}; it was cut off")
        return data


class Staged:
    """Several files written all or none: under temporary names beside their own, synced, then renamed together.

    Leaving the block closes the files; leaving it with an error removes everything, folders made for it included.

    Example:
        >>> with Staged() as stage:
        ...     stage.open(Path("train.rec")).write(b"...")
        ...     stage.open(Path("train.idx")).write(b"...")
    """

    def __init__(self) -> None:
        self._files: list[tuple[BinaryIO, Path, Path]] = []
        self._renamed: list[Path] = []
        self._folders: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def open(self, path: Path, *, replace: bool = False) -> BinaryIO:
        """A new binary file that will be called `path`; refuses to overwrite unless `replace`."""
        if not replace:
            refuse_existing(path)
        self._folders += make_folders(path.parent)
        temporary = partial_name(path)
        file = temporary.open("xb")
        self._files.append((file, temporary, path))
        return file

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        try:
            if kind is None:
                self._commit()
        except BaseException:
            for path in self._renamed:
                path.unlink(missing_ok=True)
            raise
        finally:
            for file, temporary, _ in self._files:
                with contextlib.suppress(OSError):
                    file.close()
                temporary.unlink(missing_ok=True)
            remove_empty(self._folders)

    def _commit(self) -> None:
        for file, _, _ in self._files:
            file.flush()
            os.fsync(file.fileno())
            file.close()
        for _, temporary, path in self._files:
            temporary.replace(path)
            self._renamed.append(path)
        for folder in {path.parent for path in self._renamed}:
            sync_folder(folder)


@contextlib.contextmanager
def staged_folder(path: Path) -> Iterator[Path]:
    """A new folder filled under a temporary name, synced and renamed to `path`; nothing is left after an error."""
    refuse_existing(path)
    made = make_folders(path.parent)
    temporary = partial_name(path)
    try:
        temporary.mkdir()
        yield temporary
        if hasattr(os, "sync"):
            os.sync()
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        remove_empty(made)
        raise
    sync_folder(path.parent)


def partial_name(path: Path) -> Path:
    """A free hidden name beside `path`."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")


def refuse_existing(path: Path) -> None:
    """ValueError when there is something at `path`."""
    if path.exists() or path.is_symlink():
        raise ValueError(f"{path} exists already; remove it or choose another name")


def make_folders(folder: Path) -> list[Path]:
    """Make a folder and its parents; returns those that were made, innermost first."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def remove_empty(folders: list[Path]) -> None:
    """Remove folders that are empty, innermost first."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder durable, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
