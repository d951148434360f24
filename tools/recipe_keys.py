"""Write docs/recipe-keys.md from the dataclasses of recipes: `python tools/recipe_keys.py`, or `make docs`."""

from __future__ import annotations

import dataclasses
import json
import re
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypersphere.training import Recipe

PAGE = Path(__file__).parents[1] / "docs" / "recipe-keys.md"
OPEN_TABLES = {
    "backbone": "They are listed in [backbones.md](backbones.md).",
    "head": "They are listed in [losses.md](losses.md).",
    "before_neck": "They are listed in [losses.md](losses.md).",
    "losses": "They are listed in [losses.md](losses.md).",
    "second": "Any key of this page.",
}
"""Tables whose keys are not fields of a dataclass, and where they are listed."""
_INTRODUCTION = """# Keys of a recipe

Made from the dataclasses of `hypersphere.training.recipe` by `make docs`; a test compares it with them. A key is
written in its table (`[data]`, `size = [112, 96]`) or on the command line (`data.size=[112,96]`); one that is left out
has its default, a dash where that is nothing. `base = "other.toml"` at the top of a file takes from another one what
the file itself does not say. How recipes are run is in [training.md](training.md).
"""
_NAMES = {int: "integer", float: "number", str: "text", bool: "true or false"}


def described(cls: type) -> dict[str, str]:
    """The sentences of the docstring's section Args, by field."""
    section = re.search(r"^ *Args:\n(.*?)(?=\n *\n|\Z)", cls.__doc__ or "", flags=re.DOTALL | re.MULTILINE)
    if section is None:
        raise ValueError(f"{cls.__name__}: its docstring has no section Args")
    lines = section[1].rstrip().splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    entries: list[str] = []
    for line in lines:
        if len(line) - len(line.lstrip()) == indent:
            entries.append(line.strip())
        else:
            entries[-1] += f" {line.strip()}"
    found = {}
    for entry in entries:
        names, _, text = entry.partition(": ")
        found.update(dict.fromkeys(names.split(", "), text))
    return found


def kind(hint: Any) -> str:
    """A type in words."""
    if hint in _NAMES:
        return _NAMES[hint]
    inner = [part for part in get_args(hint) if part is not type(None)]
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(kind(part) for part in inner))
    if get_origin(hint) is tuple:
        return f"{kind(inner[0])}s" if inner[-1] is Ellipsis else f"{len(inner)} {kind(inner[0])}s"
    return "table" if get_origin(hint) is Mapping or dataclasses.is_dataclass(hint) else str(hint)


def default(field: dataclasses.Field[Any]) -> str:
    """A default as TOML has it."""
    value = field.default
    if value is dataclasses.MISSING:
        if field.default_factory is dataclasses.MISSING:
            return "required"
        value = field.default_factory()
    if value is None or value in ("", {}, ()):
        return "–"
    return f"`{json.dumps(value)}`"


def tables(cls: type, name: str = "") -> Iterator[tuple[str, type]]:
    """Every table of keys: its dotted name and its dataclass."""
    yield name, cls
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if dataclasses.is_dataclass(hints[field.name]):
            yield from tables(hints[field.name], f"{name}.{field.name}".lstrip("."))


def rows(cls: type, name: str) -> Iterator[str]:
    """A line of the table for each field."""
    hints, words = get_type_hints(cls), described(cls)
    for field in dataclasses.fields(cls):
        if field.name not in words:
            raise ValueError(f"{cls.__name__}.{field.name} is not described in the docstring's section Args")
        text = words[field.name].replace("|", "\\|")
        own = f"{name}.{field.name}".lstrip(".")
        if dataclasses.is_dataclass(hints[field.name]):
            yield f"| `{field.name}` | table | [below](#{own.replace('.', '')}) | {text} |"
            continue
        if own in OPEN_TABLES:
            text = f"{text} {OPEN_TABLES[own]}"
        yield f"| `{field.name}` | {kind(hints[field.name])} | {default(field)} | {text} |"


def page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for name, cls in tables(Recipe):
        heading = f"## {name}" if name else "## The whole recipe"
        parts.append(
            "\n".join([heading, "", "| key | type | default | what |", "|---|---|---|---|", *rows(cls, name), ""])
        )
    return "\n".join(parts)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(PAGE.parents[1]))


if __name__ == "__main__":
    main()
