"""Records in one file, a line of JSON each: runs of real data, which later runs add to."""

from __future__ import annotations

import base64
import json
import math
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.core import as_table, build, numbered_lines, parse_json, write_atomically
from hypersphere.reproduce.experiment.record import Record

_DTYPES = ("bool", "int16", "int64", "float32", "float64")
_LARGEST = 2**28


@dataclass(frozen=True)
class StoredArray:
    """An array as JSON holds it.

    Args:
        dtype: one of a few; truths are eight a byte.
        shape: of the array.
        data: its bytes, compressed by zlib, in base 64.
    """

    dtype: str
    shape: tuple[int, ...]
    data: str

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> StoredArray:
        """Pack an array."""
        name = str(array.dtype)
        if name not in _DTYPES:
            raise ValueError(f"an array of {name} is not stored; expected one of {', '.join(_DTYPES)}")
        content = np.packbits(array) if name == "bool" else np.ascontiguousarray(array)
        packed = base64.b64encode(zlib.compress(content.tobytes(), 9)).decode("ascii")
        return cls(name, tuple(array.shape), packed)

    def array(self) -> npt.NDArray[Any]:
        """Unpack it; ValueError where it is no such array."""
        if self.dtype not in _DTYPES or any(side < 0 for side in self.shape):
            raise ValueError(f"an array of {self.dtype} {self.shape}")
        count = math.prod(self.shape)
        size = -(-count // 8) if self.dtype == "bool" else count * np.dtype(self.dtype).itemsize
        if size > _LARGEST:
            raise ValueError(f"an array of {size:,} bytes, more than {_LARGEST:,}")
        try:
            content = zlib.decompressobj().decompress(base64.b64decode(self.data, validate=True), size + 1)
        except (ValueError, zlib.error) as error:
            raise ValueError(f"an array that cannot be unpacked ({error})") from None
        if len(content) != size:
            raise ValueError(f"an array of {len(content)} bytes where {self.dtype} {self.shape} takes {size}")
        if self.dtype == "bool":
            flat = np.unpackbits(np.frombuffer(content, dtype=np.uint8), count=count).astype(bool)
        else:
            flat = np.frombuffer(content, dtype=self.dtype).copy()
        return flat.reshape(self.shape)


@dataclass(frozen=True, kw_only=True)
class _Line:
    key: str
    title: str
    seed: int
    seconds: float
    machine: str = ""
    stopped: str = ""
    numbers: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, StoredArray] = field(default_factory=dict)


class RecordLines:
    """The records of a file, by key.

    Args:
        path: of the file; it need not exist yet.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.records: dict[str, Record] = {}
        self._lines: dict[str, str] = {}
        if self.path.exists():
            for number, text in numbered_lines(self.path):
                key, record = _parse(text, f"{path}, line {number}")
                self.records[key], self._lines[key] = record, text.strip()

    def add(self, key: str, record: Record) -> None:
        """Write a record down, in the place of an earlier one of the same key."""
        line = _Line(
            key=key,
            title=record.title,
            seed=record.seed,
            seconds=round(record.seconds, 2),
            machine=record.machine,
            stopped=record.stopped,
            numbers={name: float(value) for name, value in record.numbers.items() if math.isfinite(value)},
            arrays={name: StoredArray.of(array) for name, array in record.arrays.items()},
        )
        self.records[key], self._lines[key] = record, json.dumps(as_table(line), allow_nan=False)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, "".join(f"{text}\n" for text in self._lines.values()).encode())


def _parse(text: str, where: str) -> tuple[str, Record]:
    try:
        table = parse_json(text, "its text")
        if not isinstance(table, dict):
            raise ValueError("expected a table")
        line = build(_Line, table)
        arrays = {name: stored.array() for name, stored in line.arrays.items()}
    except ValueError as error:
        raise ValueError(f"{where}: no record of a run ({error})") from None
    return line.key, Record(
        line.title, line.seed, line.seconds, line.machine, line.stopped, numbers=line.numbers, arrays=arrays
    )
