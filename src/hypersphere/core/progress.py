"""Progress of long work: rooms call a `Reporter`; only commands decide how to show it."""

from __future__ import annotations

import os
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Self, TextIO

Reporter = Callable[[int, int], None]
"""Called as `report(done, total)`; a total of 0 is not known."""

_BAR, _SHORTEST_BAR, _SHORTEST_TITLE = 24, 6, 8


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def duration(seconds: float) -> str:
    """About how long, in words: `8 s`, `3 min`, `2.5 h`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _speed(rate: float) -> str:
    return f"{rate:,.{0 if rate >= 10 else 1}f} a second" if rate >= 1 or rate == 0 else f"{1 / rate:,.1f} s each"


def part_of(progress: Reporter | None, before: int, total: int) -> Reporter | None:
    """A reporter for a part of some work, which counts from 0.

    Args:
        progress: of the whole.
        before: how much of it is done when the part begins.
        total: how much the whole is.
    """
    return None if progress is None else lambda done, _: progress(before + done, total)


def terminal_width(stream: TextIO) -> int:
    """The columns of the terminal behind a stream now: what COLUMNS says, the terminal itself, or 80."""
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _cells(text: str) -> int:
    """The columns that a text takes on a terminal: wide letters two, combining marks none."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def clip(text: str, width: int) -> str:
    """A text in at most so many columns, an ellipsis where its end is missing."""
    if _cells(text) <= width:
        return text
    while text and _cells(text) > width - 1:
        text = text[:-1]
    return f"{text}…" if width > 0 else ""


def fit_line(title: str, share: float, details: Sequence[str], width: int) -> str:
    """The bar, the title and as many details as a line of `width` columns holds.

    Details beyond the third go first, from the right; then the bar gets shorter, the third detail goes, the bar, the
    second detail; then the title gets shorter. With room for nothing else the first detail itself is cut.

    Args:
        title: what is being done.
        share: how much of it is done, 0 to 1.
        details: how far, how long still, how fast, and what else there is: the least wanted last.
        width: of the line.
    """
    return next((line for line in _lines(title, share, details, width) if _cells(line) <= width), "")


def _lines(title: str, share: float, details: Sequence[str], width: int) -> Iterator[str]:
    """The line in ever shorter forms."""

    def text(count: int) -> str:
        return f"{title}: {', '.join(details[:count])}"

    def with_bar(length: int, rest: str) -> str:
        filled = int(length * share)
        return f"[{'#' * filled}{'.' * (length - filled)}] {rest}"

    few = min(3, len(details))
    for count in range(len(details), few, -1):
        yield with_bar(_BAR, text(count))
    for count in range(few, 0, -1):
        room = width - _cells(text(count)) - 3
        if room >= _SHORTEST_BAR:
            yield with_bar(min(room, _BAR), text(count))
        elif count <= 2:
            yield text(count)
    room = width - _cells(details[0]) - 2
    if room >= _SHORTEST_TITLE:
        yield f"{clip(title, room)}: {details[0]}"
    yield clip(details[0], width)


class Progress:
    """A bar with rate and time left on a terminal, a plain line every few seconds in a log; silent below two seconds.

    On a terminal it is one line, redrawn in place and never wider than the terminal is at that moment.
    `Progress.silent = True` switches all of them off.

    Args:
        title: what is being done.
        unit: what is counted.
        stream: where to write; standard error by default.

    Example:
        >>> with Progress("solving", "steps") as report:
        ...     for step in range(10):
        ...         report(step + 1, 10)
    """

    silent: ClassVar[bool] = False

    def __init__(self, title: str, unit: str = "it", stream: TextIO | None = None) -> None:
        self.title = title
        self.unit = unit
        self.stream = stream or sys.stderr
        self.terminal = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self.interval = 0.1 if self.terminal else 10.0
        self.start = self.shown = time.monotonic()
        self.drawn = self.ended = False
        self.base = 0, self.start

    def __enter__(self) -> Self:
        self.start = self.shown = time.monotonic()
        self.base = 0, self.start
        return self

    def begin(self, done: int) -> None:
        """Work starts now, and so much of it was done before: the rate counts from here."""
        self.base = done, time.monotonic()

    def __exit__(self, *_: object) -> None:
        if self.drawn and self.terminal:
            self.stream.write("\n")
            self.stream.flush()

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """Show how far the work is; `note` is said besides."""
        now = time.monotonic()
        ended, self.ended = self.ended, 0 < total <= done
        early = now - self.shown < self.interval and (ended or not self.ended)
        if self.silent or now - self.start < 2.0 or early:
            return
        self.shown = now
        self.drawn = True
        rate = (done - self.base[0]) / max(now - self.base[1], 1e-9)
        left = _clock((total - done) / rate) if rate > 0 else "?"
        far = [f"{done:,}/{total:,} {self.unit}", f"{left} left"] if total else [f"{done:,} {self.unit}"]
        details = [detail for detail in (*far, _speed(rate), *note.split(", ")) if detail]
        if self.terminal:
            width = terminal_width(self.stream) - 1
            text = f"{self.title}: {', '.join(details)}"
            line = fit_line(self.title, done / total, details, width) if total else clip(text, width)
            self.stream.write(f"\r\x1b[2K{line}")
        else:
            self.stream.write(f"{self.title}: {', '.join(details)}\n")
        self.stream.flush()
