"""The gallery of one machine: a SQLite file that is durable, and exact search in memory."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
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
    DuplicateTemplate,
    Gallery,
    GalleryDamaged,
    GalleryInfo,
    GalleryUnavailable,
    contract_digest,
    stored_entry,
)
from hypersphere.recognition.gallery.exact_search import ExactSearch
from hypersphere.recognition.gallery.sqlite_file import (
    COLUMNS,
    as_record,
    as_row,
    connect,
    create_file,
    is_whole,
    naming_errors,
    read_contract_of,
    texts_as_bytes,
)
from hypersphere.recognition.gallery.stored_template import Record, audit_digest, unpacked

_INSERT = f"INSERT INTO templates ({COLUMNS}, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
_BATCH = 10_000
_ERASE_WAIT = 5.0
"""Seconds to wait for readers until the log can be emptied after a removal."""


class SqliteGallery(Gallery):
    """Templates in a SQLite file.

    Every transaction is synced before it is acknowledged (`synchronous=FULL`), any number of processes may write, and
    each brings its own copy of the vectors up to date before it searches. What is removed is overwritten with zeros in
    the file (`secure_delete`), and the write-ahead log is emptied.
    """

    engine = "sqlite"

    def __init__(self, path: str | Path, contract: Contract | None, *, create: bool = False) -> None:
        self.path = Path(path)
        if not self.path.exists():
            if not create or contract is None:
                raise ValueError(f"{path}: there is no such gallery")
            create_file(self.path, contract)
        self._connection = connect(self.path)
        try:
            super().__init__(str(path), read_contract_of(self._connection, self.path), contract)
        except BaseException:
            self._connection.close()
            raise
        self._inode = self.path.stat().st_ino
        self._lock = threading.RLock()
        self._counted = ((-1, -1), 0, 0)
        self._forget_memory()

    def store(self, records: Iterable[Record], action: str) -> None:
        """See `Gallery.store`."""
        count, last = 0, None
        with self._writing() as sql:
            for record in records:
                if sql.execute(_INSERT, as_row(record)).rowcount:
                    count, last = count + 1, record
                    continue
                old = sql.execute(f"SELECT {COLUMNS}, digest FROM templates WHERE id = ?", (record.id,)).fetchone()
                known = as_record(old, self.dim)
                if known is None or not known.same_template(record):
                    raise DuplicateTemplate(f"{self.address}: the key {record.id!r} is that of another template")
            if last is not None and action:
                self._note(sql, [stored_entry(action, count, last)])

    def find(self, probes: NDArray[np.float32], k: int, where: Mapping[str, str]) -> list[list[Candidate]]:
        """See `Gallery.find`."""
        with self._reading() as sql:
            self._refresh(sql)
            found = self._rows.search(probes, k, allowed=self._allowed(sql, where))
            names = self._names(sql, np.concatenate([positions for positions, _ in found]))
        answers = []
        for positions, scores in found:
            ranked = sorted(
                (-float(score), *names[position]) for position, score in zip(positions.tolist(), scores, strict=True)
            )
            answers.append([Candidate(subject, name, min(-score, 1.0)) for score, name, subject in ranked[:k]])
        return answers

    def forget(self, subject: str) -> int:
        """See `Gallery.forget`: its bytes are overwritten in the file, in the log and in this process's memory."""
        return self._remove("subject = ?", (subject,), "forget", subject)

    def purge(self) -> int:
        """See `Gallery.purge`; quarantined rows go too."""
        with self._writing() as sql:
            sql.execute("DELETE FROM quarantine")
        return self._remove("expires <= ?", (time.time(),), "purge", "")

    def subjects(self) -> list[str]:
        """See `Gallery.subjects`."""
        with self._reading() as sql:
            rows = sql.execute(
                "SELECT DISTINCT subject FROM templates WHERE expires IS NULL OR expires > ? ORDER BY subject",
                (time.time(),),
            ).fetchall()
        return [row[0] for row in rows]

    def size(self) -> int:
        """See `Gallery.size`."""
        with self._reading() as sql:
            total, expired, _ = self._counts(sql)
        return total - expired

    def info(self) -> GalleryInfo:
        """See `Gallery.info`."""
        with self._reading() as sql:
            total, expired, subjects = self._counts(sql)
            quarantined = sql.execute("SELECT count(*) FROM quarantine").fetchone()[0]
        return GalleryInfo(
            engine=self.engine,
            address=self.address,
            size=total - expired,
            subjects=subjects if not expired else len(self.subjects()),
            expired=expired,
            quarantined=quarantined,
            dim=self.dim,
            contract=self.stored_contract.table(),
            contract_digest=contract_digest(self.stored_contract),
        )

    def use_exact(self) -> None:
        """See `Gallery.use_exact`: search is exact anyway."""

    def verify(self) -> list[Damage]:
        """See `Gallery.verify`; indexes that do not fit their tables are made anew.

        Raises:
            GalleryDamaged: the structure of the file is damaged, so that rows may be missing.
        """
        with self._writing() as sql:
            found = []
            if sql.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
                sql.execute("REINDEX")
                words = sql.execute("PRAGMA integrity_check(1)").fetchone()[0]
                if words != "ok":
                    raise GalleryDamaged(f"{self.address}: the file is damaged ({words}); restore a backup")
                found.append(Damage("index", ""))
            for seq, *values in sql.execute(f"SELECT seq, {COLUMNS}, digest FROM templates ORDER BY seq").fetchall():
                if as_record(tuple(values), self.dim) is None:
                    found.append(Damage("template", _shown(values[0])))
                    sql.execute(
                        f"INSERT INTO quarantine ({COLUMNS}, digest) "
                        f"SELECT {COLUMNS}, digest FROM templates WHERE seq = ?",
                        (seq,),
                    )
                    sql.execute("INSERT INTO removed (seq) VALUES (?)", (seq,))
                    sql.execute("DELETE FROM templates WHERE seq = ?", (seq,))
            for n, *values, digest in sql.execute("SELECT n, time, action, subject, detail, digest FROM audit"):
                if audit_digest(*values) != digest:
                    found.append(Damage("audit", str(n)))
            if found:
                self._note(sql, [AuditEntry(time.time(), "verify", "", f"{len(found)} damaged")])
        return found

    def records(self) -> Iterator[Record]:
        """See `Gallery.records`: the state of one moment, whatever is written meanwhile."""
        self._check_file()
        with naming_errors(self.path), closing(connect(self.path)) as sql:
            sql.execute("BEGIN")
            for values in sql.execute(f"SELECT {COLUMNS}, digest FROM templates ORDER BY id"):
                record = as_record(values, self.dim)
                if record is not None:
                    yield record

    def audit(self) -> list[AuditEntry]:
        """See `Gallery.audit`."""
        with self._reading() as sql:
            rows = sql.execute("SELECT time, action, subject, detail FROM audit ORDER BY n").fetchall()
        return [AuditEntry(*row) for row in rows]

    def note(self, entries: Iterable[AuditEntry]) -> None:
        """See `Gallery.note`."""
        with self._writing() as sql:
            self._note(sql, entries)

    def close(self) -> None:
        """See `Gallery.close`."""
        with self._lock:
            self._connection.close()

    def _note(self, sql: sqlite3.Connection, entries: Iterable[AuditEntry]) -> None:
        rows = ((entry.time, entry.action, entry.subject, entry.detail) for entry in entries)
        sql.executemany(
            "INSERT INTO audit (time, action, subject, detail, digest) VALUES (?, ?, ?, ?, ?)",
            ((*row, audit_digest(*row)) for row in rows),
        )

    def _remove(self, condition: str, values: tuple[object, ...], action: str, subject: str) -> int:
        with self._writing() as sql:
            sql.execute(f"INSERT INTO removed (seq) SELECT seq FROM templates WHERE {condition}", values)
            count = sql.execute(f"DELETE FROM templates WHERE {condition}", values).rowcount
            sql.execute(f"DELETE FROM quarantine WHERE {condition}", values)
            if count:
                self._note(sql, [AuditEntry(time.time(), action, subject, counted(count, "template"))])
        if count:
            self.empty_log()
            with self._reading() as sql:
                self._refresh(sql)
        return count

    def empty_log(self) -> None:
        """Move the log into the file and cut it to nothing, on disk too: what was removed is then in neither."""
        deadline = time.monotonic() + _ERASE_WAIT
        with self._lock, naming_errors(self.path):
            while self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
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

    def _forget_memory(self) -> None:
        self._rows = ExactSearch(self.dim)
        self._seqs = np.empty(0, np.int64)
        self._seen: tuple[int, int] | None = (0, 0)

    def _state(self, sql: sqlite3.Connection) -> tuple[int, int]:
        """The numbers of the last template and of the last removal: they tell one state of the gallery from another."""
        ends = dict(sql.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
        return ends.get("templates", 0), ends.get("removed", 0)

    def _counts(self, sql: sqlite3.Connection) -> tuple[int, int, int]:
        """Templates, expired ones among them, and people; counted anew only where the gallery has changed."""
        now = self._state(sql)
        if self._counted[0] != now:
            counts = sql.execute("SELECT count(*), count(DISTINCT subject) FROM templates").fetchone()
            self._counted = (now, *counts)
        expired = sql.execute("SELECT count(*) FROM templates WHERE expires <= ?", (time.time(),)).fetchone()[0]
        return self._counted[1], expired, self._counted[2]

    def _refresh(self, sql: sqlite3.Connection) -> None:
        """Bring the vectors in memory up to the state that this transaction sees."""
        now = self._state(sql)
        if now == self._seen:
            return
        if self._seen is None:
            self._forget_memory()
        seen = self._seen or (0, 0)
        # Until the end no state is seen: whatever interrupts this, the next call begins with an empty memory.
        self._seen = None
        gone = sql.execute(
            "SELECT seq FROM removed WHERE n > ? AND seq <= ? AND seq NOT IN (SELECT seq FROM templates)",
            (seen[1], seen[0]),
        ).fetchall()
        if gone:
            self._rows.remove(self._positions(np.array(gone, np.int64)[:, 0]))
            if 2 * self._rows.removed > self._rows.size:
                self._forget_memory()
                seen, self._seen = (0, 0), None
        if seen[0] == 0:
            self._rows.reserve(sql.execute("SELECT count(*) FROM templates").fetchone()[0])
        newer = f"SELECT {COLUMNS}, digest, seq FROM templates WHERE seq > ? ORDER BY seq"
        damaged, seqs = [], [self._seqs]
        with texts_as_bytes(sql):
            rows = sql.execute(newer, (seen[0],))
            while batch := rows.fetchmany(_BATCH):
                whole = [row for row in batch if is_whole(row[:-1], self.dim)]
                if len(whole) < len(batch):
                    damaged += [_shown(row[0]) for row in batch if not is_whole(row[:-1], self.dim)]
                self._rows.append(unpacked([row[2] for row in whole], self.dim))
                seqs.append(np.array([row[-1] for row in whole], np.int64))
        self._seqs = np.concatenate(seqs)
        self._seen = now
        if damaged:
            warnings.warn(
                f"{self.path}: {counted(len(damaged), 'damaged template')} left out ({', '.join(damaged[:5])}); "
                "run `hypersphere gallery verify`",
                RuntimeWarning,
                stacklevel=4,
            )

    def _positions(self, seqs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where rows are in memory; those that are not there are left out."""
        places = np.searchsorted(self._seqs, seqs)
        there = places < len(self._seqs)
        there[there] = self._seqs[places[there]] == seqs[there]
        return places[there]

    def _allowed(self, sql: sqlite3.Connection, where: Mapping[str, str]) -> NDArray[np.bool_] | None:
        """Which rows a search may find: with these metadata, not expired; None for all."""
        allowed = None
        if where:
            condition = " AND ".join(f"json_extract(metadata, '$.{key}') = ?" for key in where)
            chosen = sql.execute(f"SELECT seq FROM templates WHERE {condition}", tuple(where.values())).fetchall()
            allowed = np.zeros(len(self._seqs), np.bool_)
            allowed[self._positions(np.array(chosen, np.int64).reshape(-1))] = True
        late = sql.execute("SELECT seq FROM templates WHERE expires <= ?", (time.time(),)).fetchall()
        if late:
            allowed = np.ones(len(self._seqs), np.bool_) if allowed is None else allowed
            allowed[self._positions(np.array(late, np.int64).reshape(-1))] = False
        return allowed

    def _names(self, sql: sqlite3.Connection, positions: NDArray[np.int64]) -> dict[int, tuple[str, str]]:
        """Template ids and subjects of rows."""
        names = {}
        for position in np.unique(positions).tolist():
            row = sql.execute(
                "SELECT id, subject FROM templates WHERE seq = ?", (int(self._seqs[position]),)
            ).fetchone()
            if row is None:
                raise GalleryDamaged(f"{self.address}: a template in memory is not in the file; run gallery verify")
            names[position] = row
        return names

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._transaction("BEGIN") as sql:
            yield sql

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._transaction("BEGIN IMMEDIATE") as sql:
            yield sql

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock, naming_errors(self.path):
            self._check_file()
            self._connection.execute(begin)
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _check_file(self) -> None:
        """A file that was removed or replaced still takes writes, which nobody would ever find."""
        try:
            there = self.path.stat().st_ino == self._inode
        except OSError:
            there = False
        if not there:
            raise GalleryUnavailable(f"{self.path}: the file was removed or replaced after it was opened")


def _shown(value: object) -> str:
    if isinstance(value, bytearray):
        value = value.decode("utf-8", "surrogateescape")
    return str(value).encode("ascii", "backslashreplace").decode()
