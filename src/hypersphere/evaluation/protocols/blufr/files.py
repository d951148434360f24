"""The configuration file of BLUFR."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.evaluation.arrays import Array, Ints

TRIALS = 10
_LARGEST = 1 << 31
_SETS = ("trainIndex", "testIndex", "galIndex", "probIndex")
_NUMBERED = re.compile(r"(?P<person>.+)_\d+\.\w+")


@dataclass(frozen=True)
class Trial:
    """One trial: rows of the image list, from 0."""

    train: Ints
    test: Ints
    gallery: Ints
    probes: Ints


def read_config(path: Path) -> tuple[tuple[str, ...], Ints, tuple[Trial, ...]]:
    """The images as LFW lays them out, their people, and the ten trials."""
    table = _read_mat(path)
    names = [
        _name(cell, f"{path}: imageList{{{k}}}") for k, cell in enumerate(_entry(table, "imageList", path).ravel(), 1)
    ]
    first: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if name in first:
            raise ValueError(f"{path}: imageList{{{place}}} is {name!r}, which imageList{{{first[name]}}} is already")
        first[name] = place
    labels = _whole(_entry(table, "labels", path), f"{path}: labels")
    if labels.shape != (len(names),):
        raise ValueError(f"{path}: labels has {labels.size} entries; imageList has {len(names)}")
    sets = {key: _cells(table, key, path, len(names)) for key in _SETS}
    trials = []
    for number, parts in enumerate(zip(*sets.values(), strict=True), start=1):
        trial = Trial(*parts)
        _check_trial(trial, f"{path}, trial {number}")
        trials.append(trial)
    return tuple(map(_in_folder, names)), labels, tuple(trials)


def _read_mat(path: Path) -> dict[str, Any]:
    """Return the arrays of the file by SciPy, which reads what `save -v6` and `-v7` of MATLAB write."""
    from scipy.io import loadmat

    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    try:
        table = loadmat(path, variable_names=["imageList", "labels", *_SETS], appendmat=False)
    except NotImplementedError:
        raise ValueError(f"{path}: written by MATLAB 7.3 as HDF5; save it again with -v7") from None
    except Exception as error:  # SciPy raises whatever its parsing meets
        raise ValueError(f"{path}: damaged, or not a MATLAB file ({error})") from None
    return {name: value for name, value in table.items() if not name.startswith("__")}


def _entry(table: dict[str, Any], key: str, path: Path) -> Array:
    if key not in table or np.size(table[key]) == 0:
        raise ValueError(f"{path}: {key} is missing or empty; it has {', '.join(table)}")
    return np.asarray(table[key])


def _name(cell: Any, where: str) -> str:
    text = np.asarray(cell)
    if text.dtype.kind != "U" or text.size != 1 or not text.item():
        raise ValueError(f"{where} is no name of an image")
    return str(text.item())


def _whole(cell: Any, where: str) -> Ints:
    """The entries as int64, which they must be but for their type."""
    numbers = np.asarray(cell).ravel()
    if numbers.dtype.kind not in "iuf" or not (np.abs(numbers.astype(np.float64)) < _LARGEST).all():
        raise ValueError(f"{where} must hold whole numbers below {_LARGEST:,}")
    whole = numbers.astype(np.int64)
    if (whole != numbers).any():
        raise ValueError(f"{where} holds {numbers[np.argmax(whole != numbers)]}, which is not a whole number")
    return whole


def _cells(table: dict[str, Any], key: str, path: Path, count: int) -> list[Ints]:
    """The index sets of a cell array, from 0, each checked."""
    cells = _entry(table, key, path).ravel()
    if len(cells) != TRIALS:
        raise ValueError(f"{path}: {key} has {len(cells)} trials; the protocol has {TRIALS}")
    found = []
    for number, cell in enumerate(cells, start=1):
        where = f"{path}: {key}{{{number}}}"
        indices = _whole(cell, where)
        if len(indices) == 0:
            raise ValueError(f"{where} is empty")
        outside = indices[(indices < 1) | (indices > count)]
        if len(outside):
            raise ValueError(f"{where} holds {outside[0]}; imageList has 1 to {count}")
        different, times = np.unique(indices, return_counts=True)
        if (times > 1).any():
            raise ValueError(f"{where} holds {different[np.argmax(times > 1)]} twice")
        found.append(indices - 1)
    return found


def _check_trial(trial: Trial, where: str) -> None:
    both = np.intersect1d(trial.gallery, trial.probes)
    if len(both):
        raise ValueError(f"{where}: image {both[0] + 1} is in galIndex and in probIndex")
    apart = np.setxor1d(trial.test, np.union1d(trial.gallery, trial.probes))
    if len(apart):
        raise ValueError(f"{where}: testIndex must be galIndex and probIndex together; image {apart[0] + 1} is not")
    shared = np.intersect1d(trial.train, trial.test)
    if len(shared):
        raise ValueError(f"{where}: image {shared[0] + 1} is in trainIndex and in testIndex")


def _in_folder(name: str) -> str:
    match = _NUMBERED.fullmatch(name)
    return f"{match['person']}/{name}" if match is not None else name
