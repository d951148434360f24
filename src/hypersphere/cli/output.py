"""How commands speak: results, the words around them, colours on a terminal, or one JSON document instead."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from hypersphere.core import Progress, terminal_width


@dataclass(frozen=True)
class Results:
    """What a command found: it returns this besides printing, and `--json` writes it instead.

    Args:
        document: names to values; paths, dataclasses and NumPy's numbers and arrays are written as JSON has them.
        status: of the command; 1 where something failed.
    """

    document: Mapping[str, Any]
    status: int = 0

    def to_json(self, encoding: str = "utf-8") -> str:
        """The document as JSON text, in ASCII where the encoding lacks a letter; what is not finite is null."""
        plain = _plain(self.document)
        text = json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False)
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            return json.dumps(plain, indent=1, allow_nan=False)
        return text


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    not_finite = isinstance(value, float) and not math.isfinite(value)
    return None if not_finite else str(value) if isinstance(value, Path) else value


def note(text: str = "") -> None:
    """Print words around the results, which `--quiet` leaves out."""
    if not Progress.silent:
        print(text, flush=True)


def screen_width() -> int | None:
    """The columns that a line of results may have; None where it goes to a file."""
    return terminal_width(sys.stdout) - 1 if sys.stdout.isatty() else None


def wrapped(start: str, text: str) -> str:
    """A line of a list: on a terminal its text goes on below itself, in a file it is one line."""
    width = screen_width()
    if width is None:
        return start + text
    width = max(width, len(start) + 20)
    return textwrap.fill(text, width, initial_indent=start, subsequent_indent=" " * len(start))


def has_colours(stream: TextIO) -> bool:
    """Whether to colour what is written to a stream: a terminal that can, and a user who did not say NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def red(text: str, stream: TextIO | None = None) -> str:
    """Return text in red, for what failed."""
    return _coloured("31", text, stream)


def green(text: str, stream: TextIO | None = None) -> str:
    """Return text in green, for what held."""
    return _coloured("32", text, stream)


def bold(text: str, stream: TextIO | None = None) -> str:
    """Return text in bold, for what is best."""
    return _coloured("1", text, stream)


def _coloured(code: str, text: str, stream: TextIO | None) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if has_colours(stream or sys.stdout) else text
