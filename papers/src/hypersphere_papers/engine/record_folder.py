"""Where runs are on record and where images lie: a folder that `--data` names, or the cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from hypersphere.core import whole_file
from hypersphere.data import read_npz
from hypersphere.training import RecordFile, RunRecord, load_recipe, training_source, validation_sets
from hypersphere_papers.engine.cifar10 import is_cifar
from hypersphere_papers.engine.face_measures import weigh_people_alike
from hypersphere_papers.engine.face_searches import PAIRS
from hypersphere_papers.engine.record import IMAGES, WEIGHTS, People
from hypersphere_papers.engine.setting import FACE_FILES, FACE_NAMES, RECIPES, Setting

RECORDS, SEARCHES, SUBJECTS = "records.jsonl", "searches.jsonl", "subjects.npz"
"""Runs on MNIST and CIFAR-10; runs on faces that were searched with; who is on the two images of every pair."""
FACE_RECORDS = {
    "verification": "results.jsonl",
    "searches": SEARCHES,
    "rankings": "rankings.jsonl",
    "features": "features.jsonl",
    "margins": "margins.jsonl",
    "biases": "biases.jsonl",
}
"""By the measure of a setting on faces, where its runs are on record."""
ARCHIVES = {"mnist": ("mnist.npz",), "cifar10": ("cifar10.tar", "cifar10.tar.xz", "cifar10")}
"""By the data, what the images are called in a folder of records."""
_SHOWN = 8
"""Files of a folder that an error names."""


def is_record_folder(data: Path | None) -> bool:
    """Whether a path is a folder of records of MNIST and CIFAR-10."""
    return data is not None and (data / RECORDS).is_file()


def objects_at_hand(data: Path | None) -> bool:
    """Whether a path has CIFAR-10, or a folder of records: then items are about them, and not about people."""
    return data is not None and (is_record_folder(data) or is_cifar(data))


def image_path(data: Path | None, kind: str) -> Path | None:
    """Where the images of a kind are: at `data`, or beside the records there; None where they are not at hand."""
    if data is None or not is_record_folder(data):
        return data
    return next((data / name for name in ARCHIVES[kind] if (data / name).exists()), None)


def faces_at_hand(data: Path | None) -> bool:
    """Whether a path has the faces, or runs on record."""
    return data is not None and any((data / name).is_file() for name in (SUBJECTS, FACE_NAMES[0]))


def missing_faces(folder: Path) -> str:
    """Why a path has no runs on real faces: which files are expected there, and what there is."""
    known = [SUBJECTS, *FACE_RECORDS.values()]
    wanted = f"the faces to train on ({', '.join(FACE_NAMES)}) or runs on record ({', '.join(known)})"
    hint = "--data papers/records/losses has runs on record"
    if not folder.is_dir():
        return f"{folder} is a file; expected a folder with {wanted}; {hint}"
    there = sorted(path.name for path in folder.iterdir())
    there.sort(key=lambda name: name not in (*FACE_NAMES, *known))
    lacks = [name for name in FACE_NAMES if name not in there] if set(there).intersection(FACE_NAMES) else []
    more = f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else ""
    found = f"found {', '.join(there[:_SHOWN])}{more}" if there else "it is empty"
    lacking = f"; missing of the faces: {', '.join(lacks)}" if lacks else ""
    return f"{folder}: expected {wanted}; {found}{lacking}; {hint}"


def face_overrides(folder: Path) -> list[str]:
    """Return what says in a recipe where the faces of a folder lie."""
    return [f"{key}={folder / name}" for key, _, name in (entry.partition("=") for entry in FACE_FILES)]


class RunFiles:
    """The record files that settings are looked up in and added to.

    Args:
        data: what `--data` names: for faces the folder of their records; for other data one too, or the images.
        cache: folder of the runs on other data that no folder of records takes.
    """

    def __init__(self, data: Path | None, cache: Path) -> None:
        self.data, self.cache = data, cache
        self._files: dict[Path, RecordFile] = {}

    def file(self, setting: Setting) -> RecordFile:
        """Return the file that has the runs of a setting."""
        if setting.data == "faces":
            return self._open(self._faces() / FACE_RECORDS[setting.measure])
        return self._open((self.data if self.data and is_record_folder(self.data) else self.cache) / RECORDS)

    def _faces(self) -> Path:
        if self.data is None or not (faces_at_hand(self.data) and self.data.is_dir()):
            raise ValueError("no folder of faces" if self.data is None else missing_faces(self.data))
        return self.data

    def _open(self, path: Path) -> RecordFile:
        if path not in self._files:
            self._files[path] = RecordFile(path)
        return self._files[path]

    def find(self, setting: Setting, seed: int) -> RunRecord | None:
        """Return a run that is on record; one on faces of which more was measured counts for its pairs too."""
        pairs = setting.data == "faces" and setting.measure == "verification"
        for each in map(setting.measured_by, FACE_RECORDS) if pairs else (setting,):
            if found := self.file(each).records.get(each.key(seed)):
                return found
        return None

    def has_images(self, setting: Setting) -> bool:
        """Whether the images that a setting is trained on are at hand."""
        if setting.data == "faces":
            return all((self._faces() / name).is_file() for name in FACE_NAMES)
        return not is_record_folder(self.data) or image_path(self.data, setting.data) is not None

    def people(self) -> People:
        """Return who is on the pairs of the faces; written down first where the faces are at hand."""
        path = self._faces() / SUBJECTS
        if not path.is_file():
            write_people(path)
        found = read_npz(path)
        if missing := [name for name in PAIRS if name not in found or found[name].ndim != 2 or len(found[name]) != 2]:
            raise ValueError(f"{path}: no array of two rows named {', '.join(missing)}")
        people = {name: found[name].astype(np.int64) for name in (*PAIRS, IMAGES) if name in found}
        return {**people, WEIGHTS: weigh_people_alike(*people["pairs"])}


def write_people(path: Path) -> None:
    """Number the people of the two sets of pairs, so that records can be judged where the faces are not at hand.

    How many images each person has who is trained on is written beside them.
    """
    recipe = load_recipe(RECIPES["faces"], face_overrides(path.parent))
    found = {unseen.title: np.stack(unseen.subjects).astype(np.int16) for unseen in validation_sets(recipe)}
    arrays = {name: found[title] for name, title in PAIRS.items()}
    arrays[IMAGES] = np.bincount(training_source(recipe.data).labels).astype(np.int16)
    with whole_file(path) as partial:
        np.savez_compressed(partial, **arrays)  # type: ignore[arg-type]


def not_at_hand(settings: Sequence[Setting]) -> Mapping[str, str]:
    """Return by the data of settings what their images are called."""
    names = {kind: names[0] for kind, names in ARCHIVES.items()} | {"faces": ", ".join(FACE_NAMES)}
    return {setting.data: names[setting.data] for setting in settings}
