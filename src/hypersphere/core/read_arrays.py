"""The one reader of `.npy` and `.npz` files: arrays of numbers, truths or text, or a ValueError that names the file.

Nothing is pickled, no header is evaluated as Python, and an array is made only after its header was checked against the
bytes that are there.
"""

from __future__ import annotations

import math
import re
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import numpy.typing as npt

NPZ_LIMIT = 1 << 31
"""Bytes that the arrays of one `.npz` file may have together when they are compressed in it."""
NPZ_FREELY, NPZ_TIMES = 1 << 26, 100
"""Up to so many they may have in any case; beyond that, so many times the file's size."""
NPZ_ARRAYS = 10_000
"""Arrays that one `.npz` file may hold."""

_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 1 << 16
_LARGEST = (1 << 63) - 1
_MOST_DIMENSIONS = 32
_ENTRY = re.compile(r"""\s*['"](\w+)['"]\s*:\s*(?:['"]([^'"]*)['"]|(True|False)|\(([\d,\s]*)\))\s*(?:,|(?=\}))""")
_DTYPE = re.compile(r"[<>|=]?(?:[biufcSU][0-9]{1,9}|\?)")
_LAST_CHARACTER, _SURROGATES = 0x10FFFF, (0xD800, 0xDFFF)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_UTF8_NAME, _ENCRYPTED = 0x800, 0x1
_END = struct.Struct("<4s6xH8xH")
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
    LookupError,
    RuntimeError,
)


class _Header:
    """What an `.npy` says of its array: dtype, shape and order, and the `bytes` it takes."""

    def __init__(self, file: IO[bytes]) -> None:
        start = file.read(8)
        if start[:6] != _MAGIC or len(start) < 8:
            raise ValueError("it does not begin as an .npy file")
        if start[6:] not in (b"\1\0", b"\2\0", b"\3\0"):
            raise ValueError(f"version {start[6]}.{start[7]} of the format is unknown")
        width = 2 if start[6] == 1 else 4
        length = int.from_bytes(file.read(width), "little")
        if length > _LONGEST_HEADER:
            raise ValueError(f"a header of {length:,} bytes")
        text = file.read(length)
        if len(text) != length:
            raise ValueError("it ends within its header")
        self.offset = 8 + width + length
        table = _entries(text.decode("latin-1"))
        self.dtype, self.fortran, self.shape = _dtype(table["descr"]), table["fortran_order"], table["shape"]
        self.bytes = math.prod(self.shape) * self.dtype.itemsize

    @property
    def order(self) -> Any:
        """As NumPy calls it."""
        return "F" if self.fortran else "C"


def read_npy(path: str | Path, *, mapped: bool = False) -> npt.NDArray[Any]:
    """The array of an `.npy` file.

    Args:
        path: the file, exactly as long as its header says.
        mapped: leave the numbers in the file and read them when they are used; the array cannot be written to.

    Raises:
        ValueError: there is no such file, or it is damaged, or holds objects or records; the message names the file.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            header = _Header(file)
            if size - header.offset != header.bytes:
                raise ValueError(
                    f"an array {header.shape} of {header.dtype} has {header.bytes:,} bytes, and there are "
                    f"{size - header.offset:,}"
                )
            if mapped and header.bytes:
                array: npt.NDArray[Any] = np.memmap(
                    file, header.dtype, "r", header.offset, header.shape, order=header.order
                )
            else:
                flat = np.fromfile(file, header.dtype, math.prod(header.shape))
                array = flat.reshape(header.shape, order=header.order)
        _check_values(array)
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path}: not a readable .npy array ({error})") from None
    return array


def read_npz(path: str | Path, *, limit: int = NPZ_LIMIT) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an `.npz` file by name, each compared with its checksum.

    Args:
        path: the file.
        limit: bytes that all arrays together may have where they are compressed, if that is at most `NPZ_FREELY` or
            `NPZ_TIMES` the file's size; otherwise the file's own size bounds them.

    Raises:
        ValueError: there is no such file, or it is damaged, or too large; the message names the file.
    """
    path = Path(path)
    found: dict[str, npt.NDArray[Any]] = {}
    try:
        size = path.stat().st_size
        count = _stated_count(path)
        if count > NPZ_ARRAYS:
            raise ValueError(f"it states {count:,} arrays or more; at most {NPZ_ARRAYS:,} are read")
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if count != len(entries):  # zipfile does not compare
                raise ValueError("its list of arrays is damaged")
            stated = sum(entry.file_size for entry in entries)
            packed = any(entry.compress_type for entry in entries)
            bound = max(min(limit, max(NPZ_FREELY, NPZ_TIMES * size)), size) if packed else size
            if stated > bound:
                raise ValueError(f"its arrays have {stated:,} bytes; at most {bound:,} are read")
            for entry in entries:
                name = entry.filename.removesuffix(".npy")
                if name in found:
                    raise ValueError(f"it holds {name!r} twice")
                found[name] = _member(archive, entry)
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file") from None
    except _ZIP_ERRORS as error:
        raise ValueError(f"{path}: not a readable .npz file of arrays ({error})") from None
    return found


