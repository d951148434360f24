"""The headers of a tar archive: where its members lie. Archives cut off, damaged or with unsafe names are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from hypersphere.core import parse_integer
from hypersphere.data.file_access import is_image_name, safe_name

BLOCK = 512
_LONGEST_EXTENSION = 2**20
"""Bytes of a long name or a pax header; what states more is damaged."""
_PACKED = {b"\x1f\x8b": "gzip -d", b"\xfd7zXZ": "xz -d", b"BZh": "bzip2 -d", b"\x28\xb5\x2f\xfd": "zstd -d"}


def read_members(path: Path, file: BinaryIO) -> Iterator[tuple[str, int, int]]:
    """Name, offset and size of every regular member. Unlike tarfile it notices where an archive was cut off."""
    length = path.stat().st_size
    position = 0
    extended: dict[str, str] = {}
    while True:
        file.seek(position)
        header = file.read(BLOCK)
        where = f"{path}, header at byte {position}"
        if len(header) < BLOCK:
            raise ValueError(f"{path}: ends at byte {length} without the end-of-archive mark; it is truncated")
        if header.count(0) == BLOCK:
            _check_end(path, file, position)
            return
        _check_header(header, where)
        stated = extended.get("size") or _number(header[124:136])
        if stated is None:
            raise ValueError(f"{where}: the size is not a number; the archive is damaged")
        size, offset, kind = int(stated), position + BLOCK, header[156:157]
        position = offset + -(-size // BLOCK) * BLOCK
        if offset + size > length:
            raise ValueError(f"{where}: the member needs {size} bytes, but the file ends at {length}; it is truncated")
        if kind in b"Lx":
            if size > _LONGEST_EXTENSION:
                raise ValueError(f"{where}: a name or pax header of {size} bytes; the archive is damaged")
            extended |= _extension(kind, file.read(size), where)
            continue
        if kind in b"Kg":
            continue
        raw = extended.get("path") or _name(header)
        extended = {}
        if raw in (".", "./"):
            continue
        name = safe_name(raw, where)
        if kind in b"0\0" and not raw.endswith("/"):
            yield name, offset, size
        elif kind not in b"05\0" and (is_image_name(name) or name.endswith(".cls")):
            raise ValueError(f"{where}: {name!r} is a link or a special file; only regular files are read")


def _check_end(path: Path, file: BinaryIO, position: int) -> None:
    """Only zeros may follow the end-of-archive mark: behind a header that was zeroed the other members lie."""
    while block := file.read(2**20):
        if block.count(0) < len(block):
            raise ValueError(
                f"{path}: the archive ends at byte {position}, but more follows; it is damaged, or several archives "
                "in one file: unpack them one by one"
            )


def _check_header(header: bytes, where: str) -> None:
    if _number(header[148:156]) != sum(header) - sum(header[148:156]) + 8 * ord(" "):
        for magic, command in _PACKED.items():
            if header.startswith(magic):
                raise ValueError(f"{where}: the archive is compressed, which allows no random access; run {command}")
        raise ValueError(f"{where}: wrong checksum; this is no tar archive, or it is damaged")


def _number(field: bytes) -> int | None:
    """A size or checksum: octal digits, or a binary number where the first byte is 0x80; None for anything else."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.split(b"\0", 1)[0].strip(b" ")
    return None if digits.strip(b"01234567") else int(digits or b"0", 8)


def _name(header: bytes) -> str:
    name = _text(header[:100])
    prefix = _text(header[345:500]) if header[257:263] == b"ustar\0" else ""
    return f"{prefix}/{name}" if prefix else name


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def _extension(kind: bytes, data: bytes, where: str) -> dict[str, str]:
    """What a GNU long name or a pax header says of the next member."""
    if kind == b"L":
        return {"path": _text(data)}
    found = {}
    while data.strip(b"\0"):
        digits = data.split(b" ", 1)[0].decode("ascii", "replace")
        length = parse_integer(digits, f"{where}: length in the pax header", len(digits) + 3, len(data))
        key, equals, value = data[len(digits) + 1 : length - 1].decode("utf-8", "surrogateescape").partition("=")
        if not equals or data[length - 1] != ord("\n"):
            raise ValueError(f"{where}: damaged pax header")
        if key == "path":
            found[key] = value
        elif key == "size":
            found[key] = str(parse_integer(value, f"{where}: size in the pax header"))
        elif key.startswith("GNU.sparse"):
            raise ValueError(f"{where}: sparse members are not read")
        data = data[length:]
    return found
