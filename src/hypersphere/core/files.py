"""Files that are written whole or not at all, and the one digest of a file."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

_BUFFER = 2**16


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file whole or not at all; an error names it, and leaves the previous one untouched."""
    with Staged() as stage:
        stage.open(Path(path), replace=True).write(data)


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty file beside `path`, with the same ending, for writers that want a name and not an open file.

    It takes the place of `path` at the end, synced, and is removed if that fails. The folder is made if need be.
    """
    target = Path(path)
    make_folders(target.parent)
    temporary = partial_name(target).with_suffix(f".partial{target.suffix}")
    _create(temporary, target).close()
    try:
        with naming_file(target, temporary):
            yield temporary
            sync_file(temporary)
            temporary.replace(target)
            sync_folder(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


class Staged:
    """Several files written all or none: under temporary names beside their own, synced, then renamed together.

    Leaving the block closes the files; leaving it with an error removes everything, folders made for it included.

    Example:
        >>> with Staged() as stage:
        ...     _ = stage.open(Path("train.rec")).write(b"...")
        ...     _ = stage.open(Path("train.idx")).write(b"...")
    """

    def __init__(self) -> None:
        self._files: list[tuple[BinaryIO, Path, Path]] = []
        self._new: list[Path] = []
        self._folders: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def open(self, path: Path, *, replace: bool = False) -> BinaryIO:
        """A new binary file that will be called `path`; refuses to overwrite unless `replace`."""
        if not replace:
            refuse_existing(path)
        self._folders += make_folders(path.parent)
        temporary = partial_name(path)
        file = _create(temporary, path)
        self._files.append((file, temporary, path))
        return file

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        try:
            if kind is None:
                self._commit()
        except BaseException:
            for path in self._new:
                path.unlink(missing_ok=True)
            raise
        finally:
            for file, temporary, _ in self._files:
                with contextlib.suppress(OSError):
                    file.close()
                temporary.unlink(missing_ok=True)
            remove_empty(self._folders)

    def _commit(self) -> None:
        for file, _, path in self._files:
            with naming_file(path):
                file.flush()
                os.fsync(file.fileno())
                file.close()
        for _, temporary, path in self._files:
            new = not path.exists()
            with naming_file(path, temporary):
                temporary.replace(path)
            if new:
                self._new.append(path)
        for folder in {path.parent for _, _, path in self._files}:
            with naming_file(folder):
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


def read_bounded(path: Path, limit: int, kind: str) -> bytes:
    """Read a whole file of at most `limit` bytes.

    Args:
        path: the file.
        limit: bytes it may have.
        kind: of file that is expected, for messages.

    Raises:
        ValueError: there is no such file, it cannot be read, or it is larger.
    """
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read; expected a {kind} file ({error.strerror})") from None
    if len(data) > limit:
        raise ValueError(f"{path}: more than {limit:,} bytes; no {kind} file of hypersphere is that large")
    return data


def bytes_digest(data: bytes) -> str:
    """The SHA-256 of bytes, 64 hexadecimal digits: `file_digest` of a file that has them."""
    return hashlib.sha256(data).hexdigest()


def file_digest(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's bytes, 64 hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def partial_name(path: Path) -> Path:
    """A free hidden name beside `path`, which nobody can foresee."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")


def remove_partial(folder: Path) -> None:
    """Remove what a killed process left unfinished in a folder. Call only while holding the folder's lock."""
    for path in folder.glob(".*.partial*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def refuse_existing(path: Path) -> None:
    """ValueError when there is something at `path`."""
    if path.exists() or path.is_symlink():
        raise ValueError(f"{path} exists already; remove it or choose another name")


def make_folders(folder: Path) -> list[Path]:
    """Make a folder and its parents, durably; returns those that were made, innermost first."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        with naming_file(one):
            sync_folder(one.parent)
    return missing


def remove_empty(folders: list[Path]) -> None:
    """Remove folders that are empty, innermost first."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def sync_file(path: Path) -> None:
    """Make the bytes of a file durable that somebody else has written."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder durable, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def naming_file(path: Path, temporary: Path | None = None) -> Iterator[None]:
    """Let an error of the system that names no file, or the temporary one, name the file that was to be written."""
    try:
        yield
    except NotWritten:
        raise
    except OSError as error:
        if error.filename not in (None, *(str(each) for each in (temporary,) if each)):
            raise
        kept = "; the previous one is untouched" if path.is_file() else ""
        # NumPy's errors have no number of the system, only words such as "2048 requested and 992 written"
        raise NotWritten(f"{path}: not written ({error.strerror or error}){kept}") from error


class NotWritten(OSError):
    """A file could not be written; the message names it."""


class _Raw(io.FileIO):
    """A new file that no link leads to, whose errors name the file that it will be."""

    def __init__(self, temporary: Path, path: Path) -> None:
        super().__init__(temporary, "xb", opener=_without_links)
        self._path = path

    def write(self, data: Any) -> int:
        with naming_file(self._path):
            return super().write(data) or 0


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _create(temporary: Path, path: Path) -> BinaryIO:
    with naming_file(path, temporary):
        return io.BufferedWriter(_Raw(temporary, path), _BUFFER)