def _stated_count(path: Path) -> int:
    """How many entries the end of a zip file states."""
    with path.open("rb") as file:
        file.seek(-_END.size, 2)
        magic, stated, comment = _END.unpack(file.read(_END.size))
    if magic != b"PK\5\6" or comment:
        raise ValueError("its list of arrays is damaged")
    return int(stated)


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> npt.NDArray[Any]:
    """An array, read to the end of its entry, where its checksum is compared."""
    if entry.compress_type not in _METHODS or entry.flag_bits & _ENCRYPTED:
        raise ValueError(f"{entry.filename!r} is packed in a way that NumPy does not use")
    name = PurePosixPath(entry.filename)
    if name.is_absolute() or ".." in name.parts:
        raise ValueError(f"{entry.filename!r} is a name outside of the archive")
    if not entry.filename.isascii() and not entry.flag_bits & _UTF8_NAME:
        raise ValueError(f"{entry.filename!r} is not named in UTF-8")
    with archive.open(entry) as file:
        header = _Header(file)
        if entry.file_size - header.offset != header.bytes:
            raise ValueError(f"{entry.filename!r} does not have the length of its header's array {header.shape}")
        data = file.read(header.bytes + 1)
        if len(data) != header.bytes or file.read(1):
            raise ValueError(f"{entry.filename!r} is cut off")
    array = np.frombuffer(bytearray(data), header.dtype).reshape(header.shape, order=header.order)
    _check_values(array)
    return array


def _entries(text: str) -> dict[str, Any]:
    """The three entries of a header, which is written as a Python dictionary."""
    found: dict[str, Any] = {}
    place = 1 if text[:1] == "{" else len(text)
    while match := _ENTRY.match(text, place):
        key, word, truth, numbers = match.groups()
        if key in found:
            raise ValueError(f"its header has {key!r} twice")
        found[key] = word if word is not None else truth == "True" if truth is not None else _shape(numbers)
        place = match.end()
    types = {key: type(value) for key, value in found.items()}
    if text[place:].strip() != "}" or types != {"descr": str, "fortran_order": bool, "shape": tuple}:
        raise ValueError("its header is not that of an array of numbers or text")
    return found


def _shape(numbers: str) -> tuple[int, ...]:
    words = numbers.split(",")
    if words[-1].strip() == "":
        words.pop()
    if len(words) > _MOST_DIMENSIONS or any(not word.strip().isdecimal() or len(word.strip()) > 19 for word in words):
        raise ValueError(f"its shape ({numbers[:80]}) is none")
    shape = tuple(int(word) for word in words)
    if math.prod(max(1, n) for n in shape) > _LARGEST:
        raise ValueError(f"its shape {shape} is too large")
    return shape


def _dtype(text: str) -> np.dtype[Any]:
    if not _DTYPE.fullmatch(text):
        raise ValueError(f"its dtype {text[:80]!r} is neither of numbers nor of text")
    try:
        dtype = np.dtype(text)
    except (TypeError, ValueError) as error:
        raise ValueError(f"its dtype {text!r} is unknown: {error}") from None
    if dtype.itemsize == 0 or dtype.kind not in "biufcSU":
        raise ValueError(f"its dtype {text!r} is neither of numbers nor of text")
    return dtype


def _check_values(array: npt.NDArray[Any]) -> None:
    """Raise ValueError for bytes that are no truth or no character: NumPy would hand them on, and stumble later."""
    flat = array.reshape(-1, order="A")
    if array.dtype.kind == "b" and (flat.view(np.uint8) > 1).any():
        raise ValueError("a truth that is neither 0 nor 1")
    if array.dtype.kind == "U" and array.size:
        letters = np.ascontiguousarray(flat).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if ((letters > _LAST_CHARACTER) | ((letters >= _SURROGATES[0]) & (letters <= _SURROGATES[1]))).any():
            raise ValueError("text with a character that does not exist")
