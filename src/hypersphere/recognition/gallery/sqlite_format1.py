"""SQLite galleries of format 1, of earlier versions: read to be restored as galleries of this one."""

from __future__ import annotations

import sqlite3
import unicodedata
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from hypersphere.core import Failure
from hypersphere.recognition.gallery.driver import AuditEntry
from hypersphere.recognition.gallery.gallery_settings import read_settings
from hypersphere.recognition.gallery.sqlite_file import APPLICATION, naming_errors, record_of, text_of
from hypersphere.recognition.gallery.stored_template import Record, audit_digest

_COLUMNS = "seq, id, subject, vector, metadata, consent, enrolled, expires, digest"


class FormatOneFile:
    """A gallery of format 1, whole or refused: what `restore_gallery` reads of it.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.address = str(path)
        self._path = path
        with naming_errors(path), closing(self._connect()) as sql:
            rows = sql.execute("SELECT document, digest FROM settings").fetchall()
            self.stored_contract = read_settings([(text_of(text), digest) for text, digest in rows], self.address)
            quarantined = sql.execute("SELECT count(*) FROM quarantine").fetchone()[0]
            if quarantined or text_of(sql.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
                raise Failure(f"{path}: is damaged; restore another backup")
        for _ in self.records():
            pass

    def records(self) -> Iterator[Record]:
        """All records, by rising id."""
        with naming_errors(self._path), closing(self._connect()) as sql:
            for row in sql.execute(f"SELECT {_COLUMNS} FROM templates ORDER BY id"):
                record = record_of(row)
                if record.digest != row[-1] or len(record.vector) != 2 * self.stored_contract.width:
                    raise Failure(f"{self.address}: the template {record.id!r} is damaged; restore another backup")
                yield replace(record, subject=unicodedata.normalize("NFC", record.subject))

    def audit(self) -> list[AuditEntry]:
        """The audit trail, oldest first."""
        with naming_errors(self._path), closing(self._connect()) as sql:
            rows = sql.execute("SELECT time, action, subject, detail, digest FROM audit ORDER BY n").fetchall()
        entries = [
            AuditEntry(time, text_of(action), text_of(who), text_of(words)) for time, action, who, words, _ in rows
        ]
        for entry, row in zip(entries, rows, strict=True):
            if audit_digest(entry.time, entry.action, entry.subject, entry.detail) != row[-1]:
                raise Failure(f"{self.address}: its audit trail is damaged; restore another backup")
        return entries

    def _connect(self) -> sqlite3.Connection:
        sql = sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
        sql.text_factory = bytearray
        sql.execute("PRAGMA trusted_schema = OFF")
        return sql


def is_format_one(path: Path) -> bool:
    """Whether a file is a gallery of format 1."""
    with naming_errors(path), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as sql:
        numbers = [sql.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    return numbers == [APPLICATION, 1]
