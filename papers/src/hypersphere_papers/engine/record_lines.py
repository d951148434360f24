"""Records in one file, a line of JSON each, as comparisons of real faces have them: runs that later runs add to."""

from __future__ import annotations

import math
from pathlib import Path

from hypersphere.training import RecordFile, RunRecord, StoredArray
from hypersphere_papers.engine.record import Record


class RecordLines:
    """The records of a file, by key.

    Args:
        path: of the file; it need not exist yet.
    """

    def __init__(self, path: str | Path) -> None:
        self._file = RecordFile(path)
        self.records = {key: _as_record(run) for key, run in self._file.records.items()}

    def add(self, key: str, record: Record) -> None:
        """Write a record down, in the place of an earlier one of the same key."""
        self._file.add(
            RunRecord(
                cell=record.title,
                seed=record.seed,
                recipe=key,
                stopped=record.stopped,
                numbers={name: float(value) for name, value in record.numbers.items() if math.isfinite(value)},
                arrays={name: StoredArray.of(array) for name, array in record.arrays.items()},
                seconds=round(record.seconds, 2),
                machine=record.machine,
            )
        )
        self.records[key] = record


def _as_record(run: RunRecord) -> Record:
    arrays = {name: stored.array() for name, stored in run.arrays.items()}
    return Record(run.cell, run.seed, run.seconds, run.machine, run.stopped, numbers=run.numbers, arrays=arrays)
