"""Runs on record: what a comparison keeps of each run, as a line of JSON, and tests between its cells."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.core import SEAL, build, digest, numbered_lines, parse_json, seal_of, write_atomically
from hypersphere.core.stored_array import StoredArray
from hypersphere.evaluation import Difference, Verification, compare_repeated
from hypersphere.training.recipe import Recipe
from hypersphere.training.validation import UnseenPairs

_FARS = (1e-2, 1e-3)
_LEFT_OUT_IF_EMPTY = ("warning", "scores", "numbers", "arrays")


@dataclass(frozen=True)
class SetScore:
    """How a run did on one set of pairs.

    Args:
        accuracy: by ten folds; of late snapshots, their mean.
        low, high: its 95 % interval over people, of the last snapshot.
        eer: equal error rate.
        tar: TAR at FAR 1e-2 and 1e-3, by name.
        right: which pairs were decided rightly, a bit each, in base 64: for paired tests between runs.
    """

    accuracy: float
    low: float
    high: float
    eer: float
    tar: dict[str, float]
    right: str

    def __post_init__(self) -> None:
        _from_base64(self.right)

    @classmethod
    def of(cls, results: Sequence[Verification]) -> SetScore:
        """Return the score of a run's snapshots, or of its single network."""
        last = results[-1]
        return cls(
            accuracy=float(np.mean([result.accuracy.value for result in results])),
            low=last.accuracy.low,
            high=last.accuracy.high,
            eer=last.roc.eer(),
            tar={f"{far:g}": last.roc.tar_at(far) for far in _FARS if last.roc.impostors * far >= 1},
            right=base64.b64encode(np.packbits(last.right).tobytes()).decode("ascii"),
        )

    def decisions(self, count: int) -> npt.NDArray[np.bool_]:
        """(count,) whether each pair was decided rightly."""
        packed = np.frombuffer(_from_base64(self.right), dtype=np.uint8)
        if len(packed) != -(-count // 8):
            raise ValueError(f"right holds {len(packed)} bytes of decisions; {count} pairs take {-(-count // 8)}")
        return np.unpackbits(packed, count=count).astype(bool)


@dataclass(frozen=True)
class RunRecord:
    """One run of a comparison, as a line of its record file.

    Args:
        cell: what it is called in the table.
        seed: of the run.
        recipe: `run_key` of its recipe, or what else it is filed under.
        stopped: why training ended early; then nothing was measured.
        warning: what is wrong with a run that ended in collapse.
        train_accuracy: share of its own training images, without augmentation, that the head puts in their class.
        norm: mean length of their embeddings.
        scores: by set of pairs.
        numbers, arrays: what else was measured of its network, by name.
        steps, seconds: of training and measuring.
        machine, version: where, and of this library.
    """

    cell: str
    seed: int
    recipe: str
    stopped: str = ""
    warning: str = ""
    train_accuracy: float | None = None
    norm: float | None = None
    scores: dict[str, SetScore] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, StoredArray] = field(default_factory=dict)
    steps: int = 0
    seconds: float = 0.0
    machine: str = ""
    version: str = ""


KEY_VERSION = 2
"""Raised when the same recipe trains otherwise than before: records of then are not taken for new ones."""


def run_key(recipe: Recipe) -> str:
    """Return a name of a recipe that does not depend on its `about`, nor on where its data and its teacher lie.

    Only the last name of a path counts, so that two files of one name in different folders share a key (`hypersphere
    compare` refuses such cells); give them different names. Before the dash stands `KEY_VERSION`.
    """
    return f"{KEY_VERSION}-{former_key(replace(recipe, about=Recipe.about))}"


def former_key(recipe: Recipe) -> str:
    """Return the key of version 1, which the recipe's `about` decides too, and which has no version."""
    data, validation, teacher = recipe.data, recipe.data.validation, recipe.teacher
    pairs, images = (None if path is None else Path(path).name for path in (validation.pairs, validation.images))
    exclude = None if data.exclude is None else Path(data.exclude).name
    held_out = replace(validation, pairs=pairs, images=images)
    placeless = replace(data, source=Path(data.source).name, exclude=exclude, device=None, validation=held_out)
    model = None if teacher.model is None else Path(teacher.model).name
    return digest(replace(recipe, data=placeless, teacher=replace(teacher, model=model)))


class RecordFile:
    """Runs on record, one JSON object a line; what is there already need not be run again.

    Each line that is written has a seal over the rest of it, and one that was changed is refused; lines of earlier
    versions have none, and stay as they are.

    Args:
        path: of the file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.records: dict[str, RunRecord] = {}
        self._lines: dict[str, str] = {}
        if self.path.exists():
            for number, line in numbered_lines(self.path):
                record = _parse(line, f"{path}, line {number}")
                self.records[record.recipe] = record
                self._lines[record.recipe] = line

    def find(self, recipe: Recipe) -> RunRecord | None:
        """Return the run of a recipe, also where an earlier version filed it; None where there is none."""
        return self.records.get(run_key(recipe)) or self.records.get(former_key(recipe))

    def add(self, record: RunRecord) -> None:
        """Write a run down; a later record of the same recipe replaces the earlier one."""
        table = _table(record)
        self._lines[record.recipe] = json.dumps({**table, SEAL: seal_of(table)}, allow_nan=False)
        self.records[record.recipe] = record
        write_atomically(self.path, "".join(f"{line}\n" for line in self._lines.values()).encode())


def _table(record: RunRecord) -> dict[str, Any]:
    """The fields of a record, without the measures and the warning that it does not have."""
    return {name: value for name, value in asdict(record).items() if value or name not in _LEFT_OUT_IF_EMPTY}


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError(f"right={text[:40]!r} must be in base 64 ({error})") from None


def _parse(line: str, where: str) -> RunRecord:
    try:
        table = parse_json(line, "its text")
        if not isinstance(table, dict):
            raise ValueError("expected a table")
        if SEAL in table and table.pop(SEAL) != seal_of(table):
            raise ValueError("damaged, or changed after it was written: its content differs from its seal")
        record = build(RunRecord, table)
        for stored in record.arrays.values():
            stored.array()
        return record
    except ValueError as error:
        raise ValueError(f"{where}: no record of a run ({error}); remove the line to run it again") from None


def compare_runs(first: Sequence[RunRecord], second: Sequence[RunRecord], pairs: UnseenPairs) -> Difference:
    """Return how much more often the second cell's runs decide rightly, over seeds and people.

    Runs of the same seeds are paired, since they share their start and the order of their images; where the cells have
    other seeds than each other, as when one of them stopped, runs are drawn independently.

    Args:
        first, second: runs of two cells that were measured on the same pairs.
        pairs: these pairs.
    """
    cells = [sorted(runs, key=lambda run: run.seed) for runs in (first, second)]
    one, two = ([run.scores[pairs.title].decisions(len(pairs.same)) for run in runs] for runs in cells)
    paired = [run.seed for run in cells[0]] == [run.seed for run in cells[1]]
    return compare_repeated(one, two, subjects=pairs.subjects, seeds="paired" if paired else "independent")
