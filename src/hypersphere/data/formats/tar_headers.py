"""Where the members of a tar archive lie. Archives cut off, damaged or with unsafe names are refused."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from hypersphere.data.file_access import is_image_name, safe_name

BLOCK = tarfile.BLOCKSIZE
_PACKED = {b"\x1f\x8b": "gzip -d", b"\xfd7zXZ": "xz -d", b"BZh": "bzip2 -d", b"\x28\xb5\x2f\xfd": "zstd -d"}
_DAMAGE = (tarfile.TarError, ValueError, LookupError, OverflowError, MemoryError, RecursionError)
"""What tarfile raises for damaged headers: not all of it is its own."""


def read_members(path: Path, file: BinaryIO) -> Iterator[tuple[str, int, int]]:
    """Yield name, offset and size of every regular member; ValueError for an archive that is cut off or damaged."""
    length, end = path.stat().st_size, 0
    try:
        with tarfile.open(fileobj=file, mode="r:", encoding="utf-8", errors="surrogateescape") as archive:
            while (member := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined]  # tarfile would keep all, a kilobyte each
                where = f"{path}, header at byte {member.offset}"
                # A negative size would send tarfile back to headers that it has read.
                if member.size < 0 or archive.offset <= end:
                    raise ValueError(f"{where}: the size is not a number; the archive is damaged")
                end = archive.offset
                if member.offset_data + member.size > length:
                    raise ValueError(
                        f"{where}: the member needs {member.size} bytes, but the file ends at {length}; it is truncated"
                    )
                if member.name in (".", "./"):
                    continue
                name = safe_name(member.name, where)
                if member.isreg() and not member.issparse():
                    yield name, member.offset_data, member.size
                elif not member.isdir() and (is_image_name(name) or name.endswith(".cls")):
                    raise ValueError(f"{where}: {name!r} is a link or a special file; only regular files are read")
    except _DAMAGE as error:
        if str(error).startswith(str(path)):
            raise
        _check_start(path, file)
        raise ValueError(f"{path}: truncated or damaged after byte {end} ({error})") from None
    _check_end(path, file, end)


def _check_start(path: Path, file: BinaryIO) -> None:
    """Raise ValueError for a file that is empty or compressed."""
    file.seek(0)
    start = file.read(8)
    if not start:
        raise ValueError(f"{path}: ends at byte 0 without the end-of-archive mark; it is truncated")
    for magic, command in _PACKED.items():
        if start.startswith(magic):
            raise ValueError(f"{path}: the archive is compressed, which allows no random access; run {command}")


def _check_end(path: Path, file: BinaryIO, end: int) -> None:
    """Raise ValueError unless a block of zeros and nothing else follows the last member.

    tarfile stops without a word at a header that is cut off, damaged or zeroed, and the members behind it are lost.
    """
    file.seek(end)
    block = file.read(BLOCK)
    if len(block) < BLOCK:
        raise ValueError(f"{path}: ends at byte {end + len(block)} without the end-of-archive mark; it is truncated")
    if block.count(0) < BLOCK:
        raise ValueError(f"{path}, header at byte {end}: wrong checksum; this is no tar archive, or it is damaged")
    while block := file.read(2**20):
        if block.count(0) < len(block):
            raise ValueError(
                f"{path}: the archive ends at byte {end}, but more follows; it is damaged, or several archives in one "
                "file: unpack them one by one"
            )
