"""CIFAR-10 items, on images that are not CIFAR-10: reading, settings, and records in one file."""

import json
import lzma
import random
import tarfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersphere.core.stored_array import StoredArray
from hypersphere.data import ArraySource, write_source
from hypersphere.training import RunRecord, Task
from hypersphere_papers.engine import result_file, runs
from hypersphere_papers.engine.cifar10 import open_objects
from hypersphere_papers.engine.evidence import settings_of
from hypersphere_papers.engine.objects import balanced, imbalanced
from hypersphere_papers.engine.record import Record
from hypersphere_papers.engine.record_folder import RunFiles
from hypersphere_papers.engine.run_plan import RunPlan
from hypersphere_papers.engine.runs import gather_runs
from hypersphere_papers.laboratory import Entry, Job, Result, RunOptions, load_catalogue, run_entry
from papers.tests.runs_on_record import RunsOnRecord
from tests.damage import damaged, flipped, read_files, write_files

NAMES = [f"class{number}" for number in range(10)]


def blobs(count: int, seed: int) -> ArraySource:
    """Ten classes, each of one colour under noise."""
    generator = np.random.default_rng(seed)
    labels = np.sort(np.arange(count) % 10)
    images = generator.integers(0, 40, (count, 32, 32, 3)) + 20 * labels[:, None, None, None] * np.array([1, 0, 1])
    return ArraySource(images.astype(np.uint8), labels, NAMES)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cifar")
    for split, count in (("train", 200), ("test", 50)):
        write_source(blobs(count, len(split)), folder / "tree" / split, "folder")
    with tarfile.open(folder / "cifar10.tar", "w") as tar:
        for split in ("train", "test"):
            tar.add(folder / "tree" / split, split)
    (folder / "cifar10.tar.xz").write_bytes(lzma.compress((folder / "cifar10.tar").read_bytes()))
    return folder


