"""Galleries of format 1, as versions before this one wrote them: refused with what to do, and restored."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hypersphere.core import Failure
from hypersphere.recognition.gallery import open_gallery, restore_gallery
from hypersphere.recognition.gallery.gallery_settings import settings_row
from hypersphere.recognition.gallery.stored_template import Record, audit_digest, packed
from tests.recognition.gallery.people import CONTRACT, units

_ROW = """
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, subject TEXT NOT NULL, vector BLOB NOT NULL,
    metadata TEXT NOT NULL, consent TEXT NOT NULL, enrolled REAL NOT NULL, expires REAL, digest BLOB NOT NULL"""
_SCHEMA = f"""
    PRAGMA page_size = 16384;
    PRAGMA application_id = {0x48535047};
    PRAGMA user_version = 1;
    PRAGMA journal_mode = WAL;
    CREATE TABLE settings (document TEXT NOT NULL, digest BLOB NOT NULL);
    CREATE TABLE templates ({_ROW});
    CREATE UNIQUE INDEX templates_by_id ON templates (id);
    CREATE INDEX templates_by_subject ON templates (subject);
    CREATE INDEX templates_by_expiry ON templates (expires) WHERE expires IS NOT NULL;
    CREATE TABLE quarantine ({_ROW});
    CREATE TABLE removed (n INTEGER PRIMARY KEY AUTOINCREMENT, seq INTEGER NOT NULL);
    CREATE TABLE audit (n INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, action TEXT NOT NULL,
    subject TEXT NOT NULL, detail TEXT NOT NULL, digest BLOB NOT NULL);"""
RECORDS = [
    Record(id=f"k{number}", subject=f"Zoë {number}", vector=packed(row), consent="yes", enrolled=2.0, expires=expires)
    for number, (row, expires) in enumerate(zip(units(5), [None, 4e9, None, 1.0, None], strict=True))
]
ENTRY = (3.0, "enroll", "Zoë 0", "k0")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as sql:
        sql.executescript(_SCHEMA)
        sql.execute("INSERT INTO settings VALUES (?, ?)", settings_row(CONTRACT))
        for each in RECORDS:
            row = (each.id, each.subject, each.vector, each.metadata, each.consent, each.enrolled, each.expires)
            sql.execute("INSERT INTO templates VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, each.digest))
        sql.execute("INSERT INTO audit VALUES (NULL, ?, ?, ?, ?, ?)", (*ENTRY, audit_digest(*ENTRY)))
        sql.commit()
    return path


def test_it_is_refused_with_what_to_do(old: Path) -> None:
    with pytest.raises(
        ValueError, match=r"old\.db: a gallery of format 1.*`hypersphere gallery restore .*old\.db NEW\.db`"
    ):
        open_gallery(old, contract=CONTRACT)


def test_it_is_restored(old: Path, tmp_path: Path) -> None:
    before = old.read_bytes()
    assert restore_gallery(old, tmp_path / "new.db") == 5
    assert old.read_bytes() == before
    with open_gallery(tmp_path / "new.db", contract=CONTRACT) as gallery:
        assert list(gallery.records()) == RECORDS
        assert (gallery.audit()[0].time, gallery.audit()[0].subject) == (3.0, "Zoë 0")
        assert gallery.search(units(1), 1)[0][0].subject == "Zoë 0"
        assert (gallery.info().size, gallery.info().expired, gallery.verify()) == (4, 1, [])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE templates SET subject = 'Bob' WHERE seq = 2", "template 'k1' is damaged"),
        ("UPDATE templates SET vector = x'00'", "template 'k0' is damaged"),
        ("UPDATE audit SET subject = 'Bob'", "audit trail is damaged"),
        ("UPDATE settings SET digest = x'00'", "settings are damaged"),
        ("INSERT INTO quarantine SELECT * FROM templates", "restore another backup"),
    ],
)
def test_a_damaged_one_is_not(old: Path, tmp_path: Path, change: str, words: str) -> None:
    with closing(sqlite3.connect(old)) as sql:
        sql.execute(change)
        sql.commit()
    with pytest.raises(Failure, match=words):
        restore_gallery(old, tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()
