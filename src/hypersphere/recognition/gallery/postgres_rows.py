"""The tables of a gallery in PostgreSQL, and how vectors travel to them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersphere.recognition.gallery.stored_template import Record

WIDEST_PLAIN = 3500
"""Numbers of a vector that fit beside the rest of a row into a page of 8 kB."""
COLUMNS = "id, subject, vector, metadata, consent, enrolled, expires"
READ = COLUMNS.replace("vector", "halfvec_send(vector)") + ", digest"
SCHEMA = """
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
STORAGE_PLAIN = "ALTER TABLE {name}.templates ALTER COLUMN vector SET STORAGE PLAIN"


def as_row(record: Record) -> tuple[Any, ...]:
    """The values of `COLUMNS`, and the digest."""
    vector = Halfvec(np.frombuffer(record.vector, "<f2"))
    words = (record.metadata, record.consent, record.enrolled, record.expires, record.digest)
    return (record.id, record.subject, vector, *words)


@dataclass(frozen=True)
class Halfvec:
    """A vector as a parameter of a query."""

    row: NDArray[np.float16]


def adapt_vectors(psycopg: Any, connection: Any) -> None:
    """Let a connection send vectors in pgvector's binary form: the width, two zero bytes, the numbers; big-endian."""
    known = psycopg.types.TypeInfo.fetch(connection, "halfvec")
    if known is None:
        return

    class Dumper(psycopg.adapt.Dumper):  # type: ignore[misc]
        format = psycopg.pq.Format.BINARY
        oid = known.oid

        def dump(self, vector: Halfvec) -> bytes:
            return struct.pack(">HH", len(vector.row), 0) + vector.row.astype(">f2").tobytes()

    connection.adapters.register_dumper(Halfvec, Dumper)
