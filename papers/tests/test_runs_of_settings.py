"""Runs: each once, put on record, taken up from there; one that breaks is reported and tried again."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hypersphere.data import ArraySource
from hypersphere.geometry import normalize
from hypersphere.heads import create_head
from hypersphere.training import RecordFile
from hypersphere.training.recipe import DataSettings
from hypersphere_papers.engine.class_runs import class_images
from hypersphere_papers.engine.measure import measure_classes
from hypersphere_papers.engine.record import Record
from hypersphere_papers.engine.record_folder import RunFiles
from hypersphere_papers.engine.runs import Gathered, gather_runs
from hypersphere_papers.engine.setting import Setting, unique
from papers.tests.bars import classifier, write_bars
from tests.heads.shard_worker import warm_context

ONE, TWO = classifier("one", "softmax"), classifier("two", "normface")


@pytest.fixture
def tiny(tmp_path: Path) -> tuple[str, ...]:
    """Two steps on thirty images, tested on twenty."""
    return f"data.source={write_bars(tmp_path / 'bars.npz', 30, 20)}", "train.steps=2", "train.batch_size=4"


def gather(settings: list[Setting], seeds: tuple[int, ...], cache: Path, **options: Any) -> Gathered:
    return gather_runs(settings, seeds, RunFiles(None, cache), **options)


def run_of(setting: Setting, cache: Path) -> Record:
    """Train a setting with seed 0."""
    return gather([setting], (0,), cache).records[setting.key(0)]


class Bar:
    """A `ProgressFactory` and its bar, which keeps what it is told and may stop at the first step."""

    def __init__(self, stop: bool = False) -> None:
        self.shown: list[tuple[int, int]] = []
        self.stop = stop

    @contextmanager
    def make(self, title: str, unit: str) -> Iterator["Bar"]:
        yield self

    def begin(self, done: int) -> None:
        pass

    def __call__(self, done: int, total: int, note: str = "") -> None:
        self.shown.append((done, total))
        if self.stop:
            raise KeyboardInterrupt


def test_a_run_is_made_once(tmp_path: Path, tiny: tuple[str, ...]) -> None:
    one, two = ONE.but("one", *tiny), TWO.but("two", *tiny)
    bar, said = Bar(), list[str]()
    got = gather([one, replace(one, name="again"), two], (0, 1), tmp_path, progress=bar.make, announce=said.append)
    assert (len(got.records), got.failures) == (4, {})
    assert said[0] == "4 runs to train, 8 steps in all"
    assert said[1].startswith("about ")
    assert said[2:] == ["4 runs put on record, 0 failed"]
    assert bar.shown[-1] == (8, 8)
    assert bar.shown == sorted(bar.shown)
    lines = RecordFile(tmp_path / "records.jsonl").records
    assert set(lines) == {setting.key(seed) for setting in (one, two) for seed in (0, 1)}
    more: list[str] = []
    again = gather([one, two], (0, 1, 2), tmp_path, announce=more.append)
    assert more[0] == "2 runs to train, 4 steps in all (4 more are on record)"
    assert again.records[one.key(1)].numbers == got.records[one.key(1)].numbers
    assert again.records[one.key(1)].seconds == got.records[one.key(1)].seconds


def test_a_run_that_breaks_is_reported_and_tried_again(tmp_path: Path, tiny: tuple[str, ...]) -> None:
    broken, two = classifier("one", "no_such_loss", *tiny), TWO.but("two", *tiny)
    bar, said = Bar(), list[str]()
    got = gather([broken, two], (0,), tmp_path, progress=bar.make, announce=said.append)
    assert list(got.failures) == [broken.key(0)]
    assert got.failures[broken.key(0)].startswith("one, seed 0: ValueError: ")
    assert said[-1] == f"failed: {got.failures[broken.key(0)]}"
    assert bar.shown[-1] == (4, 4)  # what a broken run leaves out is counted too
    assert set(got.records) == {two.key(0)}
    assert list(gather([broken, two], (0,), tmp_path).failures) == [broken.key(0)]


def test_the_key_is_of_what_matters() -> None:
    assert ONE.key(0) == replace(ONE, name="other title", small=True).key(0) == ONE.but("x", "about=other").key(0)
    assert ONE.key(0) == ONE.but("x", "data.source=elsewhere/mnist.npz").key(0)
    keys = {
        ONE.key(0),
        ONE.key(1),
        TWO.key(0),
        ONE.measured_by("features").key(0),
        ONE.but("x", "head.bias=false").key(0),
    }
    assert len(keys) == 5
    assert all(key.startswith("2-") for key in keys)


def test_seeds_come_one_by_one_and_large_networks_first() -> None:
    big = classifier("big", "softmax", "backbone.name=lightcnn9")
    order = [(each.title, seed) for each, seed in unique([ONE, big], (0, 1)).values()]
    assert order == [("big", 0), ("one", 0), ("big", 1), ("one", 1)]


def test_images_are_those_that_the_recipe_asks_for(tmp_path: Path) -> None:
    path = write_bars(tmp_path / "bars.npz", 80, 20)
    data = DataSettings(source=str(path), grey=True, size=(28, 28), imbalance="step", imbalance_ratio=2.0)
    train, test = class_images(data, tmp_path)
    assert np.bincount(train.labels).tolist() == [8] * 5 + [4] * 5
    assert np.bincount(test.labels).tolist() == [2] * 10


def test_classes_are_measured_as_plain_loops_do() -> None:
    head = create_head("softmax", dim=3, num_classes=4)
    with torch.no_grad():
        head.weight.copy_(torch.randn(4, 3, generator=torch.Generator().manual_seed(1)))
        head.objective.bias.copy_(torch.tensor([0.0, 3.0, 0.0, -1.0]))
    source = ArraySource(np.zeros((20, 16, 16, 3), np.uint8), np.arange(20) % 4)
    vectors = torch.randn(20, 3, generator=torch.Generator().manual_seed(2))
    numbers, arrays = measure_classes(lambda _: vectors, head, source)
    x, w = vectors.double(), head.weight.detach().double()
    right, own, margins = [], [], []
    bias = head.objective.bias.detach().double()
    for i, label in enumerate(source.labels):
        cosines = [float(x[i] @ w[c] / x[i].norm() / w[c].norm()) for c in range(4)]
        logits = [float(x[i] @ w[c] + bias[c]) for c in range(4)]
        right.append(int(np.argmax(logits)) == label)
        own.append(cosines[label])
        margins.append(cosines[label] - max(c for k, c in enumerate(cosines) if k != label))
    assert arrays["samples"].tolist() == right
    assert numbers["similarity"] == pytest.approx(np.mean(own), abs=1e-6)
    assert numbers["sample margin"] == pytest.approx(np.mean(margins), abs=1e-6)
    angles = [float(normalize(w[i : i + 1]) @ normalize(w[j : j + 1]).T) for i in range(4) for j in range(i)]
    assert numbers["class margin"] == pytest.approx(np.degrees(np.arccos(max(angles))), abs=1e-4)


def test_a_real_run_of_each_measure(tmp_path: Path, tiny: tuple[str, ...]) -> None:
    record = run_of(classifier("c", "cosface", *tiny, "train.checkpoint_every=1"), tmp_path)
    assert record.arrays["history"][:, 0].tolist() == [1, 2]
    assert len(record.arrays["samples"]) == 20
    assert {"accuracy", "sample margin", "class margin", "train sample margin", "norm"} <= set(record.numbers)
    assert 0 <= record.numbers["train accuracy"] <= 100
    drawn = run_of(classifier("f", "sphereface2", *tiny, "backbone.dim=2").measured_by("features"), tmp_path)
    assert (drawn.arrays["features"].shape, drawn.arrays["new features"].shape) == ((30, 2), (20, 2))
    assert drawn.arrays["bias"].shape == (1,)
    lengths = run_of(classifier("l", "softmax", *tiny).measured_by("lengths"), tmp_path).arrays["lengths"]
    assert lengths.shape == (2,)
    assert (lengths >= 1).all()


def test_the_same_run_is_the_same_record(tmp_path: Path, tiny: tuple[str, ...]) -> None:
    one, two = (run_of(classifier("p", "softmax", *tiny), tmp_path / name) for name in "ab")
    assert one.numbers == two.numbers


def test_a_collapse_is_a_record(tmp_path: Path, tiny: tuple[str, ...]) -> None:
    wild = classifier("wild", "softmax", *tiny, "optimizer.name=sgd", "optimizer.lr=1e30", "train.log_every=1")
    record = run_of(wild, tmp_path)
    assert "the loss is" in record.stopped
    assert not record.numbers


@pytest.mark.slow
def test_several_processes(tmp_path: Path, tiny: tuple[str, ...]) -> None:
    heads = (("a", "softmax"), ("b", "no_such_loss"), ("c", "cosface"))
    settings = [classifier(name, head, *tiny, "train.checkpoint_every=1") for name, head in heads]
    bar = Bar()
    got = gather(settings, (0,), tmp_path, jobs=2, progress=bar.make)
    assert bar.shown[-1] == (6, 6)
    assert len(got.records) == 2
    assert all(record.arrays["history"].shape == (2, 4) for record in got.records.values())
    assert "no_such_loss" in next(iter(got.failures.values()))


def test_processes_end_with_what_asked_for_them(
    tmp_path: Path, tiny: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.multiprocessing, "get_context", lambda _: warm_context())
    settings = [classifier(name, "cosface", *tiny, "train.steps=1000000") for name in "ab"]
    with pytest.raises(KeyboardInterrupt):
        gather(settings, (0, 1), tmp_path, jobs=2, progress=Bar(stop=True).make)
    assert multiprocessing.active_children() == []
    assert not list(tmp_path.rglob("*.partial"))
