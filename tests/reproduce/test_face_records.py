"""Runs on real faces: read from a record file, trained where the faces are at hand, and judged as others are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersphere.evaluation import verify_pairs
from hypersphere.reproduce import RunOptions, load_catalogue, run_entry
from hypersphere.reproduce.experiment import face_records as module
from hypersphere.reproduce.experiment.face_records import (
    A_SOFTMAX,
    RECORDS,
    SOFTMAX,
    SUBJECTS,
    face_runs,
    read_subjects,
)
from hypersphere.reproduce.experiment.run import silent
from hypersphere.reproduce.experiment.setting import FACE_FILES, Setting
from hypersphere.training import RecordFile, RunRecord, SetScore, run_key

PAIRS = {"lfw": 80, "pairs": 120}


def subjects() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.integers(0, 30, (2, count)).astype(np.int16) for name, count in PAIRS.items()}


def run_record(setting: Setting, seed: int, separation: float, **options: Any) -> RunRecord:
    """A run whose scores of pairs are so far apart."""
    rng, scores = np.random.default_rng(seed), {}
    for name, title in (("lfw", "lfw-pairs"), ("pairs", "held-out identities")):
        same = np.arange(PAIRS[name]) % 2 == 0
        values = (rng.normal(size=PAIRS[name]) + separation * same).astype(np.float32)
        scores[title] = SetScore.of([verify_pairs(values, same, 10)])
    key = run_key(setting.recipe(seed))
    return RunRecord(setting.title, seed, key, train_accuracy=0.99, norm=3.0, scores=scores, seconds=2.0, **options)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two settings with two seeds on record."""
    record = RecordFile(tmp_path / RECORDS)
    for seed in (0, 1):
        record.add(run_record(SOFTMAX, seed, 0.3))
        record.add(run_record(A_SOFTMAX[2], seed, 4.0))
    np.savez_compressed(tmp_path / SUBJECTS, **subjects())  # type: ignore[arg-type]
    return tmp_path


def gather(settings: list[Setting], folder: Path, said: list[str] | None = None) -> Any:
    announce = (lambda _: None) if said is None else said.append
    return face_runs(settings, (0, 1), folder, jobs=1, device="cpu", progress=silent, announce=announce)


def test_a_run_on_record_keeps_its_decisions_and_its_people(folder: Path) -> None:
    record = gather([SOFTMAX], folder).records[SOFTMAX.key(1)]
    kept = RecordFile(folder / RECORDS).records[SOFTMAX.key(1)]
    assert (record.seed, record.numbers["train accuracy"], record.numbers["norm"]) == (1, 99.0, 3.0)
    for name, title in (("lfw", "lfw-pairs"), ("pairs", "held-out identities")):
        assert record.numbers[name] == pytest.approx(100 * kept.scores[title].accuracy)
        assert (record.arrays[name] == kept.scores[title].decisions(PAIRS[name])).all()
        assert (record.arrays[f"{name} subjects"] == subjects()[name]).all()


def test_an_item_is_judged_from_the_record_alone(folder: Path, tmp_path: Path) -> None:
    options = RunOptions(data=folder, seeds=(0, 1))
    result = run_entry(load_catalogue()["sphereface/table3"], tmp_path / "out", options)
    found = {finding.what: finding for finding in result.findings}
    assert found["A-Softmax, m = 2 is at least as good as softmax, on LFW"].verdict == "held"
    missing = found["A-Softmax, m = 3 is better than A-Softmax, m = 2, on LFW"]
    assert (missing.verdict, missing.ours) == ("undecided", "not measured")
    assert missing.note == "A-Softmax, m = 3: 0 of 2 seeds are on record"


def test_what_is_not_on_record_is_said(folder: Path) -> None:
    said: list[str] = []
    assert len(gather([SOFTMAX, A_SOFTMAX[4]], folder, said).records) == 2
    assert said == [
        f"2 of 4 runs are not on record; with faces.tar, lfw-pairs.txt, lfw112.tar in {folder} they would be trained"
    ]


def test_where_the_faces_are_missing_runs_are_trained_and_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for entry in FACE_FILES:
        (folder / entry.partition("=")[2]).touch()
    asked = []

    def train(tasks: list[Any], world: Any, options: Any, *, jobs: int) -> Iterator[RunRecord]:
        for task in tasks:
            asked.append(task.recipe)
            yield run_record(A_SOFTMAX[4], task.recipe.train.seed, 2.0)

    monkeypatch.setattr(module, "run_tasks", train)
    assert len(gather([SOFTMAX, A_SOFTMAX[4]], folder).records) == 4
    assert [recipe.train.seed for recipe in asked] == [0, 1]
    assert {recipe.data.source for recipe in asked} == {str(folder / "faces.tar")}
    assert {run_key(recipe) for recipe in asked} == {A_SOFTMAX[4].key(seed) for seed in (0, 1)}
    assert len(gather([A_SOFTMAX[4]], folder).records) == len(RecordFile(folder / RECORDS).records) - 4
    assert len(asked) == 2


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="subjects.npz: there is no such file; --data docs/results/losses has runs"):
        gather([SOFTMAX], tmp_path)
    np.savez_compressed(tmp_path / SUBJECTS, lfw=np.zeros((2, 3)), pairs=np.zeros(3))
    with pytest.raises(ValueError, match="no array of two rows named pairs"):
        read_subjects(tmp_path / SUBJECTS)
