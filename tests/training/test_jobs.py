"""Comparisons: runs on record, one after another and several at once."""

import json
import multiprocessing
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.multiprocessing

from hypersphere.core.config import digest
from hypersphere.data import write_folder
from hypersphere.distributed import World
from hypersphere.evaluation import verify_pairs
from hypersphere.pocket import PocketFaces
from hypersphere.training import (
    RecordFile,
    RunRecord,
    SetScore,
    Task,
    Trained,
    UnseenPairs,
    compare_runs,
    load_recipe,
    run_key,
    run_tasks,
    validation_sets,
)
from hypersphere.training.jobs import same_first_stages
from hypersphere.training.run_records import former_key
from hypersphere.training.teacher import TeacherSettings
from hypersphere.training.training_data import training_source
from tests.damage import flipped
from tests.heads.shard_worker import warm_context
from tests.training.small import RECIPE


def tasks_of(tmp_path: Path, *settings: str) -> list[Task]:
    path = tmp_path / "small.toml"
    path.write_text(RECIPE)
    fixed = ["data.identities=10", "data.validation.identities=4", "data.validation.count=40", "train.steps=6"]
    made = []
    for seed in (0, 1):
        recipe = load_recipe(path, [*fixed, *settings, f"train.seed={seed}"])
        made.append(Task("cell", recipe, tmp_path / "out" / digest(recipe)))
    return made


def measured(trained: Trained, sets: Sequence[UnseenPairs], device: str) -> dict[str, Any]:
    """What a caller measures besides: a number and an array."""
    (held,) = sets
    embeddings = held.embeddings(trained.backbone, device)
    return {"people": float(len(set(held.people_on_images))), "norms": embeddings.norm(dim=1).numpy()}


def without_time(record: RunRecord) -> dict[str, object]:
    return {**record.__dict__, "seconds": None, "machine": None}


def test_a_record_has_the_fit_and_every_decision(tmp_path: Path) -> None:
    (record,) = run_tasks(tasks_of(tmp_path)[:1], World(), {})
    assert record.steps == 6
    assert record.train_accuracy is not None
    assert 0 <= record.train_accuracy <= 1
    assert record.norm is not None
    assert record.norm > 0
    score = record.scores["held-out identities"]
    assert score.decisions(40).mean() == pytest.approx(score.accuracy)
    assert score.low <= score.accuracy <= score.high
    assert score.tar.keys() == set()  # 20 impostor pairs tell nothing at a FAR of 1e-2


def test_a_pair_loss_alone_has_no_share_of_training_images_in_their_class(tmp_path: Path) -> None:
    """It trains no prototypes: a share would call every such run unfit."""
    task, _ = tasks_of(tmp_path, "head.name=triplet", "train.sampler=identity", "train.images_per_identity=2")
    (record,) = run_tasks([task], World(), {})
    assert not record.stopped
    assert record.train_accuracy is None
    assert record.norm is not None
    assert record.scores


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_caller_measures_is_on_record_with_the_run(tmp_path: Path, jobs: int) -> None:
    task = replace(tasks_of(tmp_path, "train.steps=1")[0], measure=measured, key="by its measure")
    (record,) = run_tasks([task], World(), {}, jobs=jobs)
    assert record.recipe == "by its measure"
    file = RecordFile(tmp_path / "runs.jsonl")
    file.add(record)
    again = RecordFile(file.path).records[record.recipe]
    assert again.numbers == {"people": 4.0}
    assert (again.arrays["norms"].array() > 0).all()
    assert np.array_equal(again.arrays["norms"].array(), record.arrays["norms"].array())
    file.add(replace(record, numbers={}, arrays={}))
    assert '"arrays"' not in file.path.read_text()


def test_decisions_come_back_from_their_bits() -> None:
    rng = np.random.default_rng(0)
    same = np.arange(100) % 2 == 0
    result = verify_pairs(rng.normal(size=100) + same, same)
    assert np.array_equal(SetScore.of([result]).decisions(100), result.right)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_first_stage_that_runs_share_is_trained_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    """The plain run trains it, wherever it stands; the others copy its folder, and are what they are on their own."""
    monkeypatch.setattr(torch.multiprocessing, "get_context", lambda _: warm_context())
    plain, other = tasks_of(tmp_path)
    tuned = [tasks_of(tmp_path, "second.train.steps=3", f"second.optimizer.lr={lr}")[0] for lr in (0.01, 0.001)]
    tasks = [tuned[0], plain, tuned[1], other]
    assert same_first_stages([task.recipe for task in tasks]) == [1, None, 1, None]
    assert same_first_stages([task.recipe for task in [*tuned, other]]) == [None, 0, None]
    heard: dict[int, tuple[int, int]] = {}
    found = run_tasks(
        tasks, World(), {}, jobs=jobs, report=lambda number, done, total: heard.update({number: (done, total)})
    )
    together = {record.recipe: record for record in found}
    assert heard == {0: (3, 3), 1: (6, 6), 2: (3, 3), 3: (6, 6)}
    for task in tuned:
        (alone,) = run_tasks([replace(task, folder=tmp_path / "alone" / task.folder.name)], World(), {}, jobs=jobs)
        assert without_time(together[run_key(task.recipe)]) == without_time(alone)
    assert len({record.norm for record in together.values()}) == 4


