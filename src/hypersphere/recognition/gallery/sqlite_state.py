"""The state of a SQLite gallery: what it holds in all, sealed."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from hypersphere.recognition.gallery.driver import GalleryDamaged
from hypersphere.recognition.gallery.seals import SEAL_BYTES, Seals

_FIELDS = "changes, templates, last, removals, entries, total, head"


@dataclass(frozen=True, kw_only=True)
class State:
    """What a gallery holds after one of its transactions.

    Args:
        changes: how many transactions there were.
        templates: how many templates it holds.
        last: the largest sequence number of a template so far; none is used twice.
        removals: how many templates were removed so far.
        entries: how many entries the audit trail has.
        total: the sum of the templates' shares (see `Seals`).
        head: the seal of the last entry of the audit trail.
    """

    changes: int = 0
    templates: int = 0
    last: int = 0
    removals: int = 0
    entries: int = 0
    total: int = 0
    head: bytes = bytes(SEAL_BYTES)

    def row(self, seals: Seals) -> tuple[object, ...]:
        """Return the values of `_FIELDS`, and their seal."""
        counts = (self.changes, self.templates, self.last, self.removals, self.entries)
        values = (*counts, seals.padded(self.total, self.changes), self.head)
        return (*values, seals.state(values))


def write_state(sql: sqlite3.Connection, state: State, seals: Seals) -> None:
    """Store a state in the place of the one before."""
    sql.execute("DELETE FROM state")
    sql.execute("INSERT INTO state VALUES (?, ?, ?, ?, ?, ?, ?, ?)", state.row(seals))


def read_state(sql: sqlite3.Connection, seals: Seals, address: str) -> State:
    """Return the state that a transaction sees.

    Raises:
        GalleryDamaged: it is not what was written.
    """
    rows = sql.execute(f"SELECT {_FIELDS}, digest FROM state").fetchall()
    if len(rows) == 1 and seals.state(tuple(rows[0][:-1])) == rows[0][-1]:
        changes, templates, last, removals, entries, padded, head = rows[0][:-1]
        return State(
            changes=changes,
            templates=templates,
            last=last,
            removals=removals,
            entries=entries,
            total=seals.unpadded(padded, changes),
            head=head,
        )
    raise GalleryDamaged(f"{address}: what it says of itself is damaged; restore a backup")
