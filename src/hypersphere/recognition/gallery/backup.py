"""Backups: every gallery is written as a SQLite gallery, and every engine takes one back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from hypersphere.core import Failure, counted, partial_name, refuse_existing, sync_file, sync_folder
from hypersphere.models import Contract
from hypersphere.recognition.gallery.driver import AuditEntry, Gallery, GalleryUnavailable
from hypersphere.recognition.gallery.sqlite import SqliteGallery
from hypersphere.recognition.gallery.sqlite_file import remove_file
from hypersphere.recognition.gallery.stored_template import Record


class Source(Protocol):
    """What a copy is made of: a gallery, or a file of an earlier format."""

    address: str
    stored_contract: Contract

    def records(self) -> Iterator[Record]:
        """All records, by rising id."""

    def audit(self) -> list[AuditEntry]:
        """What was done, oldest first."""


def write_backup(gallery: Source, path: str | os.PathLike[str]) -> int:
    """Write a gallery to a new SQLite file, read it back, and give it its name; returns how many records it holds.

    Raises:
        Failure: what was read back is not what was written; there is no file then.
    """
    target = Path(path)
    refuse_existing(target)
    temporary = partial_name(target)
    try:
        stored = _write(gallery, temporary)
        if stored != _read_back(temporary):
            raise Failure(f"{target}: the backup is not what was written to it; check the disk, and write it again")
        sync_file(temporary)
        os.link(temporary, target)
        sync_folder(target.parent)
    except GalleryUnavailable as error:
        raise type(error)(str(error).replace(str(temporary), str(target))) from error
    finally:
        remove_file(temporary)
    return stored


def _write(gallery: Source, path: Path) -> int:
    """Copy all records and the audit trail to a new file, and none of it to a log beside it; returns how many."""
    stored = 0

    def records() -> Iterator[Record]:
        nonlocal stored
        for record in gallery.records():
            yield record
            stored += 1

    with SqliteGallery(path, gallery.stored_contract, create=True) as copy:
        copy.store(records(), "")
        copy.note(gallery.audit())
        copy.empty_log()
    return stored


def _read_back(path: Path) -> int:
    """How many records a copy holds; -1 if it is damaged, or if its log was not yet empty when it was closed."""
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        return -1
    with SqliteGallery(path, None) as copy:
        damaged, written, held = copy.verify(), sum(1 for _ in copy.records()), copy.info()
    return written if not damaged and written == held.size + held.expired else -1


def check_backup(source: SqliteGallery) -> None:
    """Every row of a backup must be whole, now and when it was checked before."""
    damaged = max(len(source.verify()), source.info().quarantined)
    if damaged:
        raise Failure(f"{source.address}: {counted(damaged, 'damaged row')}; restore another backup")


def copy_records(source: Source, target: Gallery) -> int:
    """Store all records of a backup in an empty gallery; returns how many."""
    held = target.info()
    if held.size or held.expired:
        raise ValueError(f"{held.address}: holds templates already; restore into a new gallery")
    target.store(source.records(), "restore")
    target.note(source.audit())
    held = target.info()
    return held.size + held.expired
