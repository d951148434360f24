"""The gallery of a server: PostgreSQL with pgvector, for many writers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersphere.core import Failure, counted, import_extra
from hypersphere.models import Contract
from hypersphere.recognition.gallery.driver import (
    AuditEntry,
    Candidate,
    Damage,
    DuplicateTemplate,
    GalleryInfo,
    GalleryUnavailable,
    IndexCheck,
    stored_entry,
)
from hypersphere.recognition.gallery.gallery_settings import contract_digest, settings_row
from hypersphere.recognition.gallery.postgres_pool import ConnectionPool
from hypersphere.recognition.gallery.postgres_rows import (
    COLUMNS,
    READ,
    SCHEMA,
    STORAGE_PLAIN,
    WIDEST_PLAIN,
    Halfvec,
    adapt_vectors,
    as_row,
)
from hypersphere.recognition.gallery.rescoring import Near, exact_top
from hypersphere.recognition.gallery.server_gallery import ServerGallery, read_check
from hypersphere.recognition.gallery.stored_template import Record, as_json, audit_digest, spellings

_BATCH = 1000
_CONNECT_SECONDS = 2
_STATEMENT_MS = 60_000
_SEARCH_MS = 5_000
"""A search that takes longer is ended by the server: nobody waits for its answer any more."""
_CONNECTIONS = 8
_SCANS = 2
"""Exact scans at once in a process: each takes all cores of the server, so that more of them only take longer each."""
_WAIT_SECONDS = 5.0
_MOST = 1_000_000
_COUNTED = 50_000
"""Templates up to which they are counted when they are to be few."""


class PostgresGallery(ServerGallery):
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
        self._pool = ConnectionPool(
            self._connect, self._psycopg.OperationalError, most=_CONNECTIONS, seconds=_WAIT_SECONDS, address=shown
        )
        self._scans = threading.BoundedSemaphore(_SCANS)
        super().__init__(shown, contract, create=create)

    def close(self) -> None:
        """See `Gallery.close`."""
        self._pool.close()

    def store(self, records: Iterable[Record], action: str) -> None:
        """See `Gallery.store`."""
        waiting, count, last = iter(records), 0, None
        with self._session() as sql, sql.cursor() as cursor:
            while batch := list(islice(waiting, _BATCH)):
                cursor.executemany(
                    f"INSERT INTO {self._name}.templates ({COLUMNS}, digest) "
                    "VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO NOTHING RETURNING id",
                    [as_row(record) for record in batch],
                    returning=True,
                )
                new = [record for record, stored in zip(batch, _found_rows(cursor), strict=True) if stored]
                if len(new) < len(batch):
                    self._check_same(sql, {record.id: record for record in batch})
                if new:
                    count, last = count + len(new), new[-1]
            if last is not None and action:
                self._note(sql, [stored_entry(action, count, last)])

    def find_exactly(self, probes: NDArray[np.float32], k: int, where: Mapping[str, str]) -> list[list[Candidate]]:
        """See `ServerGallery.find_exactly`: all probes of a call see one state."""
        if not self._scans.acquire(timeout=_WAIT_SECONDS):
            raise GalleryUnavailable(
                f"{self.address}: too many searches wait for an exact scan; `hypersphere gallery approximate` builds "
                "an index"
            )
        try:
            return self._find(probes, k, where, "(vector <#> %s) + 0, id")
        finally:
            self._scans.release()

    def find_by_index(
        self, probes: NDArray[np.float32], k: int, where: Mapping[str, str], effort: int
    ) -> list[list[Candidate]]:
        """See `ServerGallery.find_by_index`; a filter makes the index go on until it has enough."""
        settings = (f"hnsw.ef_search = {effort}", "hnsw.iterative_scan = strict_order", "enable_seqscan = off")
        return self._find(probes, k, where, "vector <#> %s", settings)

    def _find(
        self, probes: NDArray[np.float32], k: int, where: Mapping[str, str], order: str, settings: Sequence[str] = ()
    ) -> list[list[Candidate]]:
        with self._session() as sql:
            sql.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            for setting in (f"statement_timeout = {_SEARCH_MS}", *settings):
                sql.execute(f"SET LOCAL {setting}")
            return [self._find_one(sql, probe, k, where, order) for probe in probes]

    def _find_one(
        self, sql: Any, probe: NDArray[np.float32], k: int, where: Mapping[str, str], order: str
    ) -> list[Candidate]:
        rounded = probe.astype(np.float16)
        asked = Halfvec(rounded)
        off = float(np.linalg.norm(probe - rounded.astype(np.float32))) + self.dim * 2.0**-22
        now = time.time()

        def fetch(limit: int) -> list[Near]:
            rows = sql.execute(
                f"SELECT {READ}, score FROM {self._name}.templates JOIN ("
                f"SELECT id, -(vector <#> %s) AS score FROM {self._name}.templates "
                f"WHERE (expires IS NULL OR expires > %s){' AND tags @> %s::jsonb' if where else ''} "
                f"ORDER BY {order} LIMIT %s) AS near USING (id) ORDER BY score DESC",
                (asked, now, *([as_json(where)] if where else []), asked, limit),
            )
            return [Near(self._record(row[:-1]), row[-1]) for row in rows]

        return exact_top(fetch, probe, k, off=off, most=_MOST)

    def forget(self, subject: str) -> int:
        """See `Gallery.forget`. PostgreSQL overwrites the rows' space later, and its log holds them for a while."""
        return self._remove("subject = ANY(%s)", (spellings(subject),), "forget", subject)

    def forget_template(self, template_id: str) -> bool:
        """See `Gallery.forget_template`."""
        return bool(self._remove("id = %s", (template_id,), "forget", template_id))

    def templates(self, subject: str) -> list[Record]:
        """See `Gallery.templates`."""
        query = f"SELECT {READ} FROM {self._name}.templates WHERE subject = ANY(%s) ORDER BY id"
        with self._session() as sql:
            rows = sql.execute(query, (spellings(subject),)).fetchall()
        return [record for row in rows if (record := self._record(row)) is not None]

    def purge(self) -> int:
        """See `Gallery.purge`; quarantined rows go too."""
        with self._session() as sql:
            sql.execute(f"DELETE FROM {self._name}.quarantine")
        return self._remove("expires <= %s", (time.time(),), "purge", "")

    def subjects(self, after: str = "", limit: int | None = None) -> list[str]:
        """See `Gallery.subjects`."""
        with self._session() as sql:
            rows = sql.execute(
                f"SELECT DISTINCT subject FROM {self._name}.templates "
                "WHERE subject > %s AND (expires IS NULL OR expires > %s) ORDER BY subject LIMIT %s",
                (after, time.time(), limit),
            ).fetchall()
        return [row[0] for row in rows]

    def size(self) -> int:
        """See `Gallery.size`."""
        query = f"SELECT count(*) FROM {self._name}.templates WHERE expires IS NULL OR expires > %s"
        with self._session() as sql:
            return int(sql.execute(query, (time.time(),)).fetchone()[0])

    def stored(self) -> int:
        """See `Gallery.stored`: as of the last analysis, and counted where that is few."""
        with self._session() as sql:
            query = "SELECT reltuples FROM pg_class WHERE oid = to_regclass(%s)"
            known = int(sql.execute(query, (f"{self._name}.templates",)).fetchone()[0])
            if known > _COUNTED:
                return known
            return int(sql.execute(f"SELECT count(*) FROM {self._name}.templates").fetchone()[0])

    def info(self) -> GalleryInfo:
        """See `Gallery.info`."""
        with self._session() as sql:
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
            **self.index_info(),
        )

    def verify(self) -> list[Damage]:
        """See `Gallery.verify`."""
        found = []
        with self._session() as sql:
            for row in self._stream(sql, f"SELECT {READ} FROM {self._name}.templates ORDER BY id"):
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
            for row in self._stream(sql, f"SELECT {READ} FROM {self._name}.templates ORDER BY id"):
                record = self._record(row)
                if record is not None:
                    yield record

    def build_index(self) -> None:
        """See `ServerGallery.build_index`."""
        with self._session() as sql:
            sql.execute("SET LOCAL statement_timeout = 0")
            sql.execute(f"DROP INDEX IF EXISTS {self._name}.templates_hnsw")
            sql.execute(
                f"CREATE INDEX templates_hnsw ON {self._name}.templates USING hnsw (vector halfvec_ip_ops) "
                "WITH (m = 16, ef_construction = 200)"
            )

    def keep_check(self, check: IndexCheck) -> None:
        """See `ServerGallery.keep_check`: it is the index's comment."""
        with self._session() as sql:
            sql.execute(f"COMMENT ON INDEX {self._name}.templates_hnsw IS '{check.to_json()}'")
            self._note(sql, [AuditEntry(time.time(), "index", "", check.to_json())])

    def index_check(self) -> IndexCheck | None:
        """See `ServerGallery.index_check`."""
        query = "SELECT obj_description(to_regclass(%s), 'pg_class')"
        with self._session() as sql:
            return read_check(sql.execute(query, (f"{self._name}.templates_hnsw",)).fetchone()[0], self.address)

    def use_exact(self) -> None:
        """See `Gallery.use_exact`."""
        with self._session() as sql:
            sql.execute(f"DROP INDEX IF EXISTS {self._name}.templates_hnsw")

    def audit(self) -> list[AuditEntry]:
        """See `Gallery.audit`."""
        with self._session() as sql:
            rows = sql.execute(f"SELECT time, action, subject, detail FROM {self._name}.audit ORDER BY n").fetchall()
        return [AuditEntry(*row) for row in rows]

    def _settings(self, contract: Contract | None, create: bool) -> list[tuple[str, bytes]]:
        """See `ServerGallery._settings`."""
        with self._session() as sql:
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
        adapt_vectors(self._psycopg, sql)
        sql.execute(SCHEMA.format(name=self._name, dim=contract.width))
        if contract.width <= WIDEST_PLAIN:
            sql.execute(STORAGE_PLAIN.format(name=self._name))
        sql.execute(f"INSERT INTO {self._name}.settings VALUES (%s, %s)", settings_row(contract))

    def _check_same(self, sql: Any, records: Mapping[str, Record]) -> None:
        rows = sql.execute(f"SELECT {READ} FROM {self._name}.templates WHERE id = ANY(%s)", (list(records),)).fetchall()
        for row in rows:
            known = self._record(row)
            if known is None or not known.same_template(records[row[0]]):
                raise DuplicateTemplate(f"{self.address}: the key {row[0]!r} is that of another template")

    def _record(self, row: Sequence[Any]) -> Record | None:
        """The record of a row of `READ`; None if it is damaged."""
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
        with self._session() as sql:
            count = int(sql.execute(f"DELETE FROM {self._name}.templates WHERE {condition}", values).rowcount)
            sql.execute(f"DELETE FROM {self._name}.quarantine WHERE {condition}", values)
            if count:
                self._note(sql, [AuditEntry(time.time(), action, subject, counted(count, "template"))])
        return count

    def _stream(self, sql: Any, query: str) -> Iterator[Sequence[Any]]:
        """The rows of a query, a few thousand at a time."""
        with sql.cursor(name="stream") as cursor:
            cursor.itersize = _BATCH
            cursor.execute(query)
            yield from cursor

    def _connect(self) -> Any:
        try:
            connection = self._psycopg.connect(
                self._source,
                autocommit=True,
                connect_timeout=_CONNECT_SECONDS,
                tcp_user_timeout=1000 * _CONNECT_SECONDS,
                application_name="hypersphere",
                options=f"-c synchronous_commit=on -c statement_timeout={_STATEMENT_MS} -c client_encoding=UTF8",
            )
        except self._psycopg.ProgrammingError as error:  # its words may quote a part of the password
            raise ValueError(f"{self._shown}: expected postgresql://user@host/database#name") from error
        adapt_vectors(self._psycopg, connection)
        return connection

    @contextmanager
    def _session(self) -> Iterator[Any]:
        """A connection in a transaction of its own: threads do not wait for one another."""
        with self._naming_errors(), self._pool.borrowed() as connection, connection.transaction():
            yield connection

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        """Let errors of the connection be those of galleries."""
        try:
            yield
        except self._psycopg.errors.QueryCanceled as error:
            raise GalleryUnavailable(
                f"{self._shown}: PostgreSQL takes too long; `hypersphere gallery approximate` builds an index for "
                "searches"
            ) from error
        except (self._psycopg.OperationalError, self._psycopg.InterfaceError) as error:
            raise GalleryUnavailable(f"{self._shown}: PostgreSQL does not answer ({_words(error)})") from error


def _found_rows(cursor: Any) -> Iterator[bool]:
    """Whether each statement of an `executemany` returned a row."""
    yield cursor.rowcount > 0
    while cursor.nextset():
        yield cursor.rowcount > 0


def _words(error: Exception) -> str:
    return " ".join(str(error).split())
