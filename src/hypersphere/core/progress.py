"""Progress of long work: rooms call a `Reporter`; only commands decide how to show it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

Reporter = Callable[[int, int], None]
"""Called as `report(done, total)`."""


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


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


class Progress:
    """A bar with rate and time left on a terminal, a plain line every few seconds in a log; silent below two seconds.

    Args:
        title: what is being done.
        unit: what is counted.
        stream: where to write; standard error by default.

    Example:
        >>> with Progress("solving", "steps") as report:
        ...     for step in range(10):
        ...         report(step + 1, 10)
    """

    def __init__(self, title: str, unit: str = "it", stream: TextIO | None = None) -> None:
        self.title = title
        self.unit = unit
        self.stream = stream or sys.stderr
        self.terminal = self.stream.isatty()
        self.interval = 0.1 if self.terminal else 10.0
        self.start = self.shown = time.monotonic()
        self.drawn = False
        self.base = 0, self.start

    def __enter__(self) -> Progress:
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
        if now - self.start < 2.0 or (now - self.shown < self.interval and done < total):
            return
        self.shown = now
        self.drawn = True
        rate = (done - self.base[0]) / max(now - self.base[1], 1e-9)
        left = _clock((total - done) / rate) if rate > 0 else "?"
        line = f"{self.title}: {done:,}/{total:,} {self.unit}, {_speed(rate)}, {left} left{f', {note}' if note else ''}"
        if self.terminal:
            filled = 24 * done // max(total, 1)
            self.stream.write(f"\r\x1b[2K[{'#' * filled}{'.' * (24 - filled)}] {line}")
        else:
            self.stream.write(line + "\n")
        self.stream.flush()
