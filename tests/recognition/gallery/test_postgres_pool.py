"""PostgreSQL under several threads: nobody waits for another's question, and none goes on that nobody waits for."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from hypersphere.recognition.gallery import GalleryUnavailable, open_gallery
from hypersphere.recognition.gallery import postgres as postgres_gallery
from hypersphere.recognition.gallery.postgres import PostgresGallery
from tests.recognition.gallery.people import CONTRACT, units
from tests.recognition.gallery.servers import Postgres

ROWS = units(6)
_NUMBERS = count()


@pytest.fixture
def gallery(postgres: Postgres) -> Iterator[PostgresGallery]:
    with open_gallery(postgres.address_of(f"pool{next(_NUMBERS)}"), contract=CONTRACT, create=True) as made:
        assert isinstance(made, PostgresGallery)
        for number, row in enumerate(ROWS[:4]):
            made.enroll(f"p{number}", row, key=f"k{number}")
        yield made


@contextmanager
def locked(postgres: Postgres, gallery: PostgresGallery) -> Iterator[Any]:
    """Let every question about templates wait, as an overloaded server does."""
    import psycopg

    with psycopg.connect(postgres.address) as other:
        other.execute(f"LOCK TABLE {gallery._name}.templates IN ACCESS EXCLUSIVE MODE")
        yield other
        other.rollback()


def test_a_search_that_takes_too_long_is_ended_by_the_server(
    gallery: PostgresGallery, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Questions that timed out went on running, so that 8 clients had no answer at all."""
    monkeypatch.setattr(postgres_gallery, "_SEARCH_MS", 100)
    running = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'hypersphere' AND state = 'active'"
    with locked(postgres, gallery) as other:
        for _ in range(3):
            with pytest.raises(GalleryUnavailable, match="takes too long.*gallery approximate"):
                gallery.search(ROWS[:1])
        assert other.execute(running).fetchone()[0] == 0
    assert gallery.search(ROWS[:1], 1)[0][0].subject == "p0"


def test_a_thread_does_not_wait_for_anothers_question(gallery: PostgresGallery, postgres: Postgres) -> None:
    found: list[str] = []
    waiting = threading.Thread(target=lambda: found.extend(each.subject for each in gallery.search(ROWS[:1], 1)[0]))
    with locked(postgres, gallery):
        waiting.start()
        assert len(gallery.audit()) == 4
        assert not found
    waiting.join()
    assert found == ["p0"]


def test_many_threads_search_at_once(gallery: PostgresGallery) -> None:
    found: list[str] = []

    def search() -> None:
        for number in range(4):
            found.append(gallery.search(ROWS[number : number + 1], 1)[0][0].subject)

    threads = [threading.Thread(target=search) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(12 * ["p0", "p1", "p2", "p3"])
    assert len(gallery._pool._idle) <= postgres_gallery._CONNECTIONS


def test_who_waits_for_too_long_is_told_so(gallery: PostgresGallery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_gallery, "_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(gallery._pool, "_seconds", 0.01)
    for _ in range(postgres_gallery._SCANS):
        gallery._scans.acquire()
    with pytest.raises(GalleryUnavailable, match="too many searches"):
        gallery.search(ROWS[:1])
    for _ in range(postgres_gallery._CONNECTIONS):
        gallery._pool._slots.acquire()
    with pytest.raises(GalleryUnavailable, match="too many questions"):
        gallery.size()


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_what_was_interrupted_changes_no_later_answer(
    gallery: PostgresGallery, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def interrupted(name: str, act: Callable[[], object]) -> None:
        def stop(*_: object, **__: object) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(postgres_gallery, name, stop)
            with pytest.raises(error):
                act()

    interrupted("exact_top", lambda: gallery.search(ROWS[:1]))
    interrupted("stored_entry", lambda: gallery.enroll("late", ROWS[4]))
    assert [found[0].subject for found in gallery.search(ROWS[:4], 1)] == ["p0", "p1", "p2", "p3"]
    assert (gallery.size(), len(gallery.audit()), gallery.verify()) == (4, 4, [])
