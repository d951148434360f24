"""A search that is interrupted while it loads templates: the next one names the right people."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hypersphere.recognition.gallery import ExactSearch, Gallery, GalleryUnavailable, open_gallery, sqlite_memory
from tests.recognition.gallery.people import CONTRACT, units

PEOPLE, LATER = 23, 9
ROWS = units(PEOPLE + LATER)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_memory, "_BATCH", 4)


def enrol(gallery: Gallery, numbers: range) -> None:
    for number in numbers:
        gallery.enroll(f"p{number}", ROWS[number], key=f"k{number:03}")


def interrupt(monkeypatch: pytest.MonkeyPatch, name: str, call: int, error: BaseException, *, after: bool) -> None:
    """Let the given call of a method of `ExactSearch` raise once, before or after its work."""
    work: Callable[..., None] = getattr(ExactSearch, name)
    calls = 0

    def interrupted(self: ExactSearch, rows: NDArray[np.float16]) -> None:
        nonlocal calls
        calls += 1
        if calls == call and not after:
            raise error
        work(self, rows)
        if calls == call:
            raise error

    monkeypatch.setattr(ExactSearch, name, interrupted)


def names_at_one(gallery: Gallery, rows: NDArray[np.float32]) -> list[str]:
    best = [candidates[0] for candidates in gallery.search(rows, k=1)]
    assert all(candidate.score > 0.999 for candidate in best)
    return [candidate.subject for candidate in best]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt),
        (sqlite3.OperationalError("disk I/O error"), GalleryUnavailable),
        (MemoryError(), MemoryError),
    ],
)
@pytest.mark.parametrize("call", range(1, 7))
def test_the_first_search_is_interrupted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: int,
    error: BaseException,
    shown: type[BaseException],
    after: bool,
) -> None:
    with open_gallery(tmp_path / "people.db", contract=CONTRACT, create=True) as gallery:
        enrol(gallery, range(PEOPLE))
        interrupt(monkeypatch, "append", call, error, after=after)
        with pytest.raises(shown):
            gallery.search(ROWS[:1])
        assert names_at_one(gallery, ROWS[:PEOPLE]) == [f"p{number}" for number in range(PEOPLE)]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("name", "call"), [("remove", 1), ("append", 1), ("append", 2), ("append", 3)])
def test_a_later_search_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: int, after: bool
) -> None:
    """Another process has enrolled and forgotten people since the last search."""
    path = tmp_path / "people.db"
    with (
        open_gallery(path, contract=CONTRACT, create=True) as gallery,
        open_gallery(path, contract=CONTRACT) as other,
    ):
        enrol(other, range(PEOPLE))
        assert names_at_one(gallery, ROWS[:1]) == ["p0"]
        other.forget("p3")
        enrol(other, range(PEOPLE, PEOPLE + LATER))
        interrupt(monkeypatch, name, call, KeyboardInterrupt(), after=after)
        with pytest.raises(KeyboardInterrupt):
            gallery.search(ROWS[:1])
        stay = [number for number in range(PEOPLE + LATER) if number != 3]
        assert names_at_one(gallery, ROWS[stay]) == [f"p{number}" for number in stay]
        assert gallery.search(ROWS[3:4], k=1)[0][0].score < 0.999
