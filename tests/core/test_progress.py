"""The progress line on a terminal: one line, whatever the terminal's width."""

import fcntl
import io
import os
import pty
import re
import struct
import termios
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import TextIO

import pytest

from hypersphere.core import Progress
from hypersphere.core.progress import _cells, fit_line, terminal_width

NOTE = (
    "loss 12.3456, lr 0.1, own angle 45.3°, nearest other 71.2°, class margin 33.1°, bound 2.345, norm 21.3,"
    " images/s 1,234, waiting 3 %, best 97.12 %"
)


class Screen:
    """A terminal of so many columns that knows \\r, \\n and erasing of a line, and keeps every line there was."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.lines: list[list[str]] = [[]]
        self.place = 0

    def feed(self, text: str) -> None:
        for part in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|[\s\S]", text):
            if part == "\r":
                self.place = 0
            elif part == "\n":
                self.lines.append([])
            elif part == "\x1b[2K":
                self.lines[-1] = []
            else:
                assert not part.startswith("\x1b"), f"unknown sequence {part!r}"
                self._put(part)

    def _put(self, letter: str) -> None:
        if self.place + _cells(letter) > self.columns:
            self.lines.append([])
            self.place = 0
        line = self.lines[-1]
        line += [" "] * (self.place + 1 - len(line))
        line[self.place] = letter
        self.place += _cells(letter)

    def text(self) -> list[str]:
        return ["".join(line).rstrip() for line in self.lines]


class Pseudoterminal:
    """Both ends of a pseudo-terminal; what is written to `stream` appears on `screen`."""

    def __init__(self, columns: int) -> None:
        self.master, slave = pty.openpty()
        self.stream: TextIO = os.fdopen(slave, "w", encoding="utf-8")
        self.screen = Screen(columns)
        self.resize(columns)

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.screen.columns = columns

    def close(self) -> None:
        self.stream.close()
        os.close(self.master)

    def show(self) -> None:
        os.set_blocking(self.master, False)
        try:
            while got := os.read(self.master, 65536):
                self.screen.feed(got.decode())
        except BlockingIOError:
            pass


@pytest.fixture(autouse=True)
def _no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("TERM", "xterm")


Open = Callable[[int], Pseudoterminal]


@pytest.fixture
def open_terminal() -> Iterator[Open]:
    with ExitStack() as stack:
        yield lambda columns: stack.enter_context(closing(Pseudoterminal(columns)))


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    time = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: time[0])
    return time


def work(terminal: Pseudoterminal, time: list[float], title: str, steps: int = 400) -> None:
    with Progress(title, "steps", stream=terminal.stream) as report:
        for step in range(1, steps + 1):
            time[0] += 0.1
            report(step * 25, steps * 25, NOTE)
            terminal.show()
    terminal.show()


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_one_line_at_every_width(columns: int, now: list[float], open_terminal: Open) -> None:
    terminal = open_terminal(columns)
    for title in ("training SphereFace2", "embedding 東京の人々の顔 by runs/faces-0123456789ab, step 12,000"):
        work(terminal, now, title)
    first, second, empty = terminal.screen.text()
    assert "10,000/10,000 steps" in first
    assert "10,000/10,000 steps" in second
    assert empty == ""
    assert ("lr 0.1" in first) == (columns >= 120)
    assert ("0:00 left" in first, "[" in first) == (True, columns >= 80)


def test_a_terminal_that_changes_is_asked_again(now: list[float], open_terminal: Open) -> None:
    terminal = open_terminal(200)
    with Progress("training", "steps", stream=terminal.stream) as report:
        for columns in (200, 60, 120, 8):
            terminal.resize(columns)
            now[0] += 5.0
            report(int(now[0]), 100, NOTE)
            terminal.show()
            assert len(terminal.screen.lines) == 1
            assert 0 < _cells(terminal.screen.text()[0]) < columns


def test_columns_goes_before_the_terminal(monkeypatch: pytest.MonkeyPatch, open_terminal: Open) -> None:
    terminal = open_terminal(120)
    assert terminal_width(terminal.stream) == 120
    monkeypatch.setenv("COLUMNS", "66")
    assert terminal_width(terminal.stream) == 66
    monkeypatch.setenv("COLUMNS", "wide")
    terminal.resize(0)
    assert terminal_width(terminal.stream) == 80


def test_what_goes_first() -> None:
    details = ["50/100 steps", "0:10 left", "5.0 a second", "loss 1", "lr 0.1"]
    bar = "[############............] "
    assert fit_line("work", 0.5, details, 90) == f"{bar}work: {', '.join(details)}"
    assert fit_line("work", 0.5, details, 80) == f"{bar}work: {', '.join(details[:4])}"
    assert fit_line("work", 0.5, details, 72) == f"{bar}work: {', '.join(details[:3])}"
    assert fit_line("work", 0.5, details, 60) == f"[#######.......] work: {', '.join(details[:3])}"
    assert fit_line("work", 0.5, details, 40) == f"[####....] work: {', '.join(details[:2])}"
    assert fit_line("work", 0.5, details, 30) == f"work: {', '.join(details[:2])}"
    assert fit_line("a long title of work", 0.5, details, 22) == "a long …: 50/100 steps"
    assert fit_line("a long title of work", 0.5, details, 5) == "50/1…"


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch, now: list[float], open_terminal: Open) -> None:
    monkeypatch.setenv("TERM", "dumb")
    terminal = open_terminal(80)
    with Progress("work", "steps", stream=terminal.stream) as report:
        now[0] = 11.0
        report(1, 2)
    terminal.show()
    assert terminal.screen.text() == ["work: 1/2 steps, 0:11 left, 11.0 s each", ""]


def test_a_log_is_told_the_end_once(now: list[float]) -> None:
    """Also where what comes after the last step takes its time, and is looked at often."""
    log = io.StringIO()
    with Progress("training", "steps", log) as report:
        for second, done in ((11.0, 5), (12.0, 10), (12.2, 10), (12.4, 10), (13.0, 4), (14.0, 10)):
            now[0] = second
            report(done, 10)
    assert [line.split(" steps")[0] for line in log.getvalue().splitlines()] == [
        "training: 5/10",
        "training: 10/10",
        "training: 10/10",  # of a second stage
    ]


def test_a_total_that_is_not_known(now: list[float], open_terminal: Open) -> None:
    terminal = open_terminal(40)
    with Progress("judging", "intervals", stream=terminal.stream) as report:
        for done in range(1, 13):
            now[0] += 0.25
            report(done, 0)
    terminal.show()
    first, _ = terminal.screen.text()
    assert first == "judging: 12 intervals, 4.0 a second"


def test_silence(monkeypatch: pytest.MonkeyPatch, now: list[float], open_terminal: Open) -> None:
    monkeypatch.setattr(Progress, "silent", True)
    terminal = open_terminal(80)
    work(terminal, now, "work")
    assert terminal.screen.text() == [""]