@pytest.mark.parametrize("name", ["tree", "cifar10.tar", "cifar10.tar.xz"])
def test_every_layout_is_read_and_kept(archive: Path, tmp_path: Path, name: str) -> None:
    train, test = open_objects(archive / name, tmp_path)
    assert (len(train), len(test), train.num_classes) == (200, 50, 10)
    assert (train.images == blobs(200, 5).images).all()
    assert test.labels.tolist() == [n // 5 for n in range(50)]
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", *[".npy"] * 4]


def test_images_of_another_size_are_resized_and_kept_beside_the_others(archive: Path, tmp_path: Path) -> None:
    train, test = open_objects(archive / "cifar10.tar", tmp_path, (16, 16))
    assert train.images.shape == (200, 16, 16, 3)
    assert test.images.shape == (50, 16, 16, 3)
    assert abs(train.images.mean() - blobs(200, 5).images.mean()) < 0.5
    assert open_objects(archive / "cifar10.tar", tmp_path)[0].images.shape == (200, 32, 32, 3)


def test_decoded_images_that_are_damaged_are_decoded_again(archive: Path, tmp_path: Path) -> None:
    path = archive / "cifar10.tar"
    sound = [part.images.copy() for part in open_objects(path, tmp_path)]
    files, chance = read_files(tmp_path), random.Random(0)
    for _ in range(8):
        what, changed = damaged(files, chance)
        write_files(tmp_path, changed)
        open_objects.cache_clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            again = open_objects(path, tmp_path)
        for part, images in zip(again, sound, strict=True):
            assert np.array_equal(part.images, images), what
    largest = max(files, key=lambda name: len(files[name]))
    write_files(tmp_path, {**files, largest: flipped(files[largest], 5000, 7)})
    open_objects.cache_clear()
    with pytest.warns(RuntimeWarning, match=rf"{largest}: damaged; the images are decoded again"):
        open_objects(path, tmp_path)


def test_what_is_no_cifar_is_refused(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is missing; expected CIFAR-10"):
        open_objects(tmp_path / "none.tar", tmp_path)
    (tmp_path / "cut.tar.xz").write_bytes((archive / "cifar10.tar.xz").read_bytes()[:300])
    with pytest.raises(ValueError, match=r"cut.tar.xz: no whole xz file"):
        open_objects(tmp_path / "cut.tar.xz", tmp_path)


def job(data: Path | None = None, epochs: int | None = None) -> Job:
    return Job(entry=load_catalogue()["largest-margins/table2"], data=data, epochs=epochs)


def test_settings_are_the_papers_but_for_net_and_length() -> None:
    recipe = imbalanced(job(), "long_tailed", 100.0, "t", "lm_softmax", "head.scale=5.0").recipe(1)
    assert (recipe.data.imbalance, recipe.data.imbalance_ratio, recipe.train.seed) == ("long_tailed", 100.0, 1)
    assert (recipe.train.batch_size, recipe.optimizer.weight_decay, recipe.optimizer.lr) == (128, 2e-4, 0.1)
    assert (recipe.head["prototype_norm"], recipe.augment.flip, recipe.augment.shift) == (0.577, 0.5, 1.0)
    even = balanced(job(), "t", "softmax").recipe(0)
    assert (even.train.batch_size, even.optimizer.weight_decay, even.train.steps) == (256, 1e-4, 11_760)
    assert recipe.schedule.warmup == even.schedule.warmup == 500
    assert "prototype_norm" not in even.head
    assert "prototype_norm" not in balanced(job(), "t", "cosface", "head.prototypes=simplex").recipe(0).head


def test_light_settings_differ_by_size_network_and_length_alone() -> None:
    even = balanced(job(), "t", "cosface", "head.scale=20.0", light=True)
    recipe, whole = even.recipe(0), balanced(job(), "t", "cosface", "head.scale=20.0").recipe(0)
    assert even.title == "small: t"
    assert (recipe.data.size, recipe.data.images_per_class, recipe.train.steps) == ((16, 16), 1000, 1600)
    assert (recipe.backbone["name"], recipe.augment.flip, recipe.augment.shift) == ("sfnet4", 0.5, 0.0)
    assert (recipe.head, recipe.optimizer, recipe.schedule) == (whole.head, whole.optimizer, whole.schedule)
    step = imbalanced(job(), "step", 100.0, "t", "lm_softmax", "head.scale=5.0", light=True).recipe(0)
    assert (step.data.images_per_class, step.data.imbalance, step.optimizer.weight_decay) == (2000, "step", 2e-4)
    assert (step.train.steps, step.train.batch_size, recipe.train.batch_size) == (3200, 128, 128)
    assert imbalanced(job(epochs=3), "step", 100.0, "t", "softmax", light=True).recipe(0).train.steps == 3 * 79


def test_epochs_are_those_of_the_images_that_are_left() -> None:
    steps = [imbalanced(job(epochs=200), kind, 10.0, "t", "softmax").recipe(0).train.steps for kind in KINDS]
    assert steps == [200 * 160, 200 * 215]  # 20,431 and 27,500 images in batches of 128
    assert balanced(job(epochs=200), "t", "softmax").recipe(0).train.steps == 200 * 196


def test_by_default_there_are_sixty_epochs_and_no_fewer_than_eight_thousand_steps() -> None:
    ratios = [(kind, ratio) for kind in KINDS for ratio in (100.0, 10.0)]
    steps = [imbalanced(job(), kind, ratio, "t", "softmax").recipe(0).train.steps for kind, ratio in ratios]
    assert steps == [8000, 60 * 160, 60 * 198, 60 * 215]


KINDS = ("long_tailed", "step")


def test_a_run_is_the_same_wherever_its_data_lie(tmp_path: Path) -> None:
    keys = {balanced(job(data), "t", "softmax").key(0) for data in (None, tmp_path / "a.tar", tmp_path / "b")}
    assert len(keys) == 1


def test_training_is_measured_and_put_on_record(archive: Path, tmp_path: Path) -> None:
    data = job(archive / "cifar10.tar")
    setting = imbalanced(data, "step", 10.0, "t", "cosface", "head.scale=5.0", "head.add.zero_centroid.weight=1.0")
    short = ("train.steps=4", "train.batch_size=16", "train.precision=float32", "backbone.name=cnn4", "backbone.dim=8")
    setting = replace(setting, overrides=(*setting.overrides, *short))
    gather_runs([setting], (0,), RunFiles(archive / "cifar10.tar", tmp_path))
    (record,) = RunsOnRecord(tmp_path / "records.jsonl").records.values()
    assert len(record.arrays["samples"]) == 50
    assert {"accuracy", "class margin", "sample margin", "train accuracy", "norm"} <= set(record.numbers)


def known(seed: int, better: float, *, lengths: bool) -> Record:
    """A record as a run leaves it; `better` moves all its numbers."""
    random = np.random.default_rng(seed)
    numbers = {"accuracy": 90 + better, "class margin": 80 + better, "sample margin": 0.5 + better / 10}
    numbers |= {"similarity": 0.8 + better / 10 + 0.001 * seed, "train accuracy": 99.0, "norm": 3.0}
    numbers |= {f"train {name}": numbers[name] for name in ("similarity", "sample margin")}
    counts = random.integers(1, 50, 80)
    arrays: dict[str, Any] = {"samples": random.random(400) < 0.5 + better / 4, "histogram similarity": counts}
    arrays |= {"histogram margin": counts, **({"lengths": 1 + random.random(2000) / 5} if lengths else {})}
    return Record("x", seed, 1.0, "a GPU", numbers=numbers, arrays=arrays)


def entry(name: str) -> Entry:
    return load_catalogue()[f"largest-margins/{name}"]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seeds on CIFAR-10 and four on MNIST; what has a regulariser is better, and some cells are missing."""
    folder = tmp_path_factory.mktemp("records")
    (folder / "records.jsonl").touch()
    lines = RunsOnRecord(folder / "records.jsonl")
    for name, epochs in (("fig1", 100), ("fig4", None), ("fig8", None), ("table1", 100)):
        for setting in settings_of(Job(entry=entry(name), data=folder, epochs=epochs)):
            if ("ArcFace" in setting.title and setting.data == "mnist") or "1 R_sm" in setting.title:
                continue
            better = 0.9 * any(word in " ".join(setting.overrides) for word in ("sample_margin", "zero_centroid"))
            for seed in range(3 if setting.data == "cifar10" else 4):
                lines.add(setting.key(seed), known(seed, better, lengths=setting.measure == "lengths"))
    return folder


def judged(name: str, records: Path, folder: Path, **options: Any) -> tuple[Result, list[str]]:
    said: list[str] = []
    result = run_entry(entry(name), folder, RunOptions(data=records, announce=said.append, **options))
    return result, said


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures, which take most of the time."""
    monkeypatch.setattr(result_file, "is_installed", lambda name: False)


@pytest.mark.usefixtures("undrawn")
def test_items_are_judged_from_records_alone(records: Path, tmp_path: Path) -> None:
    result, said = judged("fig4", records, tmp_path, seeds=(0, 1, 2))
    assert "3 of 15 runs are not on record; with cifar10.tar in" in said[0]
    verdicts = {finding.what: finding.verdict for finding in result.findings if finding.verdict}
    assert verdicts["sample margin is larger with 0.5 R_sm"] == "held"
    assert verdicts["small: sample margin is larger with 1 R_sm"] == "undecided"
    assert len(verdicts) == 4
    result, said = judged("fig8", records, tmp_path, seeds=(0, 1, 2))
    assert not any("on record" in line for line in said)
    assert result.verdict() == "held"


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("half", "verdict"), [(0.9, "held"), (-0.9, "undecided")])
def test_small_networks_judge_a_whole_weight_where_they_agree_about_half(
    tmp_path: Path, half: float, verdict: str
) -> None:
    (tmp_path / "records.jsonl").touch()
    lines = RunsOnRecord(tmp_path / "records.jsonl")
    for setting in settings_of(Job(entry=entry("fig4"), data=tmp_path)):
        better = 0.9 if "R_sm" in setting.title else 0.0
        if setting.title.startswith("small: ") and setting.title.endswith("+ 0.5 R_sm"):
            better = half
        for seed in range(3):
            lines.add(setting.key(seed), known(seed, better, lengths=False))
    result, _ = judged("fig4", tmp_path, tmp_path / "out", seeds=(0, 1, 2))
    found = {finding.what: finding for finding in result.findings if finding.verdict}
    assert found["similarity is larger with 0.5 R_sm"].verdict == "held"
    whole = found["small: similarity is larger with 1 R_sm"]
    assert (whole.verdict, whole.alone) == (verdict, "held" if verdict == "undecided" else None)


@pytest.mark.usefixtures("undrawn")
def test_small_networks_are_judged_by_the_images_they_fit(records: Path, tmp_path: Path) -> None:
    """Test images, of which they have few right, would contradict here."""
    small = [s for s in settings_of(Job(entry=entry("fig8"), data=records)) if s.title.startswith("small: ")]
    (tmp_path / "records.jsonl").write_bytes((records / "records.jsonl").read_bytes())
    lines = RunsOnRecord(tmp_path / "records.jsonl")
    for setting in small:
        for seed in range(3):
            record = lines.records[setting.key(seed)]
            lines.add(setting.key(seed), replace(record, numbers={**record.numbers, "similarity": 0.1 * seed}))
    result, _ = judged("fig8", tmp_path, tmp_path / "out", seeds=(0, 1, 2))
    said = [finding for finding in result.findings if finding.verdict and finding.what.startswith("small: ")]
    assert [finding.verdict for finding in said] == ["held"] * 3
    assert "small: long-tailed 10, LM-Softmax: lambda = 1 raises the similarity" in [f.what for f in said]
    shown = {f.what for f in result.findings if f.what.startswith(small[0].title)}
    assert shown == {f"{small[0].title}: mean similarity of training images"}


@pytest.mark.usefixtures("undrawn")
def test_prototypes_that_could_not_turn_are_no_test_of_accuracy(tmp_path: Path) -> None:
    """R_w's first steps may throw short prototypes far out: then they keep the place where they came to lie."""
    (tmp_path / "records.jsonl").touch()
    lines = RunsOnRecord(tmp_path / "records.jsonl")
    for setting in settings_of(Job(entry=entry("fig7"), data=tmp_path)):
        centred = "zero_centroid" in " ".join(setting.overrides)
        for seed in range(3):
            record = known(seed, -0.9 * centred, lengths=False)
            spread = 60.0 if centred and "CosFace" in setting.title else 3.0
            lines.add(setting.key(seed), replace(record, numbers={**record.numbers, "logit spread": spread}))
    result, _ = judged("fig7", tmp_path, tmp_path / "out", seeds=(0, 1, 2))
    accuracy = next(f for f in result.findings if f.what.startswith("long-tailed 100: R_w with lambda = 5 raises"))
    assert accuracy.ours.count("contradicted") == 4
    assert accuracy.ours.startswith("CosFace")
    assert ", undecided; ArcFace" in accuracy.ours
    assert "made the prototypes 20 times longer" in accuracy.note
    margins = [f.verdict for f in result.findings if "raises the class margin" in f.what]
    assert margins == ["contradicted"] * 11  # LM-Softmax of long-tailed 100 at both sizes


@pytest.mark.usefixtures("undrawn")
def test_tables_have_what_there_is_of_both_sets(records: Path, tmp_path: Path) -> None:
    result, _ = judged("table1", records, tmp_path, seeds=(0, 1, 2, 3), epochs=100)
    found = {finding.what: finding for finding in result.findings}
    raised = [found[f"{data}: 0.5 R_sm raises the class margin of every loss"] for data in ("CIFAR-10", "MNIST")]
    assert [(each.verdict, each.ours) for each in raised] == [
        ("held", "held in 10 of 10"),
        ("undecided", "held in 7 of 7"),
    ]
    assert (raised[1].alone, raised[1].note) == ("held", "14 of 20 rows were trained")
    assert found["CIFAR-10: without it the class margin falls as s grows"].verdict == "undecided"
    assert found["CE, CIFAR-10 acc"].paper == "94.12"
    assert "ArcFace (s = 10), MNIST acc" not in found
    assert any("rows were trained" in note for note in result.notes)
    small = found["small: CIFAR-10: 0.5 R_sm raises the sample margin of every loss"]
    assert (small.verdict, small.ours) == ("held", "held in 10 of 10")
    assert found["small: CE: mean sample margin of training images"].paper == "CIFAR-10 m_samp 0.6203"
    result, _ = judged("fig1", records, tmp_path, seeds=(0, 1, 2, 3), epochs=100)
    assert [finding.verdict for finding in result.findings] == ["held"] * 4


def test_what_is_missing_is_trained_where_the_images_lie_beside(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    (folder / "cifar10.tar").write_bytes((archive / "cifar10.tar").read_bytes())
    (folder / "records.jsonl").touch()
    first, second, *_ = settings_of(Job(entry=entry("fig4"), data=folder))
    RunsOnRecord(folder / "records.jsonl").add(first.key(0), known(0, 0.0, lengths=False))
    trained: list[str] = []

    def train(tasks: Sequence[Task], *_: object, **__: object) -> Iterator[RunRecord]:
        for task in tasks:
            trained.append(task.recipe.data.source)
            yield RunRecord(task.cell, 0, task.key, numbers={"accuracy": 90.0})

    monkeypatch.setattr(runs, "run_tasks", train)
    monkeypatch.setattr(RunPlan, "_tried", lambda *_: 0.1)
    got = gather_runs([first, second], (0,), RunFiles(folder, tmp_path))
    assert trained == [str(folder / "cifar10.tar")]
    assert set(got.records) == set(RunsOnRecord(folder / "records.jsonl").records) == {first.key(0), second.key(0)}


def test_items_ask_for_every_run_on_record() -> None:
    """A recipe or setting that changes would leave them lying there unused."""
    folder = Path(__file__).parents[1] / "records" / "cifar"
    names: dict[str, tuple[int | None, ...]] = {
        f"largest-margins/table{number}": (None, 100) for number in (1, 2, 5, 6, 7)
    }
    names |= {f"largest-margins/fig{number}": (None,) for number in (1, 2, 4, 5, 9, 10, 11)}
    names |= {f"sphereface/fig{number}": (None,) for number in (8, 11, 12)}
    settings = [
        setting
        for name, lengths in names.items()
        for epochs in lengths
        for setting in settings_of(Job(entry=load_catalogue()[name], data=folder, epochs=epochs))
    ]
    records = RunsOnRecord(folder / "records.jsonl").records
    titles = {record.title for record in records.values()}
    assert set(records) <= {s.key(seed) for s in settings if s.title in titles for seed in range(5)}


@pytest.mark.parametrize(
    "array", [np.array([True, False, True]), np.arange(6).reshape(2, 3), np.array([[1.5]], np.float32)]
)
def test_arrays_are_stored_as_they_are(array: np.ndarray) -> None:
    again = StoredArray.of(array).array()
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    assert (again == array).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "object"}, "an array of object"),
        ({"shape": [4]}, "takes 1"),
        ({"shape": [2**40]}, "more than"),
        ({"data": "????"}, "cannot be unpacked"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "records.jsonl"
    RunsOnRecord(path).add("one", Record("t", 0, 1.0, arrays={"a": np.zeros(24, bool)}))
    table = json.loads(path.read_text())
    del table["seal"]
    table["arrays"]["a"] |= change
    path.write_text(json.dumps(table) + "\n")
    with pytest.raises(ValueError, match=rf"records.jsonl, line 1: no record of a run \(.*{message}"):
        RunsOnRecord(path)
