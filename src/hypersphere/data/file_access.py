"""Files: names that stay inside their root, and reading at an offset from any thread or process."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, BinaryIO

from hypersphere.core import Staged
from hypersphere.data.image_limits import MAX_BYTES

IMAGE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"} | {".heic", ".heif", ".avif"}
)


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
        if size > MAX_BYTES:
            raise ValueError(f"{self.path}: {size:,} bytes at offset {offset}, more than the {MAX_BYTES:,} of an image")
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


def stage_beside(stage: Staged, path: Path, data: bytes) -> None:
    """Write a file that belongs to another one, which is staged after it and so renamed after it.

    One that is there already is refused, unless it has this very content: so a conversion that was killed between the
    two renames leaves it, and can be run again.
    """
    left = path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data
    stage.open(path, replace=left).write(data)
