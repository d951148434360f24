"""The lists of MegaFace's devkit, and the noise lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypersphere.core import numbered_lines
from hypersphere.data import is_image_name


def listed_images(table: dict[str, Any], path: Path) -> tuple[str, ...]:
    """The images of a list of the devkit, each there once."""
    names = table.get("path")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{path}: 'path' must be a list of image names")
    if len(set(names)) != len(names):
        first: dict[str, int] = {}
        for place, name in enumerate(names):
            if first.setdefault(name, place) != place:
                raise ValueError(f"{path}: path[{place}], {name!r}, is path[{first[name]}] already")
    return tuple(names)


def read_noise(path: Path) -> set[str]:
    """The entries of a noise list, without suffixes."""
    lines = (text for _, text in numbered_lines(path) if not text.startswith("#"))
    return {without_suffix(last_parts(text.rpartition("\t")[2])) for text in lines}


def last_parts(name: str) -> str:
    """The last three parts of a path, which name a distractor."""
    return "/".join(name.split("/")[-3:])


def without_suffix(name: str) -> str:
    """A name without the suffix of an image."""
    return name.rpartition(".")[0] if is_image_name(name) else name
