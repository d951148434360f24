"""A reader of MATLAB files (MAT 5, as `save -v6` and `-v7` write them) that no damage can crash.

`scipy.io.loadmat` ends the process on some flipped bits. The arrays of a protocol need a small part of the format:
numbers, text and cells of them. Every size is checked against the bytes that are there before it is used.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.core import read_bounded
from hypersphere.evaluation.arrays import Array

LIMIT = 1 << 28
"""Bytes that a file, and an array that is compressed in it, may have."""

_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_NUMBERS = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_CELL, _CHAR = 1, 4
_TEXT = {2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_COMPLEX = 0x800
_NESTED = 4


def read_mat(path: Path, wanted: Collection[str]) -> dict[str, Array]:
    """The arrays of these names: numbers as they are, text as strings, a cell array as one of objects.

    Args:
        path: the file.
        wanted: names; other arrays are passed over.

    Raises:
        ValueError: there is no such file, or it is damaged; the message names the file.
    """
    data = read_bounded(path, LIMIT, "MAT")
    order = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}.get(data[124:_HEADER])
    if order is None:
        if data[124:_HEADER] == b"\x00\x02IM" or data[:8] == b"\x89HDF\r\n\x1a\n":
            raise ValueError(f"{path}: written by MATLAB 7.3 as HDF5; save it again with -v7")
        raise ValueError(f"{path}: not a MATLAB file of version 5 (saved with -v6 or -v7)")
    found: dict[str, Array] = {}
    try:
        for element in _elements(memoryview(data)[_HEADER:], order):
            packed = element[0] == _COMPRESSED
            kind, content = next(_elements(memoryview(_unpacked(element[1])), order)) if packed else element
            if kind != _MATRIX:
                raise ValueError(f"an element of type {kind} where an array was expected")
            reader = _Matrix(content, order)
            if reader.name in found:
                raise ValueError(f"it holds {reader.name!r} twice")
            if reader.name in wanted:
                found[reader.name] = reader.value()
    except (ValueError, OverflowError, zlib.error, StopIteration) as error:
        raise ValueError(f"{path}: damaged, or not a MATLAB file ({error})") from None
    return found


def _unpacked(payload: memoryview) -> bytes:
    unpack = zlib.decompressobj()
    data = unpack.decompress(payload, LIMIT)
    if not unpack.eof:
        raise ValueError(f"a compressed array is cut off, or has more than {LIMIT:,} bytes")
    return data


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Type and content of each element; those of at most 4 bytes may be packed into their tag."""
    place = 0
    while place < len(data):
        if len(data) - place < 8:
            raise ValueError("it ends within a tag")
        kind, size = struct.unpack_from(f"{order}II", data, place)
        start = place + 8
        if kind >> 16:
            kind, size, start = kind & 0xFFFF, kind >> 16, place + 4
            if size > 4:
                raise ValueError(f"{size} bytes in a tag that holds 4")
        elif size > len(data) - start:
            raise ValueError(f"an element of {size:,} bytes, of which {len(data) - start:,} are there")
        yield kind, data[start : start + size]
        place = place + 8 if start == place + 4 else start + size + (0 if kind == _COMPRESSED else -size % 8)


class _Matrix:
    """One array: its name at once, its value on demand."""

    def __init__(self, data: memoryview, order: str, depth: int = 0) -> None:
        self.order, self.depth = order, depth
        self.parts = list(_elements(data, order))
        if len(self.parts) < 3 or [kind for kind, _ in self.parts[:2]] != [6, 5] or len(self.parts[0][1]) != 8:
            raise ValueError("an array without flags, shape and name")
        flags = struct.unpack_from(f"{order}I", self.parts[0][1])[0]
        self.kind, self.complex = flags & 0xFF, bool(flags & _COMPLEX)
        self.shape = tuple(self._numbers(1).tolist())
        if not 2 <= len(self.shape) <= 8 or min(self.shape) < 0:
            raise ValueError(f"an array of shape {self.shape}")
        if self.parts[2][0] not in (1, 2):
            raise ValueError("an array without a name")
        self.name = bytes(self.parts[2][1]).decode("ascii")
        self.parts = self.parts[3:]

    def value(self) -> Array:
        """Numbers, text or cells."""
        count = math.prod(self.shape)
        if self.kind == _CELL:
            return self._cells(count)
        if len(self.parts) != 1 or self.complex:
            raise ValueError(f"{self.name!r} is neither of real numbers nor text nor cells")
        if self.kind == _CHAR:
            return self._text(count)
        if self.kind not in _NUMBERS:
            raise ValueError(f"{self.name!r} is of class {self.kind}; expected numbers, text or cells")
        numbers = self._numbers(0)
        if len(numbers) != count:
            raise ValueError(f"{self.name!r} has {len(numbers)} numbers for shape {self.shape}")
        return numbers.astype(_NUMBERS[self.kind]).reshape(self.shape, order="F")

    def _numbers(self, part: int) -> Array:
        kind, data = self.parts[part]
        dtype = np.dtype(f"{self.order}{_STORED[kind]}") if kind in _STORED else None
        if dtype is None or len(data) % dtype.itemsize:
            raise ValueError(f"{len(data)} bytes of type {kind} are no numbers")
        return np.frombuffer(data, dtype)

    def _text(self, count: int) -> Array:
        kind, data = self.parts[0]
        if kind not in _TEXT or self.shape[0] > 1 or len(self.shape) > 2:
            raise ValueError(f"text of shape {self.shape} in type {kind}; expected one line")
        suffix = {"<": "-le", ">": "-be"}[self.order] if kind in (4, 17, 18) else ""
        text = bytes(data).decode(f"{_TEXT[kind]}{suffix}")
        if len(text) != count and len(text.encode("utf-16-le")) != 2 * count:
            raise ValueError(f"text of {len(text)} characters for shape {self.shape}")
        return np.array(text)

    def _cells(self, count: int) -> Array:
        if self.depth >= _NESTED or len(self.parts) != count or any(kind != _MATRIX for kind, _ in self.parts):
            raise ValueError(f"{self.name!r} has {len(self.parts)} cells for shape {self.shape}, or too many levels")
        cells: Any = np.empty(count, dtype=object)
        for place, (_, data) in enumerate(self.parts):
            cells[place] = _Matrix(data, self.order, self.depth + 1).value() if len(data) else np.empty((0, 0))
        return np.asarray(cells.reshape(self.shape, order="F"))
