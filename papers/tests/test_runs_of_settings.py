"""Runs: each once, kept in a cache, taken up from it; one that breaks is reported and tried again."""

import multiprocessing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hypersphere.data import ArraySource
from hypersphere.geometry import normalize
from hypersphere.heads import create_head
from hypersphere.training.recipe import DataSettings
from hypersphere_papers.engine.class_images import class_images
from hypersphere_papers.engine.measure import measure_classes
from hypersphere_papers.engine.record import Record, read_record, record_path, write_record
from hypersphere_papers.engine.run import Count, gather, train_and_measure
from hypersphere_papers.engine.setting import Setting, unique
from papers.tests.bars import classifier, write_bars
from tests.heads.shard_worker import warm_context

ONE, TWO = classifier("one", "softmax"), classifier("two", "normface")
SAME = replace(ONE, measure="features")


def uncounted(steps: int) -> None:
    pass


@pytest.fixture
def tiny(tmp_path: Path) -> tuple[str, ...]:
    """Two steps on thirty images, tested on twenty."""
    return f"data.source={write_bars(tmp_path / 'bars.npz', 30, 20)}", "train.steps=2", "train.batch_size=4"


class Counting:
    """Trains nothing, and counts; breaks where it is told to."""

    def __init__(self, breaks: str = "") -> None:
        self.calls: list[tuple[str, int]] = []
        self.breaks = breaks

    def __call__(self, setting: Setting, seed: int, cache: Path, device: str, count: Count) -> Record:
        self.calls.append((setting.title, seed))
        count(20)
        if setting.title == self.breaks:
            raise OSError("disk full")
        return Record(setting.title, seed, 0.1, numbers={"pairs": 90.0 + seed}, arrays={"pairs": np.array([True])})


def test_a_run_is_made_once(tmp_path: Path) -> None:
    runner, shown = Counting(), []
    again = replace(ONE, name="one by another name")
    got = gather(
        [ONE, again, TWO], (0, 1), tmp_path, runner=runner, progress=lambda done, total: shown.append((done, total))
    )
    assert sorted(runner.calls) == [("one by another name", 0), ("one by another name", 1), ("two", 0), ("two", 1)]
    assert shown[:3] == [(20, 4 * 620), (620, 4 * 620), (640, 4 * 620)]
    assert shown[-1] == (4 * 620, 4 * 620)
    assert not got.failures
    more = Counting()
    got = gather([ONE, TWO], (0, 1, 2), tmp_path, runner=more)
    assert sorted(more.calls) == [("one", 2), ("two", 2)]
    assert got.records[ONE.key(1)].numbers == {"pairs": 91.0}


def test_a_run_that_breaks_is_reported_and_tried_again(tmp_path: Path) -> None:
    shown: list[int] = []
    broken = Counting(breaks="one")
    got = gather([ONE, TWO], (0,), tmp_path, runner=broken, progress=lambda done, total: shown.append(done))
    assert shown == [20, 620, 640, 1240]  # what a broken run leaves out is counted too
    assert got.failures == {ONE.key(0): "one, seed 0: OSError: disk full"}
    assert set(got.records) == {TWO.key(0)}
    better = Counting()
    assert not gather([ONE, TWO], (0,), tmp_path, runner=better).failures
    assert better.calls == [("one", 0)]


def test_the_key_is_of_what_matters() -> None:
    assert ONE.key(0) == replace(ONE, name="other title").key(0)
    keys = {
        ONE.key(0),
        ONE.key(1),
        TWO.key(0),
        SAME.key(0),
        ONE.but("x", "head.bias=false").key(0),
    }
    assert len(keys) == 5


def test_seeds_come_one_by_one_and_large_networks_first() -> None:
    big = classifier("big", "softmax", "backbone.name=lightcnn9")
    order = [(each.title, seed) for each, seed in unique([ONE, big], (0, 1)).values()]
    assert order == [("big", 0), ("one", 0), ("big", 1), ("one", 1)]


def test_a_record_comes_back(tmp_path: Path) -> None:
    assert read_record(tmp_path, "k") is None
    record = Record("t", 3, 1.234, "m", "why", {"a": 0.5}, {"x": np.arange(3)})
    write_record(tmp_path, "k", record)
    found = read_record(tmp_path, "k")
    assert found is not None
    assert (found.title, found.seed, found.seconds, found.stopped, found.numbers) == ("t", 3, 1.23, "why", {"a": 0.5})
    assert found.arrays["x"].tolist() == [0, 1, 2]
    record_path(tmp_path, "k").rename(record_path(tmp_path, "other"))
    with pytest.raises(ValueError, match=r"other\.npz: no readable record \(it is the record of another run\)"):
        read_record(tmp_path, "other")
    record_path(tmp_path, "k").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"k\.npz: no readable record"):
        read_record(tmp_path, "k")


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
    known = classifier("c", "cosface", *tiny, "train.checkpoint_every=1")
    record = train_and_measure(known, 0, tmp_path, "cpu", uncounted)
    assert record.arrays["history"][:, 0].tolist() == [1, 2]
    assert len(record.arrays["samples"]) == 20
    assert {"accuracy", "sample margin", "class margin", "train sample margin", "norm"} <= set(record.numbers)
    assert 0 <= record.numbers["train accuracy"] <= 100
    two = replace(classifier("f", "sphereface2", *tiny, "backbone.dim=2"), measure="features")
    drawn = train_and_measure(two, 0, tmp_path, "cpu", uncounted)
    assert (drawn.arrays["features"].shape, drawn.arrays["new features"].shape) == ((30, 2), (20, 2))
    assert drawn.arrays["bias"].shape == (1,)


def test_the_same_run_is_the_same_record(tmp_path: Path, tiny: tuple[str, ...]) -> None:
    one, two = (train_and_measure(classifier("p", "softmax", *tiny), 0, tmp_path, "cpu", uncounted) for _ in range(2))
    assert one.numbers == two.numbers


def test_a_collapse_is_a_record(tmp_path: Path, tiny: tuple[str, ...]) -> None:
    wild = classifier("wild", "softmax", *tiny, "optimizer.name=sgd", "optimizer.lr=1e30", "train.log_every=1")
    record = train_and_measure(wild, 0, tmp_path, "cpu", uncounted)
    assert "the loss is" in record.stopped
    assert not record.numbers


@pytest.mark.slow
def test_several_processes(tmp_path: Path, tiny: tuple[str, ...]) -> None:
    settings = [
        classifier(name, head, *tiny) for name, head in (("a", "softmax"), ("b", "no_such_loss"), ("c", "cosface"))
    ]
    shown: list[tuple[int, int]] = []
    got = gather(settings, (0,), tmp_path, jobs=2, progress=lambda done, total: shown.append((done, total)))
    assert shown[-1] == (6, 6)
    assert len(got.records) == 2
    assert "no_such_loss" in next(iter(got.failures.values()))


def test_processes_end_with_what_asked_for_them(
    tmp_path: Path, tiny: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.multiprocessing, "get_context", lambda _: warm_context())
    settings = [classifier(name, "cosface", *tiny, "train.steps=1000000") for name in "ab"]

    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gather(settings, (0, 1), tmp_path, jobs=2, progress=stop)
    assert multiprocessing.active_children() == []
    assert not list(tmp_path.rglob("*.partial"))
