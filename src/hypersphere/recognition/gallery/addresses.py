"""Open a gallery by its address, which says the engine."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hypersphere.core import refuse_existing
from hypersphere.models import Contract
from hypersphere.recognition.gallery.backup import Source, check_backup, copy_records, write_backup
from hypersphere.recognition.gallery.driver import Gallery
from hypersphere.recognition.gallery.gallery_settings import check_contract
from hypersphere.recognition.gallery.milvus import MilvusGallery
from hypersphere.recognition.gallery.postgres import PostgresGallery
from hypersphere.recognition.gallery.sqlite import SqliteGallery
from hypersphere.recognition.gallery.sqlite_format1 import FormatOneFile, is_format_one

_SQLITE_ENDS = (".db", ".sqlite", ".sqlite3")
_ENGINES = {"postgresql://": "postgres", "milvus://": "milvus"}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def open_gallery(address: str | os.PathLike[str], *, contract: Contract | None = None, create: bool = False) -> Gallery:
    """Open the gallery at an address.

    Args:
        address: a file that ends in `.db`, `.sqlite` or `.sqlite3` (SQLite), or `postgresql://user@host/database#name`
            (PostgreSQL with pgvector; `#people` by default), or `milvus://user:password@host:port/name` (Milvus).
        contract: of the model whose templates it holds or will hold (`load_model(...).contract`). Without it the
            gallery can be looked at, copied and cleaned, but not enrolled into or searched.
        create: make it if there is none; needs the contract.

    Raises:
        GalleryMismatch: it holds templates of another contract.
        GalleryUnavailable: the engine does not answer.
        GalleryDamaged: the file or its settings are damaged.
        ValueError: there is no such gallery, or the file is none.

    Example:
        >>> contract = hs.models.Contract(input_size=(112, 112), dim=4, digest="0123456789abcdef")
        >>> with open_gallery("people.db", contract=contract, create=True) as gallery:
        ...     _ = gallery.enroll("Ada", np.array([1, 0, 0, 0], np.float32), consent="door of the office")
        ...     _ = gallery.enroll("Bob", np.array([0, 1, 0, 0], np.float32))
        ...     [found] = gallery.search(np.array([[0.8, 0.6, 0, 0]], np.float32), k=1)
        >>> found[0].subject, round(found[0].score, 3)
        ('Ada', 0.8)
    """
    if create and contract is None:
        raise ValueError("create=True needs the contract of the model whose templates the gallery will hold")
    if contract is not None:
        check_contract(contract)
    engine = engine_of(address)
    if engine == "sqlite":
        return SqliteGallery(Path(address), contract, create=create)
    shown = without_password(os.fspath(address))
    if engine == "postgres":
        access, at, place = os.fspath(address).rpartition("@")  # a password may have any sign
        place, _, name = place.partition("#")
        return PostgresGallery(access + at + place, check_name(name or "people"), shown, contract, create=create)
    host, port, name, token = _milvus_parts(os.fspath(address), shown)
    return MilvusGallery(host, port, check_name(name), shown, token=token, contract=contract, create=create)


def check_gallery(address: str | os.PathLike[str]) -> None:
    """Raise what `open_gallery` would, as far as that takes no server: one that does not exist yet is in order."""
    if engine_of(address) == "sqlite" and Path(address).exists():
        SqliteGallery(Path(address), None).close()


def restore_gallery(path: str | os.PathLike[str], address: str | os.PathLike[str], *, replace: bool = False) -> int:
    """Make a new gallery from a backup, of any engine; returns how many records it holds.

    A SQLite gallery appears whole or not at all; so do the records in PostgreSQL.

    Args:
        path: of the backup.
        address: of the gallery.
        replace: put the records in the place of all that a SQLite gallery holds, in one transaction: services that
            have it open go on with them.
    """
    file = Path(path)
    if file.exists() and is_format_one(file):
        return _restore(FormatOneFile(file), address, replace)
    with SqliteGallery(file, None, unsealed=True) as source:
        check_backup(source)
        return _restore(source, address, replace)


def _restore(source: Source, address: str | os.PathLike[str], replace: bool) -> int:
    if replace:
        with open_gallery(address, contract=source.stored_contract) as target:
            return target.replace_with(source.records())
    if engine_of(address) == "sqlite":
        refuse_existing(Path(address))
        return write_backup(source, address)
    with open_gallery(address, contract=source.stored_contract, create=True) as target:
        return copy_records(source, target)


def engine_of(address: str | os.PathLike[str]) -> str:
    """The engine that an address names."""
    text = os.fspath(address)
    if Path(text).suffix in _SQLITE_ENDS and "://" not in text:
        return "sqlite"
    for starts, engine in _ENGINES.items():
        if text.startswith(starts):
            return engine
    raise ValueError(
        f"{without_password(text)}: no address of a gallery; expected a file that ends in .db, or an address that "
        f"begins with {' or '.join(_ENGINES)}"
    )


def _milvus_parts(address: str, shown: str) -> tuple[str, int, str, str]:
    parts = urlsplit(address)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise ValueError(f"{shown}: expected milvus://host:port/name")
    token = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
    return host, port or 19530, parts.path.strip("/") or "people", token


def check_name(name: str) -> str:
    """The name of a gallery on a server must be a short word."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"the gallery's name {name!r:.80} must be up to 40 of the letters a-z, digits and _")
    return name


def without_password(address: str) -> str:
    """An address as it may be shown, also where a password makes it one that cannot be read."""
    shown = re.sub(r"(://[^/:@]*):.*@", r"\1:***@", address)
    if "://" in address and "@" not in address:
        shown = re.sub(r"(://[^/:?]*):(?!\d{1,5}([/?#]|$)).*", r"\1:***", shown)
    return re.sub(r"(?i)(password=)[^&#]*", r"\1***", shown)
