"""Tables of JSON that carry a seal: the SHA-256 of everything else in them, so that a changed one is not believed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypersphere.core.files import bytes_digest
from hypersphere.core.read_json import read_json

SEAL = "seal"
"""The key of the seal."""


def seal_of(table: Mapping[str, Any]) -> str:
    """Return the digest of a table of plain values; the order of its keys and its white space do not count."""
    return bytes_digest(json.dumps(table, sort_keys=True).encode())


def sealed_text(table: Mapping[str, Any], indent: int | None = None) -> bytes:
    """Return a table of plain values as JSON, with its seal as the last key."""
    return f"{json.dumps({**table, SEAL: seal_of(table)}, indent=indent)}\n".encode()


def read_sealed(path: str | Path, kind: str) -> tuple[dict[str, Any], bool]:
    """Return the table of a JSON file without its seal, and whether it has one.

    Args:
        path: the file.
        kind: of table that is expected, for messages.

    Raises:
        ValueError: it is no table, or not the one that was sealed.
    """
    table = read_json(path)
    if not isinstance(table, dict):
        raise ValueError(f"{path}: expected a {kind}, a table in JSON")
    seal = table.pop(SEAL, None)
    if seal is not None and seal != seal_of(table):
        raise ValueError(f"{path}: damaged, or changed after it was written: this is not the {kind} that was sealed")
    return table, seal is not None
