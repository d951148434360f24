"""`.npy` and `.npz` files by NumPy, without pickle: arrays of numbers or text, or a ValueError that names the file."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

NPZ_LIMIT = 1 << 31
"""Bytes that the arrays of one `.npz` file may have together, unless the file itself has more."""

_END = struct.Struct("<4s6xH8xH")
_DAMAGE = (
    ValueError,
    OverflowError,
    ArithmeticError,
    LookupError,
    TypeError,
    SyntaxError,
    RecursionError,
    MemoryError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What NumPy and zipfile raise for damaged files: a header is parsed as a Python literal, a member unpacked by zlib."""


def read_npy(path: str | Path, *, mapped: bool = False) -> npt.NDArray[Any]:
    """Return the array of an `.npy` file.

    Args:
        path: the file, exactly as long as its header says.
        mapped: leave the numbers in the file and read them when they are used; the array cannot be written to.

    Raises:
        ValueError: there is no such file, or it is damaged, or holds objects or records; the message names the file.
    """
    path = Path(path)
    try:
        _check_header_length(path)
        # Mapping compares the header with the bytes that are there before any memory is taken.
        with np.errstate(over="ignore"):  # a shape beyond all memory is refused in any case
            array = np.lib.format.open_memmap(path, mode="r")
        end, size = array.offset + array.nbytes, path.stat().st_size
        if end != size:
            raise ValueError(f"an array {array.shape} of {array.dtype} ends at byte {end:,} of {size:,}")
        _check_kind(array)
        return array if mapped else np.array(array)
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from None
    except _DAMAGE as error:
        raise ValueError(f"{path}: not a readable .npy array ({error})") from None


def read_npz(path: str | Path) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an `.npz` file by name, each compared with its checksum.

    Raises:
        ValueError: there is no such file, or it is damaged, or too large; the message names the file.
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
        if len(entries) != _stated_count(path):  # zipfile does not compare: arrays would be missing without a word
            raise ValueError("its list of arrays is damaged")
        stated = sum(entry.file_size for entry in entries)
        bound = max(NPZ_LIMIT, path.stat().st_size)
        if stated > bound:
            raise ValueError(f"its arrays have {stated:,} bytes; at most {bound:,} are read")
        arrays = {}
        with np.load(path, allow_pickle=False) as table:
            for name in table.files:
                arrays[name] = table[name]  # read to the end of its entry, where zipfile compares the checksum
                _check_kind(arrays[name])
        return arrays
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from None
    except _DAMAGE as error:
        raise ValueError(f"{path}: not a readable .npz file of arrays ({error})") from None


def _stated_count(path: Path) -> int:
    """Return how many entries the end of a zip file without a comment states."""
    with path.open("rb") as file:
        file.seek(-_END.size, 2)
        magic, count, comment = _END.unpack(file.read(_END.size))
    return int(count) if magic == b"PK\5\6" and not comment else -1


def _check_header_length(path: Path) -> None:
    """Raise ValueError for a header stated to be longer than the file: NumPy takes the memory before it reads."""
    with path.open("rb") as file:
        start = file.read(12)
    stated = int.from_bytes(start[8:12], "little") if start[6:7] in (b"\2", b"\3") else 0
    if stated > path.stat().st_size:
        raise ValueError(f"EOF: its header is stated to have {stated:,} bytes")


def _check_kind(array: Any) -> None:
    """Raise ValueError for what is no array of numbers, truths or text, such as records or the bytes of a member."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufcSU":
        raise ValueError("it holds neither numbers nor text")
