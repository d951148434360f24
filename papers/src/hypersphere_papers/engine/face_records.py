"""Settings that train on real faces: their runs are those of a record file, which later runs add to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.core import whole_file
from hypersphere.data import read_npz
from hypersphere.training import RecordFile, RunRecord, run_key, training_source, validation_sets
from hypersphere_papers.engine.evidence import Evidence
from hypersphere_papers.engine.face_measures import weigh_people_alike
from hypersphere_papers.engine.face_searches import PAIRS, RAW
from hypersphere_papers.engine.face_training import MEASURES, Wanted, recipe_in_folder, train_faces
from hypersphere_papers.engine.measure import METRICS
from hypersphere_papers.engine.outcome import Finding
from hypersphere_papers.engine.record import Record
from hypersphere_papers.engine.run import Announce, Gathered, ProgressFactory
from hypersphere_papers.engine.setting import FACE_FILES, Setting, unique

RECORDS, SEARCHES, SUBJECTS = "results.jsonl", "searches.jsonl", "subjects.npz"
"""In the folder of the faces: runs, runs that were searched with too, and who is on the two images of every pair."""
FILES = {
    "verification": RECORDS,
    "searches": SEARCHES,
    "rankings": "rankings.jsonl",
    "features": "features.jsonl",
    "margins": "margins.jsonl",
    "biases": "biases.jsonl",
}
"""By the measure of a setting, where its runs are on record."""
SETS = {"lfw": "on LFW", "pairs": "on people held out"}
"""The two sets of pairs by the names of their decisions; settings were chosen on the second."""
_FACES = tuple(entry.partition("=")[2] for entry in FACE_FILES)
_SHOWN = 8
"""Files of a folder that an error names."""
_IMAGES = "images"
NORMS, IMAGES_OF_CLASSES = "prototype norms", "images of classes"
"""Arrays of a run with softmax that was searched with."""
NOTE = (
    "33,993 real faces of 5,741 people; [losses.md](../results/losses.md) has the recipe and what was tuned. SFNet-10 "
    "at 56 x 56, 24 epochs, unless a row says otherwise; tested on LFW's 6,000 pairs and on 30,000 pairs of 500 people "
    "held out of training. Of these each person counts alike, since one has 39 % of the pairs of one person; a "
    "sentence that pairs alone would decide otherwise is undecided. Gains are in points, with their interval over "
    "people and runs, and every seed's own."
)


def faces(title: str, head: str, *overrides: str) -> Setting:
    """A loss on real faces."""
    return Setting(title, (f"head.name={head}", *overrides), "verification", "faces")


def searched(setting: Setting) -> Setting:
    """The same, for what templates, distractors and trials say of its networks."""
    return replace(setting, measure="searches")


def ranked(setting: Setting) -> Setting:
    """The same, for the similarities of pairs and for how its networks rank the people held out."""
    return replace(setting, measure="rankings")


def with_margins(setting: Setting) -> Setting:
    """The same, for the similarities and sample margins of the images that its networks were trained on."""
    return replace(setting, measure="margins")


_SLOW = "optimizer.lr=0.02"
"""The rate that was the best of three for losses whose prototypes start near zero."""
STEADY = ("optimizer.lr=0.05", "schedule.warmup=1.0", "optimizer.max_grad_norm=5.0")
"""A rate at which networks of every depth train, without batch normalisation: at 0.1 some runs end in no number."""
SOFTMAX = faces("softmax", "softmax")
A_SOFTMAX = {
    1: faces("A-Softmax, m = 1", "modified_softmax"),
    **{m: faces(f"A-Softmax, m = {m}", "sphereface", f"head.margin={m}") for m in (2, 3, 4)},
}
COSFACE = faces("CosFace", "cosface", _SLOW)
ARCFACE = faces("ArcFace", "arcface")
LM_SOFTMAX = faces("LM-Softmax", "lm_softmax", _SLOW)
SPHEREFACE_R = faces("SphereFace (R v0, m = 1.5)", "sphereface_r")
SPHEREFACE2 = faces("SphereFace2", "sphereface2")

_TINY = "data.size=[16,16]"
LIGHT_PEOPLE = ("data.most_images=560", _TINY)
HUNDRED_PEOPLE = ("data.most_images=100", _TINY, "backbone.name=sfnet4")
LIGHT = (*LIGHT_PEOPLE, "backbone.name=sfnet4")
"""SFNet-4 at 16 x 16 on the 560 people with most images: a run takes two minutes of a CPU's core, and fits."""
_LIGHT_SIZE = "SFNet-4 at 16 x 16, trained on the 560 people with most images (at least 10 each, 13,941 in all)."
LIGHT_NOTE = f"The runs of this item are small enough for a CPU: {_LIGHT_SIZE}"
SMALL_NOTE = f"Small: {_LIGHT_SIZE}"
"""For items whose other runs are larger."""
SMALL = (
    "data.most_images=200",
    "data.size=[16,16]",
    "backbone.name=sfnet4",
    "train.epochs=16.0",
    "schedule.milestones=[10,14]",
    "train.precision=float32",
    "train.log_every=10",
)
"""SFNet-4 at 16 x 16 on 200 people, which a CPU trains: for sentences about whether a loss can be trained at all."""


