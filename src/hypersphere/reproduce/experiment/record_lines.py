"""Records in one file, a line of JSON each: runs of real data, which later runs add to."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path

from hypersphere.core import as_table, build, numbered_lines, parse_json, write_atomically
from hypersphere.core.stored_array import StoredArray
from hypersphere.reproduce.experiment.record import Record


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
