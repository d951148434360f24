"""The audit trail of a SQLite gallery, each entry of which hangs on the one before."""

from __future__ import annotations

import sqlite3

from hypersphere.recognition.gallery.driver import AuditEntry, Damage
from hypersphere.recognition.gallery.seals import SEAL_BYTES, Seals
from hypersphere.recognition.gallery.sqlite_file import text_of
from hypersphere.recognition.gallery.sqlite_state import State


def read_entries(sql: sqlite3.Connection) -> list[AuditEntry]:
    """All entries, oldest first, damaged ones as they are."""
    rows = sql.execute("SELECT time, action, subject, detail FROM audit ORDER BY n")
    return [AuditEntry(*map(_plain, row)) for row in rows]  # type: ignore[arg-type]


def damaged_entries(sql: sqlite3.Connection, state: State, seals: Seals) -> list[Damage]:
    """Entries that are not as they were written, or that lack the one before them; and whether the end is missing."""
    found, before, count = [], bytes(SEAL_BYTES), 0
    for n, *values, seal in sql.execute("SELECT n, time, action, subject, detail, digest FROM audit ORDER BY n"):
        count += 1
        if seals.entry(n, before, tuple(map(_plain, values))) != seal:
            found.append(Damage("audit", str(n)))
        before = seal if type(seal) is bytes else b""
    if (count, before) != (state.entries, state.head):
        found.append(Damage("audit", f"end ({count} of {state.entries} entries)"))
    return found


def _plain(value: object) -> object:
    return text_of(value) if isinstance(value, bytearray) else value
