"""A run on record, as items read it: numbers in per cent, decisions, and whom they are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.training import RunRecord
from hypersphere_papers.engine.face_searches import PAIRS, RAW
from hypersphere_papers.engine.measure import METRICS
from hypersphere_papers.engine.setting import Setting

NORMS, IMAGES_OF_CLASSES = "prototype norms", "images of classes"
"""Arrays of a run with softmax that was searched with."""
IMAGES = "images"
"""Among the people of the faces: how many images each has who is trained on."""
WEIGHTS = "pairs weights"
"""Among the people of the faces, and an array of a run: how much each pair of people held out counts."""
People = Mapping[str, npt.NDArray[Any]]
"""By set, (2, pairs) who is on the images of every pair; `WEIGHTS` and `IMAGES`."""


@dataclass(frozen=True, eq=False)
class Record:
    """One run.

    Args:
        title: of the setting that asked for it first.
        seed: of the run.
        seconds: training and measuring.
        machine: that trained it.
        stopped: why training ended early (a collapse, a loss that is no number); then nothing was measured.
        numbers: by name.
        arrays: by name: decisions by pair or probe, histograms, features.
        steps: of the optimizer in the last stage, for a recipe that states epochs instead.
    """

    title: str
    seed: int
    seconds: float
    machine: str = ""
    stopped: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    arrays: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    steps: int = 0


def as_record(run: RunRecord, setting: Setting, people: People) -> Record:
    """Return a run of a record file as items read it.

    Args:
        run: of the file.
        setting: that it is a run of.
        people: of the faces; nothing for other data.
    """
    arrays = {name: stored.array() for name, stored in run.arrays.items()}
    numbers = dict(run.numbers)
    if run.train_accuracy is not None:
        numbers["train accuracy"] = 100 * run.train_accuracy
    if run.norm is not None:
        numbers["norm"] = run.norm
    stopped = run.stopped
    if setting.data == "faces":
        arrays = {} if setting.measure == "verification" else arrays
        stopped = stopped or (
            "" if setting.measure == "verification" or arrays else f"its {setting.measure} were not measured"
        )
        _add_people(arrays, numbers, people)
        if run.scores and setting.measure in ("verification", "searches"):
            _add_decisions(arrays, numbers, run, people)
        if setting.measure == "features" and "features" in arrays:
            arrays["features"] = arrays["features"].astype(np.float32)
    return Record(run.cell, run.seed, run.seconds, run.machine, stopped, numbers, arrays, run.steps)


def _add_people(arrays: dict[str, npt.NDArray[Any]], numbers: dict[str, float], people: People) -> None:
    """Add the means over people, and whom the rows of arrays are about."""
    for name in [name for name in arrays if name in METRICS]:
        numbers[name] = 100 * float(arrays[name].mean())
        if name not in RAW:
            arrays[f"{name} subjects"] = np.tile(np.arange(len(arrays[name])), (2, 1))
    if NORMS in arrays and IMAGES in people:
        arrays[IMAGES_OF_CLASSES] = people[IMAGES]


def _add_decisions(
    arrays: dict[str, npt.NDArray[Any]], numbers: dict[str, float], run: RunRecord, people: People
) -> None:
    """Add the decisions on pairs; those of people held out count so that every person counts alike."""
    for name, title in PAIRS.items():
        score = run.scores[title]
        numbers[name] = 100 * score.accuracy
        arrays[name], arrays[f"{name} subjects"] = score.decisions(people[name].shape[1]), people[name]
        if name == "pairs":
            arrays[WEIGHTS] = people[WEIGHTS]
            numbers[name] = 100 * float(np.average(arrays[name], weights=people[WEIGHTS]))