def ampface(margin: float) -> Setting:
    """AmpFace at s = 30."""
    return faces(f"m0 = {margin:g}", "ampface", f"head.margin={margin}", _SLOW)


def better(
    evidence: Evidence, better: Setting, worse: Setting, *, sentence: str = "", equal: bool = False
) -> list[Finding]:
    """That one setting is better than another (or no worse), on each of the two sets of pairs."""
    said = sentence or f"{better.title} is {'at least as good as' if equal else 'better than'} {worse.title}"
    return [
        evidence.better(better, worse, outcome, sentence=f"{said}, {where}", equal=equal)
        for outcome, where in SETS.items()
    ]


def _has_faces(folder: Path) -> bool:
    return all((folder / name).is_file() for name in _FACES)


def missing_faces(folder: Path) -> str:
    """Why a path has no runs on real faces: which files are expected there, and what there is."""
    wanted = f"the faces to train on ({', '.join(_FACES)}) or runs on record ({', '.join([SUBJECTS, *FILES.values()])})"
    hint = "--data papers/records/losses has runs on record"
    if not folder.is_dir():
        return f"{folder} is a file; expected a folder with {wanted}; {hint}"
    there = sorted(path.name for path in folder.iterdir())
    known = [name for name in there if name in (*_FACES, *FILES.values())]
    lacks = [name for name in _FACES if name not in there] if any(name in _FACES for name in known) else []
    shown = [*known, *(name for name in there if name not in known)][:_SHOWN]
    more = f" and {len(there) - len(shown)} more" if len(there) > len(shown) else ""
    found = f"found {', '.join(shown)}{more}" if there else "it is empty"
    lacking = f"; missing of the faces: {', '.join(lacks)}" if lacks else ""
    return f"{folder}: expected {wanted}; {found}{lacking}; {hint}"


def on_record(evidence: Evidence, settings: Mapping[str, Setting]) -> tuple[dict[str, Setting], list[str]]:
    """The settings of which a run is on record, and a note that names the others; all, where there is none at all."""
    known = {row: setting for row, setting in settings.items() if evidence.records[setting]} or dict(settings)
    others = ", ".join(row for row in settings if row not in known)
    return known, [f"Not on record yet: {others}."] if others else []


def rows(evidence: Evidence, settings: Mapping[str, Setting], column: str = "") -> list[Finding]:
    """Accuracy of settings on the two sets of pairs; beside that on LFW the paper's number of a row and column."""
    found = []
    for row, setting in settings.items():
        printed = evidence.printed(row, column) if column else evidence.unprinted(row)
        found.append(evidence.row(setting, "lfw", paper=printed))
        found.append(evidence.row(setting, "pairs", data="held-out people"))
    return found


def faces_at_hand(data: Path | None) -> bool:
    """Whether a path has the faces, or runs on record."""
    return data is not None and any((data / name).is_file() for name in (SUBJECTS, _FACES[0]))


