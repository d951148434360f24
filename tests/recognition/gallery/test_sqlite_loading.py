"""Loading a SQLite gallery: rows are checked in the bytes of the file, and exactly those are whole that records are."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hypersphere.recognition.gallery import ExactSearch, GalleryDamaged, open_gallery, sqlite_file, sqlite_memory
from tests.recognition.gallery.people import CONTRACT, units


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
    monkeypatch.setattr(sqlite_file, "record_of", lambda *_: pytest.fail("a record was made"))
    with open_gallery(path, contract=CONTRACT) as gallery:
        assert gallery.size() == 12


def test_memory_is_taken_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grown: list[int] = []
    grow = ExactSearch._grow

    def counted(self: ExactSearch, capacity: int) -> None:
        grown.append(capacity)
        grow(self, capacity)

    monkeypatch.setattr(ExactSearch, "_grow", counted)
    monkeypatch.setattr(sqlite_memory, "_BATCH", 2)
    with open_gallery(path, contract=CONTRACT) as gallery:
        gallery.search(units(1), k=1)
        assert grown == [15], "a quarter more than the templates, once"
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
        "seq = 99",
        "subject = CAST(subject AS BLOB)",
        "consent = CAST(consent AS BLOB)",
        "vector = CAST(vector AS TEXT)",
        "vector = x'00'",
        "digest = x'00'",
        "digest = CAST(digest AS TEXT)",
        "subject = CAST(x'ff41' AS TEXT)",
    ],
)
def test_a_row_that_was_changed_stops_the_search(path: Path, change: str) -> None:
    with closing(sqlite3.connect(path)) as plain:
        plain.execute(f"UPDATE templates SET {change} WHERE seq = 5")
        plain.commit()
    with open_gallery(path, contract=CONTRACT) as gallery:
        for _ in range(2):
            with pytest.raises(GalleryDamaged, match="1 damaged template .*gallery verify") as refused:
                gallery.search(units(12)[:1], k=1)
        assert "bytearray" not in str(refused.value)
        assert [damage.kind for damage in gallery.verify()][-1] == "template"
        assert gallery.search(units(12)[:1], k=1)[0][0].subject == "Zoë 0"
        assert gallery.size() == 11
