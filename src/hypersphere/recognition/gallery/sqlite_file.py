"""The file of a SQLite gallery: its schema, how it is created whole, opened and checked."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hypersphere.core import make_folders, naming_file, parse_json, partial_name, sync_file, sync_folder
from hypersphere.models import Contract
from hypersphere.recognition.gallery.driver import GalleryDamaged, GalleryUnavailable
from hypersphere.recognition.gallery.gallery_settings import read_settings, settings_row
from hypersphere.recognition.gallery.seals import KEY_FILE, Seals, read_secret, secret_name
from hypersphere.recognition.gallery.sqlite_log import check_log
from hypersphere.recognition.gallery.sqlite_state import State, write_state
from hypersphere.recognition.gallery.stored_template import Record, template_bytes

COLUMNS = "seq, id, subject, vector, metadata, consent, enrolled, expires, digest"
Row = tuple[Any, ...]
APPLICATION = 0x48535047
_FORMAT = 2
_PAGE = 16384
_WAIT = 20.0
"""Seconds to wait for other writers: of eight that never pause, one may wait for several."""
_ROW = """id TEXT NOT NULL, subject TEXT NOT NULL, vector BLOB NOT NULL,
    metadata TEXT NOT NULL, consent TEXT NOT NULL, enrolled REAL NOT NULL, expires REAL, digest BLOB NOT NULL"""
_SCHEMA = (
    "CREATE TABLE settings (document TEXT NOT NULL, digest BLOB NOT NULL)",
    """CREATE TABLE state (changes INTEGER NOT NULL, templates INTEGER NOT NULL, last INTEGER NOT NULL,
    removals INTEGER NOT NULL, entries INTEGER NOT NULL, total BLOB NOT NULL, head BLOB NOT NULL,
    digest BLOB NOT NULL)""",
    f"CREATE TABLE templates (seq INTEGER PRIMARY KEY, {_ROW})",
    "CREATE UNIQUE INDEX templates_by_id ON templates (id)",
    f"CREATE TABLE quarantine (seq INTEGER NOT NULL, {_ROW})",
    "CREATE TABLE removed (n INTEGER PRIMARY KEY, seq INTEGER NOT NULL)",
    """CREATE TABLE audit (n INTEGER PRIMARY KEY, time REAL NOT NULL, action TEXT NOT NULL,
    subject TEXT NOT NULL, detail TEXT NOT NULL, digest BLOB NOT NULL)""",
)
_EXPECTED = {"journal_mode": "wal", "page_size": _PAGE, "encoding": "UTF-8", "auto_vacuum": 0}
"""What a flipped bit of the file's header may change without an error: SQLite would write another kind of file."""


def create_file(path: Path, contract: Contract) -> None:
    """Make an empty gallery that only its owner can read, whole or not at all; a file that is there already stays."""
    secret = read_secret()
    make_folders(path.parent)
    temporary = partial_name(path)
    with naming_file(path, temporary):
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        with naming_errors(path), closing(sqlite3.connect(temporary, isolation_level=None)) as new:
            new.execute(f"PRAGMA page_size = {_PAGE}")
            new.execute("PRAGMA synchronous = FULL")
            new.execute(f"PRAGMA application_id = {APPLICATION}")
            new.execute(f"PRAGMA user_version = {_FORMAT}")
            new.execute("BEGIN")
            for statement in _SCHEMA:
                new.execute(statement)
            document, settings_digest = settings_row(contract, key=secret_name(secret))
            new.execute("INSERT INTO settings VALUES (?, ?)", (document, settings_digest))
            write_state(new, State(), Seals(document, secret))
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
    """A connection to a gallery that exists. Its texts are bytearrays: rows are checked as the bytes that they are."""
    with naming_errors(path):
        check_log(path)
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=_WAIT,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.text_factory = bytearray
            for setting in ("trusted_schema = OFF", "cell_size_check = ON", "synchronous = FULL", "secure_delete = ON"):
                connection.execute(f"PRAGMA {setting}")
            _check_format(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def read_settings_of(connection: sqlite3.Connection, path: Path, *, unsealed: bool = False) -> tuple[Contract, Seals]:
    """The contract of an open gallery, and the seals that hold for it.

    Args:
        connection: to it.
        path: of its file.
        unsealed: whether one that was made without a key is accepted by whoever has one.
    """
    with naming_errors(path):
        rows = connection.execute("SELECT document, digest FROM settings").fetchall()
    settings = [(text_of(document), digest) for document, digest in rows if type(document) is bytearray]
    contract = read_settings(settings, str(path))
    document, secret = settings[0][0], read_secret()
    name = parse_json(document, str(path)).get("key", "")
    if name and name != secret_name(secret):
        raise ValueError(f"{path}: sealed with another key (set {KEY_FILE} to the file of that key)")
    if secret and not name and not unsealed:
        raise ValueError(
            f"{path}: made without a key, but {KEY_FILE} is set; `hypersphere gallery restore {path} NEW.db` makes one "
            "that is sealed"
        )
    return contract, Seals(document, secret if name else b"")


def text_of(data: bytes | bytearray) -> str:
    """A text of the file."""
    return data.decode("utf-8", "surrogateescape")


def share_of(row: Row, seals: Seals, width: int) -> bytes | None:
    """The share of a row of `COLUMNS` in the sum of all; None if the row is not as it was stored."""
    number, name, subject, vector, metadata, consent, enrolled, expires, digest = row
    if not (
        type(name) is type(subject) is type(metadata) is type(consent) is bytearray
        and type(vector) is type(digest) is bytes
        and type(enrolled) is float
        and (expires is None or type(expires) is float)
        and len(vector) == 2 * width
    ):
        return None
    content = template_bytes((name, subject, metadata, consent), vector, enrolled, expires)
    seal, share = seals.template(number, content)
    return share if seal == digest else None


def record_of(row: Row) -> Record:
    """The record of a row of `COLUMNS` that `share_of` has found whole."""
    _, name, subject, vector, metadata, consent, enrolled, expires, _ = row
    return Record(
        id=text_of(name),
        subject=text_of(subject),
        vector=vector,
        metadata=text_of(metadata),
        consent=text_of(consent),
        enrolled=enrolled,
        expires=expires,
    )


@contextmanager
def naming_errors(path: Path) -> Iterator[None]:
    """Let errors of SQLite be those of galleries, with the file's name and what follows."""
    try:
        yield
    except UnicodeDecodeError as error:  # of SQLite's own words about a damaged schema
        raise GalleryDamaged(f"{path}: the file is damaged; restore a backup") from error
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
    if application != APPLICATION:
        raise ValueError(f"{path}: a SQLite file, but not a gallery of hypersphere")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 1:
        raise ValueError(
            f"{path}: a gallery of format 1, of an earlier version; `hypersphere gallery restore {path} NEW.db` makes "
            f"one of format {_FORMAT} of it, and leaves it as it is"
        )
    if version != _FORMAT:
        raise ValueError(f"{path}: a gallery of format {version}; this version of hypersphere reads {_FORMAT}")
    for name, expected in _EXPECTED.items():
        value = connection.execute(f"PRAGMA {name}").fetchone()[0]
        if (text_of(value) if isinstance(value, bytearray) else value) != expected:
            raise GalleryDamaged(f"{path}: its header is damaged ({name}); restore a backup")
    rows = connection.execute("SELECT sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'").fetchall()
    if sorted(text_of(row[0]) for row in rows if type(row[0]) is bytearray) != sorted(_SCHEMA):
        raise GalleryDamaged(f"{path}: its tables are not those of a gallery; restore a backup")
