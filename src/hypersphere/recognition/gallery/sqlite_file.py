"""The file of a SQLite gallery: its schema, how it is created whole, opened and checked."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hypersphere.core import make_folders, naming_file, partial_name, sync_file, sync_folder
from hypersphere.models import Contract
from hypersphere.recognition.gallery.driver import GalleryDamaged, GalleryUnavailable, read_settings, settings_row
from hypersphere.recognition.gallery.stored_template import Record, stored_digest

COLUMNS = "id, subject, vector, metadata, consent, enrolled, expires"
_APPLICATION = 0x48535047
_FORMAT = 1
_PAGE = 16384
_WAIT = 20.0
"""Seconds to wait for other writers: of eight that never pause, one may wait for several."""
_ROW = """
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, subject TEXT NOT NULL, vector BLOB NOT NULL,
    metadata TEXT NOT NULL, consent TEXT NOT NULL, enrolled REAL NOT NULL, expires REAL, digest BLOB NOT NULL"""
_SCHEMA = (
    "CREATE TABLE settings (document TEXT NOT NULL, digest BLOB NOT NULL)",
    f"CREATE TABLE templates ({_ROW})",
    "CREATE UNIQUE INDEX templates_by_id ON templates (id)",
    "CREATE INDEX templates_by_subject ON templates (subject)",
    "CREATE INDEX templates_by_expiry ON templates (expires) WHERE expires IS NOT NULL",
    f"CREATE TABLE quarantine ({_ROW})",
    "CREATE TABLE removed (n INTEGER PRIMARY KEY AUTOINCREMENT, seq INTEGER NOT NULL)",
    """CREATE TABLE audit (n INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, action TEXT NOT NULL,
    subject TEXT NOT NULL, detail TEXT NOT NULL, digest BLOB NOT NULL)""",
)


def create_file(path: Path, contract: Contract) -> None:
    """Make an empty gallery that only its owner can read, whole or not at all; a file that is there already stays."""
    make_folders(path.parent)
    temporary = partial_name(path)
    with naming_file(path, temporary):
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        with naming_errors(path), closing(sqlite3.connect(temporary, isolation_level=None)) as new:
            new.execute(f"PRAGMA page_size = {_PAGE}")
            new.execute("PRAGMA synchronous = FULL")
            new.execute(f"PRAGMA application_id = {_APPLICATION}")
            new.execute(f"PRAGMA user_version = {_FORMAT}")
            new.execute("BEGIN")
            for statement in _SCHEMA:
                new.execute(statement)
            new.execute("INSERT INTO settings VALUES (?, ?)", settings_row(contract))
            new.execute("COMMIT")
            # Last: tables that are in a log when this is closed are lost if they do not fit into the file any more.
            if new.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise GalleryUnavailable(f"{path}: not made (its write-ahead log cannot be written)")
        sync_file(temporary)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return
        sync_folder(path.parent)
    finally:
        remove_file(temporary)


def remove_file(path: Path) -> None:
    """Remove a gallery's file and what SQLite keeps beside it."""
    for end in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + end).unlink(missing_ok=True)


def connect(path: Path) -> sqlite3.Connection:
    """A connection to a gallery that exists."""
    with naming_errors(path):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=_WAIT,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.text_factory = _text
            for setting in ("trusted_schema = OFF", "cell_size_check = ON", "synchronous = FULL", "secure_delete = ON"):
                connection.execute(f"PRAGMA {setting}")
            _check_format(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def read_contract_of(connection: sqlite3.Connection, path: Path) -> Contract:
    """The contract of an open gallery."""
    with naming_errors(path):
        rows = connection.execute("SELECT document, digest FROM settings").fetchall()
    return read_settings(rows, str(path))


def as_row(record: Record) -> tuple[Any, ...]:
    """The values of `COLUMNS`, and the digest."""
    return (
        record.id, record.subject, record.vector, record.metadata, record.consent, record.enrolled, record.expires,
        record.digest,
    )  # fmt: skip


def as_record(values: tuple[Any, ...], width: int) -> Record | None:
    """The record of a row of `COLUMNS` and digest; None if it is damaged."""
    name, subject, vector, metadata, consent, enrolled, expires, digest = values
    words, times = (name, subject, metadata, consent), (enrolled, 0.0 if expires is None else expires)
    if {*map(type, words)} != {str} or {*map(type, times)} != {float} or type(vector) is not bytes:
        return None
    record = Record(
        id=name, subject=subject, vector=vector, metadata=metadata, consent=consent, enrolled=enrolled, expires=expires
    )
    return record if record.digest == digest and len(vector) == 2 * width else None


@contextmanager
def texts_as_bytes(connection: sqlite3.Connection) -> Iterator[None]:
    """Let texts be bytearrays, and bytes stay bytes: `is_whole` needs no text decoded, but must tell it from bytes."""
    connection.text_factory = bytearray
    try:
        yield
    finally:
        connection.text_factory = _text


def is_whole(values: Sequence[Any], width: int) -> bool:
    """Return whether `as_record` would give a record, of values of `COLUMNS` and digest read by `texts_as_bytes`."""
    name, subject, vector, metadata, consent, enrolled, expires, digest = values
    return (
        type(name) is type(subject) is type(metadata) is type(consent) is bytearray
        and type(vector) is type(digest) is bytes
        and type(enrolled) is float
        and (expires is None or type(expires) is float)
        and len(vector) == 2 * width
        and stored_digest((name, subject, metadata, consent), vector, enrolled, expires) == digest
    )


@contextmanager
def naming_errors(path: Path) -> Iterator[None]:
    """Let errors of SQLite be those of galleries, with the file's name and what follows."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "disk is full" in text:
            raise GalleryUnavailable(f"{path}: not written (no space left on the device); it is as it was") from error
        if "not a database" in text:
            raise ValueError(f"{path}: not a gallery of hypersphere (not a SQLite file)") from error
        if isinstance(error, sqlite3.OperationalError) and "malformed" not in text and "no such" not in text:
            raise GalleryUnavailable(f"{path}: SQLite cannot use it now ({text})") from error
        raise GalleryDamaged(f"{path}: the file is damaged ({text}); restore a backup") from error


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != _APPLICATION:
        raise ValueError(f"{path}: a SQLite file, but not a gallery of hypersphere")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != _FORMAT:
        raise ValueError(f"{path}: a gallery of format {version}; this version of hypersphere reads {_FORMAT}")
    rows = connection.execute("SELECT sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'").fetchall()
    if sorted(row[0] for row in rows) != sorted(_SCHEMA):
        raise GalleryDamaged(f"{path}: its tables are not those of a gallery; restore a backup")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
