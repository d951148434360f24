"""Backups: every gallery is written as a SQLite gallery, and every engine takes one back."""

from __future__ import annotations

import os
from pathlib import Path

from hypersphere.core import Failure, counted, partial_name, refuse_existing, sync_file, sync_folder
from hypersphere.recognition.gallery.driver import Gallery
from hypersphere.recognition.gallery.sqlite import SqliteGallery


def write_backup(gallery: Gallery, path: str | os.PathLike[str]) -> int:
    """Write a gallery to a new SQLite file, read it back, and give it its name; returns how many records it holds.

    Raises:
        Failure: what was read back is not what was written; there is no file then.
    """
    target = Path(path)
    refuse_existing(target)
    temporary = partial_name(target)
    try:
        with SqliteGallery(temporary, gallery.stored_contract, create=True) as copy:
            copy.store(gallery.records(), "")
            copy.note(gallery.audit())
        with SqliteGallery(temporary, None) as copy:
            damaged, written = copy.verify(), sum(1 for _ in copy.records())
            held = copy.info()
        if damaged or written != held.size + held.expired:
            raise Failure(f"{target}: the backup is not what was written to it; check the disk, and write it again")
        sync_file(temporary)
        os.link(temporary, target)
        sync_folder(target.parent)
    finally:
        for end in ("", "-wal", "-shm"):
            temporary.with_name(temporary.name + end).unlink(missing_ok=True)
    return written


def check_backup(source: SqliteGallery) -> None:
    """Every row of a backup must be whole, now and when it was checked before."""
    damaged = max(len(source.verify()), source.info().quarantined)
    if damaged:
        raise Failure(f"{source.address}: {counted(damaged, 'damaged row')}; restore another backup")


def copy_records(source: SqliteGallery, target: Gallery) -> int:
    """Store all records of a backup in an empty gallery; returns how many."""
    held = target.info()
    if held.size or held.expired:
        raise ValueError(f"{held.address}: holds templates already; restore into a new gallery")
    target.store(source.records(), "restore")
    target.note(source.audit())
    held = target.info()
    return held.size + held.expired
