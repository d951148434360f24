"""Runs on MNIST and CIFAR-10 that tests put on record."""

from pathlib import Path

from hypersphere.training import RecordFile, RunRecord, StoredArray
from hypersphere_papers.engine.record import Record, as_record
from hypersphere_papers.engine.setting import Setting

ANY = Setting("any", (), "classes", "cifar10")


class RunsOnRecord:
    """The records of a file, by key."""

    def __init__(self, path: Path) -> None:
        self.file = RecordFile(path)
        self.records = {key: as_record(run, ANY, {}) for key, run in self.file.records.items()}

    def add(self, key: str, record: Record) -> None:
        """Write a record down, in the place of an earlier one of the same key."""
        self.file.add(
            RunRecord(
                cell=record.title,
                seed=record.seed,
                recipe=key,
                stopped=record.stopped,
                numbers=dict(record.numbers),
                arrays={name: StoredArray.of(array) for name, array in record.arrays.items()},
                seconds=record.seconds,
                machine=record.machine,
            )
        )
        self.records[key] = record
