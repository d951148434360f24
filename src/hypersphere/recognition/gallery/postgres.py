"""The gallery of a server: PostgreSQL with pgvector, for many writers."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersphere.core import Failure, import_extra
from hypersphere.models import Contract
from hypersphere.recognition.gallery.driver import (
    AuditEntry,
    Candidate,
    Damage,
    DuplicateTemplate,
    Gallery,
    GalleryInfo,
    GalleryUnavailable,
    contract_digest,
    read_settings,
    settings_row,
)
from hypersphere.recognition.gallery.rescoring import Near, exact_top
from hypersphere.recognition.gallery.stored_template import Record, as_json, audit_digest

_BATCH = 1000
_CONNECT_SECONDS = 2
_STATEMENT_MS = 60_000
_MOST = 1_000_000
_WIDEST_PLAIN = 3500
"""Numbers of a vector that fit beside the rest of a row into a page of 8 kB."""
_COLUMNS = "id, subject, vector, metadata, consent, enrolled, expires"
_READ = _COLUMNS.replace("vector", "halfvec_send(vector)") + ", digest"
_SCHEMA = """
CREATE SCHEMA {name};
CREATE TABLE {name}.settings (document TEXT NOT NULL, digest BYTEA NOT NULL);
CREATE TABLE {name}.templates (
    id TEXT COLLATE "C" PRIMARY KEY, subject TEXT COLLATE "C" NOT NULL, vector halfvec({dim}) NOT NULL,
    metadata TEXT NOT NULL, consent TEXT NOT NULL, enrolled DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION,
    digest BYTEA NOT NULL, tags JSONB GENERATED ALWAYS AS (metadata::jsonb) STORED);
CREATE INDEX ON {name}.templates (subject);
CREATE INDEX ON {name}.templates (expires) WHERE expires IS NOT NULL;
CREATE TABLE {name}.quarantine (LIKE {name}.templates);
CREATE TABLE {name}.audit (
    n BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, time DOUBLE PRECISION NOT NULL, action TEXT NOT NULL,
    subject TEXT NOT NULL, detail TEXT NOT NULL, digest BYTEA NOT NULL);
