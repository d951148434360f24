"""The templates of one state of a SQLite gallery in memory, made of rows whose seals hold and of nothing else."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hypersphere.recognition.gallery.exact_search import ExactSearch
from hypersphere.recognition.gallery.seals import MODULUS, SEAL_BYTES, Seals, sum_of
from hypersphere.recognition.gallery.sqlite_file import COLUMNS, Row, share_of, text_of
from hypersphere.recognition.gallery.sqlite_state import State
from hypersphere.recognition.gallery.stored_template import unpacked

_BATCH = 10_000
_ROW = np.dtype(
    [("seq", "<i8"), ("subject", "<i4"), ("metadata", "<i4"), ("expires", "<f8"), ("share", f"V{SEAL_BYTES}")]
)
Flags = NDArray[np.bool_]


class Memory:
    """Vectors, sequence numbers, people, metadata and expiry of all templates, in the order of their numbers.

    Args:
        dim: width of the templates.
        vectors: whether to keep them: who only counts and removes needs none.
    """

    def __init__(self, dim: int, *, vectors: bool) -> None:
        self.state = State()
        self.search = ExactSearch(dim) if vectors else None
        self._dim = dim
        self._rows = np.zeros(0, _ROW)
        self._alive = np.zeros(0, np.bool_)
        self._size = self._templates = self._total = 0
        self._subjects, self._metadata = _Codes(), _Codes()
        self._templates_of = np.zeros(0, np.int64)

    @property
    def crowded(self) -> bool:
        """Whether more than half of the rows are of templates that were removed."""
        return 2 * (self._size - self._templates) > self._size

    def catch_up(self, sql: sqlite3.Connection, state: State, seals: Seals) -> list[str]:
        """Bring the rows up to a state; return the ids of templates that are damaged.

        Whoever calls this must check `holds` afterwards, and use a new memory if this was interrupted.
        """
        removed = sql.execute("SELECT seq FROM removed WHERE n > ?", (self.state.removals,)).fetchall()
        # A damaged number is found out by `holds`, as one that is missing.
        self._remove(np.array([number for (number,) in removed if type(number) is int], np.int64))
        self._reserve(state.templates - self._templates)
        damaged: list[str] = []
        rows = sql.execute(f"SELECT {COLUMNS} FROM templates WHERE seq > ? ORDER BY seq", (self.state.last,))
        while batch := rows.fetchmany(_BATCH):
            shares = [share_of(row, seals, self._dim) for row in batch]
            damaged += [shown(row[1]) for row, share in zip(batch, shares, strict=True) if share is None]
            whole = [(row, share) for row, share in zip(batch, shares, strict=True) if share is not None]
            self._append([row for row, _ in whole], [share for _, share in whole])
        self.state = state
        return damaged

    def holds(self) -> bool:
        """Whether these are the templates of the state, all of them and no others."""
        mine, stored = (self._templates, self._total), (self.state.templates, self.state.total)
        return mine == stored and bool((np.diff(self._rows["seq"][: self._size]) > 0).all())

    def allowed(self, now: float, where: Mapping[str, str]) -> Flags:
        """Which rows match now: not removed, not expired, and with these metadata."""
        rows = self._rows[: self._size]
        allowed: Flags = self._alive[: self._size] & (rows["expires"] > now)
        if where:
            wanted = where.items()
            fits = [wanted <= json.loads(text).items() for text in self._metadata.texts]
            allowed &= np.array(fits, np.bool_)[rows["metadata"]]
        return allowed

    def numbers(self, positions: Iterable[int]) -> list[int]:
        """The sequence numbers of rows."""
        return [int(self._rows["seq"][position]) for position in positions]

    def of_subject(self, subject: str) -> list[int]:
        """The sequence numbers of a person's templates."""
        return self._numbers_where(self._rows["subject"][: self._size] == self._subjects.known.get(subject, -1))

    def numbers_of_all(self) -> list[int]:
        """The sequence numbers of all templates."""
        return self._numbers_where(self._alive[: self._size])

    def expired(self, now: float) -> list[int]:
        """The sequence numbers of templates that have expired."""
        return self._numbers_where(self._rows["expires"][: self._size] <= now)

    def people(self, now: float) -> list[str]:
        """Names of the people who have a template that has not expired, in no order."""
        return [self._subjects.texts[code] for code in np.flatnonzero(self._counts(now)).tolist()]

    def count_people(self, now: float) -> int:
        """How many people have a template that has not expired."""
        return int(np.count_nonzero(self._counts(now)))

    def _counts(self, now: float) -> NDArray[np.int64]:
        """How many templates that have not expired each person has."""
        if not self.expired(now):
            return self._templates_of
        return np.bincount(self._rows["subject"][: self._size][self.allowed(now, {})])

    def _numbers_where(self, flags: Flags) -> list[int]:
        numbers: list[int] = self._rows["seq"][: self._size][flags & self._alive[: self._size]].tolist()
        return numbers

    def _append(self, rows: Sequence[Row], shares: Sequence[bytes]) -> None:
        self._reserve(len(rows))
        place = slice(self._size, self._size + len(rows))
        new = self._rows[place]
        new["seq"] = [row[0] for row in rows]
        new["subject"] = subjects = self._subjects.of([text_of(row[2]) for row in rows])
        new["metadata"] = self._metadata.of([text_of(row[4]) for row in rows])
        new["expires"] = [np.inf if row[7] is None else row[7] for row in rows]
        new["share"] = np.frombuffer(b"".join(shares), _ROW["share"])
        self._alive[place] = True
        if self.search is not None:
            self.search.append(unpacked([row[3] for row in rows], self._dim))
        if len(self._subjects.texts) > len(self._templates_of):
            known, self._templates_of = self._templates_of, np.zeros(2 * len(self._subjects.texts), np.int64)
            self._templates_of[: len(known)] = known
        np.add.at(self._templates_of, subjects, 1)
        self._total = (self._total + sum_of(shares)) % MODULUS
        self._templates += len(rows)
        self._size += len(rows)

    def _remove(self, numbers: NDArray[np.int64]) -> None:
        """Forget rows; those that are not here, for they came and went since the last state, are left out."""
        seqs = self._rows["seq"][: self._size]
        places = np.flatnonzero(self._alive[: self._size])
        places = places[np.isin(seqs[places], numbers)] if len(numbers) else places[:0]
        if self.search is not None:
            self.search.remove(places)
        self._alive[places] = False
        gone = self._rows[places]
        np.subtract.at(self._templates_of, gone["subject"], 1)
        self._total = (self._total - sum_of(share.tobytes() for share in gone["share"])) % MODULUS
        self._templates -= len(places)

    def _reserve(self, more: int) -> None:
        """Take a quarter more than needed, which costs nothing until it is used, and saves a copy at each enrolment."""
        if self._size + more > len(self._rows):
            capacity = (self._size + more) * 5 // 4
            for name in ("_rows", "_alive"):
                old = getattr(self, name)
                new = np.zeros(capacity, old.dtype)
                new[: self._size] = old[: self._size]
                setattr(self, name, new)
            if self.search is not None:
                self.search.reserve(capacity)


class _Codes:
    """Numbers for texts that occur often."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.known: dict[str, int] = {}

    def of(self, texts: Sequence[str]) -> list[int]:
        """The number of each text, a new one for a new text."""
        codes = []
        for text in texts:
            code = self.known.get(text)
            if code is None:
                code = self.known[text] = len(self.texts)
                self.texts.append(text)
            codes.append(code)
        return codes


def shown(value: object) -> str:
    """A value of a damaged row as a message may show it."""
    return (text_of(value) if isinstance(value, bytearray) else str(value)).encode("ascii", "backslashreplace").decode()