@pytest.fixture
def threads_of_two_jobs() -> Iterator[None]:
    """As many threads as each of two jobs has: a sum shared out among more of them may round otherwise."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads_of_two_jobs")
@pytest.mark.parametrize("start", ["forkserver", pytest.param("spawn", marks=pytest.mark.slow)])
def test_several_runs_at_once_are_the_same_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str) -> None:
    """Processes that are started anew, as users' are, spend seconds on imports; tasks and records travel alike."""
    if start == "forkserver":
        monkeypatch.setattr(torch.multiprocessing, "get_context", lambda _: warm_context())
    one = list(run_tasks(tasks_of(tmp_path, "data.device=cpu"), World(), {}))
    (tmp_path / "again").mkdir()
    heard: list[tuple[int, int, int]] = []
    several = list(
        run_tasks(
            tasks_of(tmp_path / "again", "data.device=cpu"),
            World(),
            {},
            jobs=2,
            report=lambda number, done, total: heard.append((number, done, total)),
        )
    )
    ordered = sorted(several, key=lambda record: record.seed)
    assert [without_time(record) for record in ordered] == [without_time(record) for record in one]
    assert {(number, total) for number, _, total in heard} == {(0, 6), (1, 6)}


def test_every_run_is_scored_with_its_own_normalisation(tmp_path: Path) -> None:
    first, second = tasks_of(tmp_path)
    other = replace(second.recipe, augment=replace(second.recipe.augment, mean=0.2, std=0.1))
    second = replace(second, recipe=other)
    together = list(run_tasks([first, second], World(), {}))
    alone = list(run_tasks([second], World(), {}))
    assert without_time(together[1]) == without_time(alone[0])


def test_images_that_cannot_be_read_are_left_out_of_every_run(tmp_path: Path) -> None:
    write_folder(PocketFaces(num_identities=10, images_per_identity=8, size=(16, 16)), tmp_path / "faces")
    settings = [f"data.source={tmp_path / 'faces'}", "data.unreadable=0.1", "data.device=cpu"]
    tasks = tasks_of(tmp_path, *settings)
    Path(training_source(tasks[0].recipe.data).describe(3)).write_bytes(b"none")
    with pytest.warns(RuntimeWarning, match="1 of 48 images cannot be read"):
        records = list(run_tasks(tasks, World(), {}))
    assert [record.steps for record in records] == [6, 6]
    assert "1 of 48" in (tmp_path / "out" / "unreadable.txt").read_text()


def test_a_comparison_that_is_ended_ends_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.multiprocessing, "get_context", lambda _: warm_context())
    tasks = tasks_of(tmp_path, "train.steps=100000", "train.checkpoint_every=5")

    def stop(number: int, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_tasks(tasks, World(), {}, jobs=2, report=stop))
    assert multiprocessing.active_children() == []
    assert not list((tmp_path / "out").rglob("*.partial"))


def test_two_cells_are_compared_over_people_and_seeds(tmp_path: Path) -> None:
    tasks = tasks_of(tmp_path)
    records = list(run_tasks(tasks, World(), {}))
    (pairs,) = validation_sets(tasks[0].recipe)
    gain = compare_runs(records[:1], records[1:], pairs).estimate
    first, second = (record.scores[pairs.title].accuracy for record in records)
    assert gain.value == pytest.approx(second - first)
    assert gain.low <= gain.value <= gain.high


def test_the_key_of_a_run_does_not_tell_where_its_data_lie(tmp_path: Path) -> None:
    recipe = tasks_of(tmp_path)[0].recipe

    def key(**changes: object) -> str:
        return run_key(replace(recipe, data=replace(recipe.data, **changes)))  # type: ignore[arg-type]

    assert key(source="a/faces.tar") == key(source="b/c/faces.tar", device="cpu")
    assert key(source="a/faces.tar") != key(source="a/other.tar")
    here, there, other = (
        replace(recipe.data.validation, pairs=pairs, images=images)
        for pairs, images in (("a/p.txt", "a/i.tar"), ("b/p.txt", "b/i.tar"), ("a/p.txt", "a/j.tar"))
    )
    assert key(validation=here) == key(validation=there) != key(validation=other)
    assert run_key(replace(recipe, train=replace(recipe.train, seed=5))) != run_key(recipe)
    taught, moved, another = (
        run_key(replace(recipe, teacher=TeacherSettings(model=model))) for model in ("a/t.onnx", "b/t.onnx", "a/u.onnx")
    )
    assert taught == moved
    assert taught not in (another, run_key(recipe))
    assert run_key(replace(recipe, about="another sentence")) == run_key(recipe)
    assert run_key(recipe) == f"2-{former_key(replace(recipe, about=''))}"
    assert former_key(replace(recipe, about="another sentence")) != former_key(recipe)
    file = RecordFile(tmp_path / "old.jsonl")
    file.add(RunRecord("filed by an earlier version", 0, former_key(recipe)))
    found = RecordFile(file.path).find(recipe)
    assert found is not None
    assert found.cell == "filed by an earlier version"
    assert RecordFile(file.path).find(replace(recipe, about="another sentence")) is None


