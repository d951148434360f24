"""The files that a result rests on, by name and digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from hypersphere.core import file_digest


def items_digest(items: Iterable[object]) -> str:
    """Hash of the decided items; equal digests mean that two results can be compared item by item."""
    return hashlib.sha256("\n".join(map(str, items)).encode()).hexdigest()[:16]


def file_digests(paths: Iterable[Path], root: Path | None = None) -> dict[str, str]:
    """The first 16 hexadecimal digits of each file's SHA-256, by its name.

    Args:
        paths: the files.
        root: names are relative to it; without, a file is called by its last part, and two of one name with as many
            parts more as tell them apart.
    """
    found: dict[str, str] = {}
    for path in paths:
        parts = path.parts if root is None else path.relative_to(root).parts
        depth = 1 if root is None else len(parts)
        while "/".join(parts[-depth:]) in found and depth < len(parts):
            depth += 1
        found["/".join(parts[-depth:])] = file_digest(path)[:16]
    return found


def joined_files(tables: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Tables of `file_digests` as one; different files of one name are numbered."""
    found: dict[str, str] = {}
    for name, own in (entry for table in tables for entry in table.items()):
        key, number = name, 1
        while found.get(key, own) != own:
            number += 1
            key = f"{name} ({number})"
        found[key] = own
    return found
