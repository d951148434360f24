"""Whose a result is: model, data, command, date and version, for the top of a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def origin(table: Mapping[str, Any]) -> dict[str, str]:
    """What a reader has to know before any number.

    Args:
        table: of result.json, or its fields `options`, `files`, `command`, `date`, `hypersphere`.
    """
    made = list(_parts(table["options"].get("embeddings", [])))
    ready = {part[key] for part in made for key in ("embeddings", "list") if key in part}
    images = [str(part["images"]) for part in made if "images" in part]
    lists = [name for name in table.get("files", {}) if name.rpartition("/")[2] not in ready]
    return {
        "model": ", ".join(dict.fromkeys(map(_model, made))),
        "data": ", ".join(dict.fromkeys([*images, *lists])),
        "command": table.get("command", ""),
        "measured": table.get("date", ""),
        "version": f"hypersphere {table['hypersphere']}",
    }


def _parts(made: Any) -> Iterator[Mapping[str, Any]]:
    """The embeddings that a result rests on, one by one: those side by side are apart."""
    for one in [made] if isinstance(made, Mapping) else made:
        if "concatenated" in one:
            yield from _parts(one["concatenated"])
        else:
            yield one


def _model(part: Mapping[str, Any]) -> str:
    if "model" not in part:
        return f"{part.get('embeddings', 'unnamed')} (ready embeddings)"
    weights = (part.get("contract") or {}).get("digest")
    return f"{part['model']} (weights {weights})" if weights else str(part["model"])
