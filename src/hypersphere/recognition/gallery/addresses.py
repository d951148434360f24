"""Open a gallery by its address, which says the engine."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from hypersphere.core import refuse_existing
from hypersphere.models import Contract
from hypersphere.recognition.gallery.backup import check_backup, copy_records, write_backup
from hypersphere.recognition.gallery.driver import Gallery, check_contract
from hypersphere.recognition.gallery.sqlite import SqliteGallery

_SQLITE_ENDS = (".db", ".sqlite", ".sqlite3")


def open_gallery(address: str | os.PathLike[str], *, contract: Contract | None = None, create: bool = False) -> Gallery:
    """Open the gallery at an address.

    Args:
        address: a file that ends in `.db`, `.sqlite` or `.sqlite3` (SQLite).
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
    engine_of(address)
    return SqliteGallery(Path(address), contract, create=create)


def restore_gallery(path: str | os.PathLike[str], address: str | os.PathLike[str]) -> int:
    """Make a new gallery from a backup, of any engine; returns how many records it holds.

    A SQLite gallery appears whole or not at all; so do the records in PostgreSQL.
    """
    with SqliteGallery(Path(path), None) as source:
        check_backup(source)
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
    raise ValueError(f"{without_password(text)}: no address of a gallery; expected a file that ends in .db")


def without_password(address: str) -> str:
    """An address as it may be shown."""
    parts = urlsplit(address)
    if parts.password is None:
        return address
    return urlunsplit(parts._replace(netloc=f"{parts.username}:***@{parts.netloc.rpartition('@')[2]}"))