"""
_PLAIN = "ALTER TABLE {name}.templates ALTER COLUMN vector SET STORAGE PLAIN"


class PostgresGallery(Gallery):
    """Templates in a schema of a PostgreSQL database.

    The server searches exactly, by a scan in float16; what may be among the best is scored again from the stored
    numbers. Vectors are in the row itself (`STORAGE PLAIN`). Acknowledged means committed with `synchronous_commit=on`.

    Args:
        address: without its name.
        name: of the gallery, a schema of its own.
        shown: the address as it may be shown.
        contract: see `open_gallery`.
        create: see `open_gallery`.
    """

    engine = "postgres"

    def __init__(self, address: str, name: str, shown: str, contract: Contract | None, *, create: bool) -> None:
        self._psycopg = import_extra("psycopg", "a gallery in PostgreSQL")
        self._source, self._name, self._shown = address, f"hypersphere_{name}", shown
        self._lock = threading.RLock()
        self._connection: Any = None
        try:
            super().__init__(shown, read_settings(self._settings(contract, create), shown), contract)
        except BaseException:
            self.close()
            raise

    def store(self, records: Iterable[Record], action: str) -> None:
        """See `Gallery.store`."""
        waiting, count = iter(records), 0
        with self._transaction() as sql, sql.cursor() as cursor:
            while batch := list(islice(waiting, _BATCH)):
                cursor.executemany(
                    f"INSERT INTO {self._name}.templates ({_COLUMNS}, digest) "
                    "VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO NOTHING",
                    [_as_row(record) for record in batch],
                )
                if cursor.rowcount < len(batch):
                    self._check_same(sql, {record.id: record for record in batch})
                count, last = count + cursor.rowcount, batch[-1]
            if count and action:
                words = (last.subject, last.id) if count == 1 else ("", f"{count} templates")
                self._note(sql, [AuditEntry(time.time(), action, *words)])

    def find(self, probes: NDArray[np.float32], k: int, where: Mapping[str, str]) -> list[list[Candidate]]:
        """See `Gallery.find`: all probes of a call see one state."""
        with self._transaction() as sql:
            sql.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            return [self._find_one(sql, probe, k, where) for probe in probes]

    def _find_one(self, sql: Any, probe: NDArray[np.float32], k: int, where: Mapping[str, str]) -> list[Candidate]:
        rounded = probe.astype(np.float16)
        asked = _Halfvec(rounded)
        off = float(np.linalg.norm(probe - rounded.astype(np.float32))) + self.dim * 2.0**-22

        now = time.time()

        def fetch(limit: int) -> list[Near]:
            rows = sql.execute(
                f"SELECT {_READ}, score FROM {self._name}.templates JOIN ("
                f"SELECT id, -(vector <#> %s) AS score FROM {self._name}.templates "
                f"WHERE (expires IS NULL OR expires > %s){' AND tags @> %s::jsonb' if where else ''} "
                "ORDER BY (vector <#> %s) + 0, id LIMIT %s) AS near USING (id) ORDER BY score DESC",
                (asked, now, *([as_json(where)] if where else []), asked, limit),
            )
            return [Near(self._record(row[:-1]), row[-1]) for row in rows]

        return exact_top(fetch, probe, k, off=off, most=_MOST)

    def forget(self, subject: str) -> int:
        """See `Gallery.forget`. PostgreSQL overwrites the rows' space later, and its log holds them for a while."""
        return self._remove("subject = %s", (subject,), "forget", subject)

    def purge(self) -> int:
        """See `Gallery.purge`; quarantined rows go too."""
        with self._transaction() as sql:
            sql.execute(f"DELETE FROM {self._name}.quarantine")
        return self._remove("expires <= %s", (time.time(),), "purge", "")

    def subjects(self) -> list[str]:
        """See `Gallery.subjects`."""
        with self._transaction() as sql:
            rows = sql.execute(
                f"SELECT DISTINCT subject FROM {self._name}.templates "
                "WHERE expires IS NULL OR expires > %s ORDER BY subject",
                (time.time(),),
            ).fetchall()
        return [row[0] for row in rows]

    def info(self) -> GalleryInfo:
        """See `Gallery.info`."""
        with self._transaction() as sql:
            now = time.time()
            total, expired, subjects, quarantined = sql.execute(
                f"SELECT count(*), count(*) FILTER (WHERE expires <= %s), "
                "count(DISTINCT subject) FILTER (WHERE expires IS NULL OR expires > %s), "
                f"(SELECT count(*) FROM {self._name}.quarantine) FROM {self._name}.templates",
                (now, now),
            ).fetchone()
        return GalleryInfo(
            engine=self.engine,
            address=self.address,
            size=total - expired,
            subjects=subjects,
            expired=expired,
            quarantined=quarantined,
            dim=self.dim,
            contract=self.stored_contract.table(),
            contract_digest=contract_digest(self.stored_contract),
        )

    def verify(self) -> list[Damage]:
        """See `Gallery.verify`."""
        found = []
        with self._transaction() as sql:
            for row in self._stream(sql, f"SELECT {_READ} FROM {self._name}.templates ORDER BY id"):
                if self._record(row) is None:
                    found.append(Damage("template", row[0]))
            names = [damage.name for damage in found]
            sql.execute(
                f"WITH gone AS (DELETE FROM {self._name}.templates WHERE id = ANY(%s) RETURNING *) "
                f"INSERT INTO {self._name}.quarantine SELECT * FROM gone",
                (names,),
            )
            entries = sql.execute(f"SELECT n, time, action, subject, detail, digest FROM {self._name}.audit ORDER BY n")
            found += [Damage("audit", str(n)) for n, *rest, digest in entries if audit_digest(*rest) != bytes(digest)]
            if found:
                self._note(sql, [AuditEntry(time.time(), "verify", "", f"{len(found)} damaged")])
        return found

    def records(self) -> Iterator[Record]:
        """See `Gallery.records`: the state of one moment, whatever is written meanwhile."""
        with self._naming_errors(), self._connect() as sql, sql.transaction():
            sql.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            for row in self._stream(sql, f"SELECT {_READ} FROM {self._name}.templates ORDER BY id"):
                record = self._record(row)
                if record is not None:
                    yield record

    def audit(self) -> list[AuditEntry]:
        """See `Gallery.audit`."""
        with self._transaction() as sql:
            rows = sql.execute(f"SELECT time, action, subject, detail FROM {self._name}.audit ORDER BY n").fetchall()
        return [AuditEntry(*row) for row in rows]

    def note(self, entries: Iterable[AuditEntry]) -> None:
        """See `Gallery.note`."""
        with self._transaction() as sql:
            self._note(sql, entries)

    def close(self) -> None:
        """See `Gallery.close`."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _settings(self, contract: Contract | None, create: bool) -> list[tuple[str, bytes]]:
        """The rows of settings of the gallery, which is made if there is none and that is wanted."""
        with self._transaction() as sql:
            if sql.execute("SELECT to_regclass(%s)", (f"{self._name}.settings",)).fetchone()[0] is None:
                if not create or contract is None:
                    raise ValueError(f"{self._shown}: there is no such gallery")
                self._create(sql, contract)
            rows: list[tuple[str, bytes]] = sql.execute(
                f"SELECT document, digest FROM {self._name}.settings"
            ).fetchall()
        return rows

    def _create(self, sql: Any, contract: Contract) -> None:
        sql.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (self._name,))
        if sql.execute("SELECT to_regclass(%s)", (f"{self._name}.settings",)).fetchone()[0] is not None:
            return
        try:
            sql.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except (self._psycopg.errors.FeatureNotSupported, self._psycopg.errors.InsufficientPrivilege) as error:
            raise Failure(f"{self._shown}: needs the extension pgvector 0.7 or later ({_words(error)})") from error
        _adapt_vectors(self._psycopg, sql)
        sql.execute(_SCHEMA.format(name=self._name, dim=contract.width))
        if contract.width <= _WIDEST_PLAIN:
            sql.execute(_PLAIN.format(name=self._name))
        sql.execute(f"INSERT INTO {self._name}.settings VALUES (%s, %s)", settings_row(contract))

    def _check_same(self, sql: Any, records: Mapping[str, Record]) -> None:
        rows = sql.execute(
            f"SELECT {_READ} FROM {self._name}.templates WHERE id = ANY(%s)", (list(records),)
        ).fetchall()
        for row in rows:
            known = self._record(row)
            if known is None or not known.same_template(records[row[0]]):
                raise DuplicateTemplate(f"{self.address}: the key {row[0]!r} is that of another template")

    def _record(self, row: Sequence[Any]) -> Record | None:
        """The record of a row of `_READ`; None if it is damaged."""
        name, subject, sent, metadata, consent, enrolled, expires, digest = row
        record = Record(
            id=name,
            subject=subject,
            vector=np.frombuffer(sent, ">f2", offset=4).astype("<f2").tobytes(),
            metadata=metadata,
            consent=consent,
            enrolled=enrolled,
            expires=expires,
        )
        return record if record.digest == bytes(digest) else None

    def _note(self, sql: Any, entries: Iterable[AuditEntry]) -> None:
        rows = ((entry.time, entry.action, entry.subject, entry.detail) for entry in entries)
        with sql.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {self._name}.audit (time, action, subject, detail, digest) VALUES (%s, %s, %s, %s, %s)",
                [(*row, audit_digest(*row)) for row in rows],
            )

    def _remove(self, condition: str, values: tuple[object, ...], action: str, subject: str) -> int:
        with self._transaction() as sql:
            count = int(sql.execute(f"DELETE FROM {self._name}.templates WHERE {condition}", values).rowcount)
            sql.execute(f"DELETE FROM {self._name}.quarantine WHERE {condition}", values)
            if count:
                self._note(sql, [AuditEntry(time.time(), action, subject, f"{count} templates")])
        return count

    def _stream(self, sql: Any, query: str) -> Iterator[Sequence[Any]]:
        """The rows of a query, a few thousand at a time."""
        with sql.cursor(name="stream") as cursor:
            cursor.itersize = _BATCH
            cursor.execute(query)
            yield from cursor

    def _connect(self) -> Any:
        connection = self._psycopg.connect(
            self._source,
            autocommit=True,
            connect_timeout=_CONNECT_SECONDS,
            tcp_user_timeout=1000 * _CONNECT_SECONDS,
            application_name="hypersphere",
            options=f"-c synchronous_commit=on -c statement_timeout={_STATEMENT_MS} -c client_encoding=UTF8",
        )
        _adapt_vectors(self._psycopg, connection)
        return connection

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """A connection in a transaction: the one that is there, or a new one where the server has closed it."""
        with self._lock, self._naming_errors():
            if self._connection is not None and not self._answers():
                self.close()
            if self._connection is None:
                self._connection = self._connect()
            with self._connection.transaction():
                yield self._connection

    def _answers(self) -> bool:
        try:
            self._connection.execute("SELECT 1")
        except self._psycopg.OperationalError:
            return False
        return True

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        """Let errors of the connection be those of galleries."""
        try:
            yield
        except (self._psycopg.OperationalError, self._psycopg.InterfaceError) as error:
            raise GalleryUnavailable(f"{self._shown}: PostgreSQL does not answer ({_words(error)})") from error


def _as_row(record: Record) -> tuple[Any, ...]:
    vector = _Halfvec(np.frombuffer(record.vector, "<f2"))
    words = (record.metadata, record.consent, record.enrolled, record.expires, record.digest)
    return (record.id, record.subject, vector, *words)


@dataclass(frozen=True)
class _Halfvec:
    """A vector as a parameter of a query."""

    row: NDArray[np.float16]


def _adapt_vectors(psycopg: Any, connection: Any) -> None:
    """Let a connection send vectors in pgvector's binary form: the width, two zero bytes, the numbers; big-endian."""
    known = psycopg.types.TypeInfo.fetch(connection, "halfvec")
    if known is None:
        return

    class Dumper(psycopg.adapt.Dumper):  # type: ignore[misc]
        format = psycopg.pq.Format.BINARY
        oid = known.oid

        def dump(self, vector: _Halfvec) -> bytes:
            return struct.pack(">HH", len(vector.row), 0) + vector.row.astype(">f2").tobytes()

    connection.adapters.register_dumper(_Halfvec, Dumper)


def _words(error: Exception) -> str:
    return " ".join(str(error).split())
