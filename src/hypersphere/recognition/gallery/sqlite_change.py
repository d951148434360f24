"""The transactions that change a SQLite gallery, and the state after them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import replace

from hypersphere.recognition.gallery.driver import AuditEntry, DuplicateTemplate, GalleryDamaged
from hypersphere.recognition.gallery.seals import MODULUS, Seals, sum_of
from hypersphere.recognition.gallery.sqlite_file import COLUMNS, Row, record_of, share_of
from hypersphere.recognition.gallery.sqlite_state import read_state, write_state
from hypersphere.recognition.gallery.stored_template import Record

_INSERT = f"INSERT INTO templates ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"


class Change:
    """A transaction that changes a gallery, and the state after it.

    Args:
        sql: in a transaction that nobody else can write beside.
        seals: of the gallery.
        dim: width of its templates.
        address: of the gallery, for messages.
    """

    def __init__(self, sql: sqlite3.Connection, seals: Seals, dim: int, address: str) -> None:
        self.sql = sql
        self.before = self.state = read_state(sql, seals, address)
        self._seals, self._dim, self._address = seals, dim, address

    def save(self) -> None:
        """Store the new state, if anything was changed."""
        if self.state != self.before:
            write_state(self.sql, replace(self.state, changes=self.before.changes + 1), self._seals)

    def insert(self, records: Iterable[Record]) -> tuple[int, Record | None]:
        """Store records whose keys are free; return how many, and the last of them.

        Raises:
            DuplicateTemplate: a key is that of another template.
        """
        number, shares, newest = self.state.last, [], None
        for record in records:
            seal, share = self._seals.template(number + 1, record.content)
            row = (
                number + 1, record.id, record.subject, record.vector, record.metadata, record.consent,
                record.enrolled, record.expires, seal,
            )  # fmt: skip
            if self.sql.execute(_INSERT, row).rowcount:
                number, newest = number + 1, record
                shares.append(share)
            elif not self._is_there(record):
                raise DuplicateTemplate(f"{self._address}: the key {record.id!r} is that of another template")
        self.state = replace(
            self.state,
            last=number,
            templates=self.state.templates + len(shares),
            total=(self.state.total + sum_of(shares)) % MODULUS,
        )
        return len(shares), newest

    def remove(self, number: int) -> None:
        """Remove the template of a sequence number, which must be as it was stored."""
        row = self.sql.execute(f"SELECT {COLUMNS} FROM templates WHERE seq = ?", (number,)).fetchone()
        share = row and share_of(row, self._seals, self._dim)
        if not share:
            raise GalleryDamaged(
                f"{self._address}: a template is not as it was stored; run `hypersphere gallery verify`"
            )
        self._drop(number)
        total = (self.state.total - sum_of([share])) % MODULUS
        self.state = replace(self.state, templates=self.state.templates - 1, total=total)

    def quarantine(self, numbers: Iterable[int], lost: int) -> None:
        """Take damaged templates out of use.

        Args:
            numbers: their sequence numbers.
            lost: by how much the sum of shares is less without them.
        """
        count = 0
        for number in numbers:
            self.sql.execute(
                f"INSERT INTO quarantine ({COLUMNS}) SELECT {COLUMNS} FROM templates WHERE seq = ?", (number,)
            )
            self._drop(number)
            count += 1
        total = (self.state.total - lost) % MODULUS
        self.state = replace(self.state, templates=self.state.templates - count, total=total)

    def note(self, entries: Iterable[AuditEntry]) -> None:
        """Add entries to the audit trail."""
        for entry in entries:
            values = (entry.time, entry.action, entry.subject, entry.detail)
            number = self.state.entries + 1
            seal = self._seals.entry(number, self.state.head, values)
            self.sql.execute("INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?)", (number, *values, seal))
            self.state = replace(self.state, entries=number, head=seal)

    def _is_there(self, record: Record) -> bool:
        """Whether the same template is stored under its key already."""
        known: Row | None = self.sql.execute(f"SELECT {COLUMNS} FROM templates WHERE id = ?", (record.id,)).fetchone()
        if known is None or share_of(known, self._seals, self._dim) is None:
            return False
        return record_of(known).same_template(record)

    def _drop(self, number: int) -> None:
        count = self.sql.execute("DELETE FROM templates WHERE seq = ?", (number,)).rowcount
        if count != 1:
            raise GalleryDamaged(f"{self._address}: the file is damaged (a row cannot be removed); restore a backup")
        removals = self.state.removals + 1
        self.sql.execute("INSERT INTO removed VALUES (?, ?)", (removals, number))
        self.state = replace(self.state, removals=removals)