def test_a_run_that_stops_itself_is_on_record(tmp_path: Path) -> None:
    (record,) = run_tasks(tasks_of(tmp_path, "optimizer.lr=1e20")[:1], World(), {})
    assert "lower the learning rate" in record.stopped
    assert record.scores == {}


def test_records_are_kept_in_one_file(tmp_path: Path) -> None:
    score = SetScore(accuracy=0.9, low=0.8, high=1.0, eer=0.1, tar={"0.01": 0.5}, right="gA==")
    file = RecordFile(tmp_path / "new" / "results.jsonl")
    file.add(RunRecord("a", 0, "x", scores={"lfw": score}))
    file.add(RunRecord("a", 1, "y", stopped="no"))
    file.add(RunRecord("a", 0, "x", scores={"lfw": score}, steps=5))
    again = RecordFile(tmp_path / "new" / "results.jsonl").records
    assert list(again) == ["x", "y"]
    assert again["x"] == RunRecord("a", 0, "x", scores={"lfw": score}, steps=5)


@pytest.mark.parametrize("line", ["{", "null", "{}", '{"scores": {"a": 5}}', "[" * 100_000])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(ValueError, match=r"results\.jsonl, line 1: no record of a run"):
        RecordFile(path)


def test_values_of_other_kinds_are_named(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    score = SetScore(accuracy=0.9, low=0.8, high=1.0, eer=0.1, tar={"0.01": 0.5}, right="gA==")
    RecordFile(path).add(RunRecord("a", 0, "x", scores={"lfw": score}))
    table = json.loads(path.read_bytes())
    del table["seal"]  # as earlier versions wrote it
    sound = json.dumps(table).encode()
    path.write_bytes(sound)
    assert list(RecordFile(path).records) == ["x"]
    for old, new, why in (
        (b'"x"', b'["x"]', r"line 1: no record of a run \(recipe="),
        (b'"gA=="', b'"g"', "line 1: no record of a run .*right='g' must be in base 64"),
        (b'"gA=="', b"5", "line 1: no record of a run .*right=5 must be of type str"),
        (b'"a"', b'"\xff"', "not UTF-8"),
    ):
        path.write_bytes(sound.replace(old, new, 1))
        with pytest.raises(ValueError, match=rf"results\.jsonl.*{why}"):
            RecordFile(path)
    with pytest.raises(ValueError, match="1 bytes of decisions; 9 pairs take 2"):
        score.decisions(9)


def test_no_bit_of_a_record_changes_in_silence(tmp_path: Path) -> None:
    """Before, another accuracy was believed; a run whose line is gone is run again."""
    path = tmp_path / "results.jsonl"
    score = SetScore(accuracy=0.9, low=0.8, high=1.0, eer=0.1, tar={"0.01": 0.5}, right="gA==")
    for seed in range(2):
        RecordFile(path).add(RunRecord("a", seed, f"x{seed}", scores={"lfw": score}, steps=5, seconds=1.5))
    known, data, chance = RecordFile(path).records, path.read_bytes(), random.Random(0)
    for _ in range(200):
        place = chance.randrange(len(data))
        path.write_bytes(data[:place] if chance.random() < 0.3 else flipped(data, place, chance.randrange(8)))
        try:
            records = RecordFile(path).records
        except ValueError as error:
            if "results.jsonl" not in str(error):
                raise
        else:
            assert {key: known[key] for key in records} == records
    path.write_bytes(data.replace(b"0.9", b"0.8", 1))
    with pytest.raises(ValueError, match=r"line 1: no record of a run \(damaged.*; remove the line to run it again"):
        RecordFile(path)


def test_lines_of_earlier_versions_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    old = '{"cell": "a", "seed": 0,  "recipe": "x"}\n'
    path.write_text(old)
    RecordFile(path).add(RunRecord("a", 1, "y"))
    assert path.read_text().startswith(old)
    assert list(RecordFile(path).records) == ["x", "y"]


def test_runs_of_several_processes_are_not_trained_side_by_side(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="jobs=2"):
        list(run_tasks(tasks_of(tmp_path), World(0, 2, torch.device("cpu")), {}, jobs=2))
