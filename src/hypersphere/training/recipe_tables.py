"""Tables of recipes before they are recipes: read, merged and changed by settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hypersphere.core import load_toml, overlay, override


def replaced_keys(below: Mapping[str, Any], above: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of a table that the table over it replaces rather than merges.

    A `head` of another name replaces the one below whole: the options of one loss are not those of another. And of
    `steps` and `epochs`, which exclude each other, the one above stays.
    """
    heads = [table.get("head") for table in (below, above)]
    names = [head.get("name") if isinstance(head, Mapping) else None for head in heads]
    if None not in names and names[0] != names[1]:
        yield "head"
    for one, other in (("steps", "epochs"), ("epochs", "steps")):
        if one in above and other not in above:
            yield other


def load_table(path: str | Path) -> dict[str, Any]:
    """Return a recipe's TOML file as a table, over the one that it names as its `base`."""
    return load_toml(path, replaced_keys)


def merge_tables(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return one table over another, key by key."""
    return overlay(below, above, replaced_keys)


def with_settings(table: Mapping[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """Return a table with `key.sub=value` settings over it."""
    return override(table, settings, replaced_keys)
