"""The index beside a tar archive (`archive.tar.index`): where its images lie, so that opening need not walk through it.

The first line holds a title, size and time of the archive, the number of entries and the SHA-256 of all other content.
An index of another archive, one cut off or with a flipped bit is not believed: the archive is read instead.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from hypersphere.core import Staged, parse_integer
from hypersphere.data.file_access import safe_name

_TITLE = "hypersphere tar index 2"


class Entry(NamedTuple):
    """An image in an archive; `label` is None where no `.cls` gives it."""

    name: str
    offset: int
    size: int
    label: int | None


def read_index(path: Path) -> list[Entry] | None:
    """The entries of the index beside an archive; None where there is none that is whole and of this very archive."""
    index = _index_path(path)
    if not index.is_file():
        return None
    status = path.stat()
    title, _, body = index.read_bytes().partition(b"\n")
    if title != _title(status, body):
        return None
    try:
        return [_entry(line, status.st_size) for line in body.decode("utf-8", "surrogateescape").split("\n")[:-1]]
    except ValueError:
        return None


def stage_index(stage: Staged, path: Path, entries: list[Entry], status: os.stat_result) -> None:
    """Write the index of an archive with the stage's other files.

    Args:
        stage: of the files written all or none.
        path: the archive.
        entries: its images, in its order.
        status: of the archive as it will be.
    """
    lines = []
    for entry in entries:
        if "\t" in entry.name or "\n" in entry.name:
            raise ValueError(f"{path}: {entry.name!r} has a tab or a line break, which an index cannot hold")
        lines.append(f"{entry.offset}\t{entry.size}\t{'' if entry.label is None else entry.label}\t{entry.name}\n")
    body = "".join(lines).encode("utf-8", "surrogateescape")
    stage.open(_index_path(path), replace=True).write(_title(status, body) + b"\n" + body)


def _index_path(path: Path) -> Path:
    return path.with_name(path.name + ".index")


def _title(status: os.stat_result, body: bytes) -> bytes:
    entries = body.count(b"\n")
    archive = f"{_TITLE}\t{status.st_size}\t{status.st_mtime_ns}\t{entries}"
    return f"{archive}\t{hashlib.sha256(archive.encode() + body).hexdigest()}".encode()


def _entry(line: str, length: int) -> Entry:
    offset, size, label, name = line.split("\t")
    start = parse_integer(offset, "offset", 0, length)
    return Entry(
        safe_name(name, "name"),
        start,
        parse_integer(size, "size", 0, length - start),
        parse_integer(label, "label", -1) if label else None,
    )
