"""The gallery of one machine: a SQLite file that is durable, and exact search in memory."""

from __future__ import annotations

import heapq
import os
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hypersphere.core import counted
from hypersphere.models import Contract
from hypersphere.recognition.gallery.driver import (
    AuditEntry,
    Candidate,
    Damage,
    Gallery,
    GalleryDamaged,
    GalleryInfo,
    GalleryUnavailable,
    stored_entry,
)
from hypersphere.recognition.gallery.gallery_settings import contract_digest
from hypersphere.recognition.gallery.seals import MODULUS, sum_of
from hypersphere.recognition.gallery.sqlite_audit import damaged_entries, read_entries
from hypersphere.recognition.gallery.sqlite_change import Change
from hypersphere.recognition.gallery.sqlite_file import (
    COLUMNS,
    connect,
    create_file,
    naming_errors,
    read_settings_of,
    record_of,
    share_of,
    text_of,
)
from hypersphere.recognition.gallery.sqlite_memory import Memory, shown
from hypersphere.recognition.gallery.sqlite_state import State, read_state
from hypersphere.recognition.gallery.stored_template import Record, spellings

_ERASE_WAIT = 5.0
"""Seconds to wait for readers until the log can be emptied after a removal."""


class SqliteGallery(Gallery):
    """Templates in a SQLite file.

    Every transaction is synced before it is acknowledged (`synchronous=FULL`), any number of processes may write, and
    each brings its own copy of the templates up to date before it answers. Answers come from rows whose seals hold, and
    only if they are all rows of the sealed state: indexes and counts of SQLite are not believed. What is removed is
    overwritten with zeros in the file (`secure_delete`), and the write-ahead log is emptied.

    Reading and writing have a connection and a lock each: who reads never waits for a writer.
    """

    engine = "sqlite"

    def __init__(
        self, path: str | Path, contract: Contract | None, *, create: bool = False, unsealed: bool = False
    ) -> None:
        self.path = Path(path)
        if not self.path.exists():
            if not create or contract is None:
                raise ValueError(f"{path}: there is no such gallery")
            create_file(self.path, contract)
        self._reader = connect(self.path)
        try:
            stored, self._seals = read_settings_of(self._reader, self.path, unsealed=unsealed)
            super().__init__(str(path), stored, contract)
            self._writer = connect(self.path)
        except BaseException:
            self._reader.close()
            raise
        self._inode = self.path.stat().st_ino
        self._read_lock, self._write_lock = threading.RLock(), threading.RLock()
        self._memory: Memory | None = None
        self._damage: tuple[State, str] | None = None

    def store(self, records: Iterable[Record], action: str) -> None:
        """See `Gallery.store`."""
        with self._writing() as change:
            count, last = change.insert(records)
            if last is not None and action:
                change.note([stored_entry(action, count, last)])

    def find(self, probes: NDArray[np.float32], k: int, where: Mapping[str, str]) -> list[list[Candidate]]:
        """See `Gallery.find`."""
        with self._reading() as sql:
            memory = self._refreshed(sql)
            assert memory.search is not None
            nearest = memory.search.search(probes, k, allowed=memory.allowed(time.time(), where))
            positions = np.unique(np.concatenate([positions for positions, _ in nearest])).tolist()
            records = dict(zip(positions, self._read(sql, memory.numbers(positions)), strict=True))
        answers = []
        for positions, scores in nearest:
            ranked = sorted(
                (-score, records[position].id, records[position].subject)
                for position, score in zip(positions.tolist(), scores.tolist(), strict=True)
            )
            answers.append([Candidate(subject, name, min(-score, 1.0)) for score, name, subject in ranked[:k]])
        return answers

    def forget(self, subject: str) -> int:
        """See `Gallery.forget`: its bytes are overwritten in the file, in the log and in this process's memory.

        Whose a row in quarantine was is not certain, so that all of them go, too.
        """
        names = spellings(subject)
        return self._remove("forget", subject, lambda memory: [n for name in names for n in memory.of_subject(name)])

    def forget_template(self, template_id: str) -> bool:
        """See `Gallery.forget_template`."""
        with self._reading() as sql:
            # The index may be damaged: where it has none, the table itself is asked.
            for table in ("templates", "templates NOT INDEXED"):
                row = sql.execute(f"SELECT seq, subject FROM {table} WHERE id = ?", (template_id,)).fetchone()
                if row is not None:
                    break
        if row is None:
            return False
        number, subject = row[0], text_of(row[1])
        return bool(
            self._remove("forget", subject, lambda memory: [n for n in memory.of_subject(subject) if n == number])
        )

    def templates(self, subject: str) -> list[Record]:
        """See `Gallery.templates`."""
        with self._reading() as sql:
            memory = self._refreshed(sql)
            records = self._read(sql, [n for name in spellings(subject) for n in memory.of_subject(name)])
        return sorted(records, key=lambda record: record.id)

    def replace_with(self, records: Iterable[Record]) -> int:
        """See `Gallery.replace_with`."""
        with self._writing() as change:
            with self._reading() as sql:
                numbers = self._refreshed(sql).numbers_of_all()
            for number in numbers:
                change.remove(number)
            change.sql.execute("DELETE FROM quarantine")
            count, _ = change.insert(records)
            words = f"{counted(count, 'template')} in the place of {len(numbers):,}"
            change.note([AuditEntry(time.time(), "restore", "", words)])
        self.empty_log()
        return count

    def purge(self) -> int:
        """See `Gallery.purge`; quarantined rows go too."""
        return self._remove("purge", "", lambda memory: memory.expired(time.time()))

    def subjects(self, after: str = "", limit: int | None = None) -> list[str]:
        """See `Gallery.subjects`."""
        with self._reading() as sql:
            names = self._refreshed(sql).people(time.time())
        return heapq.nsmallest(len(names) if limit is None else limit, (name for name in names if name > after))

    def size(self) -> int:
        """See `Gallery.size`."""
        with self._reading() as sql:
            memory = self._refreshed(sql)
            return memory.state.templates - len(memory.expired(time.time()))

    def stored(self) -> int:
        """See `Gallery.stored`: the state says it."""
        with self._reading() as sql:
            return read_state(sql, self._seals, self.address).templates

    def info(self) -> GalleryInfo:
        """See `Gallery.info`."""
        now = time.time()
        with self._reading() as sql:
            memory = self._refreshed(sql)
            expired = len(memory.expired(now))
            return GalleryInfo(
                engine=self.engine,
                address=self.address,
                size=memory.state.templates - expired,
                subjects=memory.count_people(now),
                expired=expired,
                quarantined=sql.execute("SELECT count(*) FROM quarantine").fetchone()[0],
                dim=self.dim,
                contract=self.stored_contract.table(),
                contract_digest=contract_digest(self.stored_contract),
            )

    def use_exact(self) -> None:
        """See `Gallery.use_exact`: search is exact anyway."""

    def verify(self) -> list[Damage]:
        """See `Gallery.verify`: of the state of one moment; only where there is damage do writers wait.

        Raises:
            GalleryDamaged: the structure of the file is damaged, or templates are missing.
        """
        with self._snapshot() as sql:
            state = read_state(sql, self._seals, self.address)
            sound_structure = _structure(sql) == "ok"
            total, whole, damaged = 0, 0, []
            for row in sql.execute(f"SELECT {COLUMNS} FROM templates NOT INDEXED"):
                share = share_of(row, self._seals, self.dim)
                if share is None:
                    damaged.append((row[0], shown(row[1])))
                else:
                    total, whole = (total + sum_of([share])) % MODULUS, whole + 1
            damages = [Damage("template", name) for _, name in damaged] + damaged_entries(sql, state, self._seals)
        lost = (state.total - total) % MODULUS
        if whole + len(damaged) != state.templates or (lost and not damaged):
            raise GalleryDamaged(
                f"{self.address}: {whole:,} of {state.templates:,} templates are as they were stored, and "
                f"{len(damaged)} damaged; restore a backup"
            )
        if damages or not sound_structure:
            with self._writing() as change:
                if _structure(change.sql) != "ok":
                    change.sql.execute("REINDEX")
                    words = _structure(change.sql)
                    if words != "ok":
                        raise GalleryDamaged(f"{self.address}: the file is damaged ({words}); restore a backup")
                    damages.insert(0, Damage("index", ""))
                change.quarantine([number for number, _ in damaged], lost)
                change.note([AuditEntry(time.time(), "verify", "", f"{len(damages)} damaged")])
        return damages

    def records(self) -> Iterator[Record]:
        """See `Gallery.records`: the state of one moment, whatever is written meanwhile.

        Raises:
            GalleryDamaged: at the end, if these were not all templates.
        """
        with self._snapshot() as sql:
            state = read_state(sql, self._seals, self.address)
            total = 0
            for row in sql.execute(f"SELECT {COLUMNS} FROM templates ORDER BY id"):
                share = share_of(row, self._seals, self.dim)
                if share is not None:
                    total = (total + sum_of([share])) % MODULUS
                    yield record_of(row)
            if total != state.total:
                raise GalleryDamaged(f"{self.address}: not all templates can be read; run `hypersphere gallery verify`")

    def audit(self) -> list[AuditEntry]:
        """See `Gallery.audit`."""
        with self._reading() as sql:
            return read_entries(sql)

    def note(self, entries: Iterable[AuditEntry]) -> None:
        """See `Gallery.note`."""
        with self._writing() as change:
            change.note(entries)

    def close(self) -> None:
        """See `Gallery.close`."""
        with self._write_lock, self._read_lock:
            self._writer.close()
            self._reader.close()

    def _remove(self, action: str, subject: str, choose: Callable[[Memory], list[int]]) -> int:
        with self._reading() as sql:
            self._refreshed(sql)  # which may take seconds, while others can still write
        with self._writing() as change:
            # Nobody else writes now, so that what the other connection reads is what this one changes.
            with self._reading() as sql:
                numbers = choose(self._refreshed(sql))
            for number in numbers:
                change.remove(number)
            quarantined = change.sql.execute("DELETE FROM quarantine").rowcount
            if numbers:
                change.note([AuditEntry(time.time(), action, subject, counted(len(numbers), "template"))])
        if numbers or quarantined:
            self.empty_log()
            with self._reading() as sql:
                self._refreshed(sql)
        return len(numbers)

    def empty_log(self) -> None:
        """Move the log into the file and cut it to nothing, on disk too: what was removed is then in neither."""
        deadline = time.monotonic() + _ERASE_WAIT
        with self._write_lock, naming_errors(self.path):
            while self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                if time.monotonic() > deadline:
                    warnings.warn(
                        f"{self.path}: another process reads an earlier state; removed templates stay in the "
                        f"write-ahead log until the next removal",
                        RuntimeWarning,
                        stacklevel=4,
                    )
                    return
                time.sleep(0.02)
            with open(f"{self.path}-wal", "r+b") as log:
                os.fsync(log.fileno())  # SQLite cuts its log without a sync

    def _refreshed(self, sql: sqlite3.Connection) -> Memory:
        """The templates of the state that this transaction sees; the same answer follows from them as from the file.

        Raises:
            GalleryDamaged: the rows of the file are not the templates of the state.
        """
        state = read_state(sql, self._seals, self.address)
        if self._damage is not None and self._damage[0] == state:
            raise GalleryDamaged(self._damage[1])
        # Until the end there is no memory: whatever interrupts this, the next call begins with an empty one.
        memory, self._memory = self._memory, None
        if memory is not None and memory.search is None and self.contract is not None:
            memory = None  # it was counted only, before `use_contract`: searching needs the vectors
        if memory is None or (memory.state != state and not self._catch_up(memory, sql, state)):
            memory = Memory(self.dim, vectors=self.contract is not None)
            damaged = memory.catch_up(sql, state, self._seals)
            if damaged or not memory.holds():
                words = f"{counted(len(damaged), 'damaged template')} ({', '.join(damaged[:5])})"
                words = words if damaged else "not all templates can be read"
                text = f"{self.address}: {words}; run `hypersphere gallery verify`"
                self._damage = (state, text)
                raise GalleryDamaged(text)
        self._memory = memory
        return memory

    def _catch_up(self, memory: Memory, sql: sqlite3.Connection, state: State) -> bool:
        """Whether a memory could be brought up to a state; where not, all rows must be read again."""
        return not memory.catch_up(sql, state, self._seals) and memory.holds() and not memory.crowded

    def _read(self, sql: sqlite3.Connection, numbers: Iterable[int]) -> list[Record]:
        """The templates of sequence numbers."""
        records = []
        for number in numbers:
            row = sql.execute(f"SELECT {COLUMNS} FROM templates WHERE seq = ?", (number,)).fetchone()
            if row is None or share_of(row, self._seals, self.dim) is None:
                raise GalleryDamaged(
                    f"{self.address}: a template is not as it was stored; run `hypersphere gallery verify`"
                )
            records.append(record_of(row))
        return records

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own, in a transaction: whoever reads everything keeps nobody else waiting."""
        self._check_file()
        with naming_errors(self.path), closing(connect(self.path)) as sql:
            sql.execute("BEGIN")
            yield sql

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._read_lock, self._transaction(self._reader, "BEGIN") as sql:
            yield sql

    @contextmanager
    def _writing(self) -> Iterator[Change]:
        with self._write_lock, self._transaction(self._writer, "BEGIN IMMEDIATE") as sql:
            change = Change(sql, self._seals, self.dim, self.address)
            yield change
            change.save()

    @contextmanager
    def _transaction(self, sql: sqlite3.Connection, begin: str) -> Iterator[sqlite3.Connection]:
        with naming_errors(self.path):
            self._check_file()
            sql.execute(begin)
            try:
                yield sql
                sql.execute("COMMIT")
            except BaseException:
                if sql.in_transaction:
                    sql.execute("ROLLBACK")
                raise

    def _check_file(self) -> None:
        """A file that was removed or replaced still takes writes, which nobody would ever find."""
        try:
            there = self.path.stat().st_ino == self._inode
        except OSError:
            there = False
        if not there:
            raise GalleryUnavailable(f"{self.path}: the file was removed or replaced after it was opened")


def _structure(sql: sqlite3.Connection) -> str:
    """What SQLite says of the structure of the file: `ok`, or the first thing that is wrong."""
    words = sql.execute("PRAGMA integrity_check(1)").fetchone()[0]
    return text_of(words) if isinstance(words, bytearray) else str(words)
