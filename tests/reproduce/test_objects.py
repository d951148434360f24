"""CIFAR-10 items, on images that are not CIFAR-10: reading, settings, and records in one file."""

import json
import lzma
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hypersphere.data import ArraySource, write_source
from hypersphere.reproduce import Job, load_catalogue
from hypersphere.reproduce.experiment.cifar10 import open_objects
from hypersphere.reproduce.experiment.objects import balanced, imbalanced
from hypersphere.reproduce.experiment.record import Record
from hypersphere.reproduce.experiment.record_lines import RecordLines, StoredArray
from hypersphere.reproduce.experiment.run import train_and_measure

NAMES = [f"class{number}" for number in range(10)]


def blobs(count: int, seed: int) -> ArraySource:
    """Ten classes, each of one colour under noise."""
    random = np.random.default_rng(seed)
    labels = np.sort(np.arange(count) % 10)
    images = random.integers(0, 40, (count, 32, 32, 3)) + 20 * labels[:, None, None, None] * np.array([1, 0, 1])
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
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".npy"] * 4


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
    assert (even.train.batch_size, even.optimizer.weight_decay, even.train.steps) == (256, 1e-4, 5880)
    assert "prototype_norm" not in even.head
    assert "prototype_norm" not in balanced(job(), "t", "cosface", "head.prototypes=simplex").recipe(0).head


def test_epochs_are_those_of_the_images_that_are_left() -> None:
    steps = [imbalanced(job(epochs=200), kind, 10.0, "t", "softmax").recipe(0).train.steps for kind in KINDS]
    assert steps == [200 * 160, 200 * 215]  # 20,431 and 27,500 images in batches of 128
    assert balanced(job(epochs=200), "t", "softmax").recipe(0).train.steps == 200 * 196


KINDS = ("long_tailed", "step")


def test_a_run_is_the_same_wherever_its_data_lie(tmp_path: Path) -> None:
    keys = {balanced(job(data), "t", "softmax").key(0) for data in (None, tmp_path / "a.tar", tmp_path / "b")}
    assert len(keys) == 1


def test_training_is_measured_and_put_on_record(archive: Path, tmp_path: Path) -> None:
    data = job(archive / "cifar10.tar")
    setting = imbalanced(data, "step", 10.0, "t", "cosface", "head.scale=5.0", "head.add.zero_centroid.weight=1.0")
    short = ("train.steps=4", "train.batch_size=16", "train.precision=float32", "backbone.name=cnn4", "backbone.dim=8")
    setting = replace(setting, overrides=(*setting.overrides, *short))
    record = train_and_measure(setting, 0, tmp_path, "cpu", lambda steps: None)
    assert len(record.arrays["samples"]) == 50
    assert {"accuracy", "class margin", "sample margin", "train accuracy", "norm"} <= set(record.numbers)
    path = tmp_path / "results.jsonl"
    RecordLines(path).add("one", record)
    lines = RecordLines(path)
    lines.add("two", Record("t", 1, 2.0, stopped="the loss is nan"))
    one, two = RecordLines(path).records.values()
    assert one.numbers == record.numbers
    assert all((one.arrays[name] == array).all() for name, array in record.arrays.items())
    assert two.stopped == "the loss is nan"
    assert len(path.read_text().splitlines()) == 2


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
    path = tmp_path / "results.jsonl"
    RecordLines(path).add("one", Record("t", 0, 1.0, arrays={"a": np.zeros(24, bool)}))
    table = json.loads(path.read_text())
    table["arrays"]["a"] |= change
    path.write_text(json.dumps(table) + "\n")
    with pytest.raises(ValueError, match=rf"results.jsonl, line 1: no record of a run \(.*{message}"):
        RecordLines(path)