def face_runs(
    settings: Sequence[Setting],
    seeds: Sequence[int],
    folder: Path,
    *,
    jobs: int,
    device: str,
    progress: ProgressFactory,
    announce: Announce,
    train: bool = True,
) -> Gathered:
    """The runs of settings that a folder has on record; where it holds the faces too, the others are trained now.

    Args:
        settings, seeds, jobs, device, progress, announce: as of `train_runs`.
        folder: with the files of `FILES` and `subjects.npz`, or with the faces: `faces.tar`, `lfw-pairs.txt`,
            `lfw112.tar`.
        train: whether runs that are not on record are trained.
    """
    wanted = unique((setting for setting in settings if setting.data == "faces"), seeds)
    if not wanted:
        return Gathered()
    there = _has_faces(folder)
    if not there and not (folder / SUBJECTS).is_file():
        raise ValueError(missing_faces(folder))
    files = {measure: RecordFile(folder / name) for measure, name in FILES.items()}
    found, left = _on_record(wanted, files)
    if left and there and train:
        known = {key: (wanted[key][0], run) for key, run in found.items()}
        train_faces(left, known, files, folder, jobs=jobs, device=device, progress=progress, announce=announce)
        found, left = _on_record(wanted, files)
    elif left:
        names = ", ".join(_FACES)
        announce(f"{len(left)} of {len(wanted)} runs are not on record; with {names} in {folder} they would be trained")
    if not found:
        return Gathered()
    if not (folder / SUBJECTS).is_file():
        write_subjects(folder)
    subjects = read_subjects(folder / SUBJECTS)
    weights = weigh_people_alike(*subjects["pairs"])
    return Gathered({key: _as_record(run, wanted[key][0].measure, subjects, weights) for key, run in found.items()})


def _on_record(wanted: Wanted, files: Mapping[str, RecordFile]) -> tuple[dict[str, RunRecord], Wanted]:
    """The runs that files have, and those that they lack; a run of which more was measured counts for its pairs too."""
    found = {}
    for key, (setting, seed) in wanted.items():
        name = run_key(setting.recipe(seed))
        places = [*files.values()] if setting.measure == "verification" else [files[setting.measure]]
        if run := next((file.records[name] for file in places if name in file.records), None):
            found[key] = run
    return found, {key: run for key, run in wanted.items() if key not in found}


def write_subjects(folder: Path) -> None:
    """Number the people of the two sets of pairs, so that records can be judged where the faces are not at hand.

    How many images each person has who is trained on is written beside them.
    """
    recipe = recipe_in_folder(SOFTMAX, 0, folder)
    found = {unseen.title: np.stack(unseen.subjects).astype(np.int16) for unseen in validation_sets(recipe)}
    arrays = {name: found[title] for name, title in PAIRS.items()}
    arrays[_IMAGES] = np.bincount(training_source(recipe.data).labels).astype(np.int16)
    with whole_file(folder / SUBJECTS) as partial:
        np.savez_compressed(partial, **arrays)  # type: ignore[arg-type]


def read_subjects(path: Path) -> dict[str, npt.NDArray[np.int64]]:
    """(2, pairs) who is on the left and on the right images of each set; and the images of each person trained on."""
    found = read_npz(path)
    if missing := [name for name in SETS if name not in found or found[name].ndim != 2 or len(found[name]) != 2]:
        raise ValueError(f"{path}: no array of two rows named {', '.join(missing)}")
    return {name: found[name].astype(np.int64) for name in (*SETS, _IMAGES) if name in found}


def _as_record(
    run: RunRecord,
    measure: str,
    subjects: Mapping[str, npt.NDArray[np.int64]],
    weights: npt.NDArray[np.float64],
) -> Record:
    """A run on record in the form of the others: numbers in per cent, decisions and whom they are about.

    `weights` are those of the pairs of people held out.
    """
    numbers: dict[str, float] = dict(run.numbers)
    arrays: dict[str, npt.NDArray[Any]] = {}
    if run.train_accuracy is not None:
        numbers["train accuracy"] = 100 * run.train_accuracy
    if run.norm is not None:
        numbers["norm"] = run.norm
    scored = run.scores and measure in ("verification", "searches")
    for name, title in PAIRS.items() if scored else ():
        score, people = run.scores[title], subjects[name]
        numbers[name] = 100 * score.accuracy
        arrays[name], arrays[f"{name} subjects"] = score.decisions(people.shape[1]), people
        if name == "pairs":
            arrays[f"{name} weights"] = weights
            numbers[name] = 100 * float(np.average(arrays[name], weights=weights))
    for name, stored in run.arrays.items() if measure in MEASURES else ():
        arrays[name] = stored.array()
        if name in METRICS:
            numbers[name] = 100 * float(arrays[name].mean())
        if name in METRICS and name not in RAW:
            arrays[f"{name} subjects"] = np.tile(np.arange(len(arrays[name])), (2, 1))
    if measure == "features" and run.arrays:
        arrays["features"] = arrays["features"].astype(np.float32)
    if NORMS in arrays and _IMAGES in subjects:
        arrays[IMAGES_OF_CLASSES] = subjects[_IMAGES]
    stopped = run.stopped or ("" if measure == "verification" or run.arrays else f"its {measure} were not measured")
    return Record(run.cell, run.seed, run.seconds, run.machine, stopped, numbers, arrays, run.steps)
