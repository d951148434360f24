"""Checks, registry and progress."""

import io

import pytest

from hypersphere.core import Progress, Registry, check_choice, check_positive, check_range, duration, nearest


def test_checks_name_the_argument_and_what_would_be_right() -> None:
    assert check_positive("scale", 3) == 3.0
    assert check_range("margin", 0.5, 0, 1) == 0.5
    assert check_choice("engine", "dense", ("dense", "chunked")) == "dense"
    with pytest.raises(ValueError, match="scale=-1 must be positive"):
        check_positive("scale", -1)
    with pytest.raises(ValueError, match="margin=2 must be between 0 and 1"):
        check_range("margin", 2, 0, 1)
    with pytest.raises(ValueError, match="margin=0 must be at least 1"):
        check_range("margin", 0, 1)
    with pytest.raises(ValueError, match="scale=None is not a number"):
        check_positive("scale", None)


def test_nearest_suggests() -> None:
    assert nearest("ArcFase", ["arcface", "cosface"]) == "did you mean 'arcface'? Known: arcface, cosface"
    assert nearest("zzz", ["arcface"]) == "Known: arcface"


def test_nearest_does_not_guess_where_nothing_is_alike() -> None:
    assert nearest("proxy_anchor", ["zero_centroid", "arcface"]) == "Known: arcface, zero_centroid"


def test_registry() -> None:
    things: Registry[type] = Registry("thing")
    things.register("b")(type("B", (), {}))
    things.register("a")(type("A", (), {}))
    assert things.names() == ["a", "b"]
    assert things.names("a*") == ["a"]
    assert things["a"].name == "a"  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="unknown thing 'c'; Known: a, b"):
        things["c"]
    with pytest.raises(ValueError, match="thing 'a' is registered twice"):
        things.register("a")(type("C", (), {}))


class Clock:
    now = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("time.monotonic", lambda: made.now)
    return made


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_short_work_shows_nothing(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("work", stream=stream) as report:
        clock.now = 1.0
        report(10, 10)
    assert stream.getvalue() == ""


def test_a_log_gets_plain_lines(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("work", "steps", stream=stream) as report:
        for second in range(1, 41):
            clock.now = float(second)
            report(second * 100, 4000)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "work: 1,000/4,000 steps, 0:30 left, 100 a second"
    assert lines[-1] == "work: 4,000/4,000 steps, 0:00 left, 100 a second"
    assert len(lines) == 4


def test_a_terminal_gets_a_bar(clock: Clock) -> None:
    stream = Terminal()
    with Progress("work", stream=stream) as report:
        clock.now = 4000.0
        report(1, 4)
    assert stream.getvalue() == "\r\x1b[2K[######..................] work: 1/4 it, 3:20:00 left, 4,000.0 s each\n"


def test_what_was_done_before_does_not_count_in_the_rate(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    with Progress("work", "steps", stream=stream) as report:
        clock.now = 5.0
        report.begin(9000)
        clock.now = 15.0
        report(9010, 10_000, "loss 1")
    assert "9,010/10,000 steps, 16:30 left, 1.0 a second, loss 1" in stream.getvalue()


def test_a_duration_in_words() -> None:
    assert [duration(seconds) for seconds in (0.2, 8.4, 89, 91, 3000, 9000)] == [
        "1 s", "8 s", "89 s", "2 min", "50 min", "2.5 h",
    ]  # fmt: skip
