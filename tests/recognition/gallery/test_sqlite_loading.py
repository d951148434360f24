"""Loading a SQLite gallery: rows are checked in the bytes of the file, and exactly those are whole that records are."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hypersphere.recognition.gallery import ExactSearch, open_gallery, sqlite
from hypersphere.recognition.gallery.sqlite_file import COLUMNS, as_record, connect, is_whole, texts_as_bytes
from hypersphere.recognition.gallery.stored_template import Record
from tests.recognition.gallery.people import CONTRACT, DIM, units


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "people.db"
    with open_gallery(place, contract=CONTRACT, create=True) as gallery:
        for number, row in enumerate(units(12)):
            gallery.enroll(
                f"Zoë {number}", row, consent="ja, bitte" * (number % 3), expires=None if number % 2 else 4e9 + number
            )
    return place


def test_no_record_is_made_of_a_row(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts were decoded, made a record of and encoded again: two thirds of the time that a million rows took."""
    monkeypatch.setattr(sqlite, "as_record", lambda *_: pytest.fail("a record was made"))
    monkeypatch.setattr(Record, "__post_init__", lambda _: pytest.fail("a record was made"), raising=False)
    with open_gallery(path, contract=CONTRACT) as gallery:
        for number, row in enumerate(units(12)):
            (found,) = gallery.search(row[None], k=1)
            assert found[0].subject == f"Zoë {number}"


def test_memory_is_taken_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grown: list[int] = []
    grow = ExactSearch._grow

    def counted(self: ExactSearch, capacity: int) -> None:
        grown.append(capacity)
        grow(self, capacity)

    monkeypatch.setattr(ExactSearch, "_grow", counted)
    monkeypatch.setattr(sqlite, "_BATCH", 2)
    with open_gallery(path, contract=CONTRACT) as gallery:
        gallery.search(units(1), k=1)
        assert grown == [12]
        gallery.enroll("Bob", units(13)[12])
        assert gallery.search(units(13)[12:], k=1)[0][0].subject == "Bob"


@pytest.mark.parametrize(
    "change",
    [
        "subject = 'Bob'",
        "metadata = '{}' || ' '",
        "consent = 'no'",
        "enrolled = enrolled + 1",
        "expires = 5.0",
        "expires = 'never'",
        "enrolled = CAST(enrolled AS TEXT)",
        "id = 'another'",
        "subject = CAST(subject AS BLOB)",
        "consent = CAST(consent AS BLOB)",
        "vector = CAST(vector AS TEXT)",
        "vector = x'00'",
        "digest = x'00'",
        "digest = CAST(digest AS TEXT)",
        "subject = CAST(x'ff41' AS TEXT)",
    ],
)
def test_a_row_is_whole_where_its_record_is(path: Path, change: str) -> None:
    with closing(sqlite3.connect(path)) as plain:
        plain.execute(f"UPDATE templates SET {change} WHERE seq = 5")
        plain.commit()
    query = f"SELECT {COLUMNS}, digest FROM templates ORDER BY seq"
    with closing(connect(path)) as sql:
        records = [as_record(row, DIM) for row in sql.execute(query)]
        with texts_as_bytes(sql):
            whole = [is_whole(row, DIM) for row in sql.execute(query)]
        texts: list[tuple[Any, ...]] = sql.execute("SELECT subject FROM templates WHERE seq = 1").fetchall()
    assert whole == [record is not None for record in records] == [number != 4 for number in range(12)]
    assert texts == [("Zoë 0",)]
    with open_gallery(path, contract=CONTRACT) as gallery, pytest.warns(RuntimeWarning, match="1 damaged") as warned:
        gallery.search(units(12)[:1], k=1)
    assert "bytearray" not in str(warned[0].message)
