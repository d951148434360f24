"""MNIST items, on digits that are not MNIST: reading, settings, what is measured, and items from training to page."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hypersphere.data import ArraySource
from hypersphere.data.formats.idx import write_mnist
from hypersphere.training.logs import TrainingReporter
from hypersphere_papers.engine import measure
from hypersphere_papers.engine.digits import digits, how, plane, plane_steps
from hypersphere_papers.engine.evidence import settings_of
from hypersphere_papers.engine.feature_spread import spread
from hypersphere_papers.engine.mnist import open_digits
from hypersphere_papers.engine.record import Record
from hypersphere_papers.engine.record_folder import RunFiles
from hypersphere_papers.engine.runs import Gathered, gather_runs, silent
from hypersphere_papers.engine.setting import Setting
from hypersphere_papers.laboratory import Job, RunOptions, find_item, load_catalogue, run_entries, run_entry
from hypersphere_papers.largest_margins.digits import ROWS, Row
from hypersphere_papers.normface.digits import mixed_up
from papers.tests.bars import write_bars

REAL = Path(__file__).parents[2] / "shared" / "data" / "mnist.npz"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_bars(tmp_path / "bars.npz")


def test_both_layouts_are_read(file: Path, tmp_path: Path) -> None:
    train, test = open_digits(file)
    folder = tmp_path / "idx"
    for split, source in (("train", train), ("test", test)):
        write_mnist(source, folder, split=split)
    again = open_digits(folder)
    for first, second in zip((train, test), again, strict=True):
        assert isinstance(first, ArraySource)
        assert (first.images == second.images).all()
        assert (first.labels == second.labels).all()
        assert first.batch([0, 1]).shape == (2, 1, 28, 28)


def test_what_is_no_mnist_is_refused(file: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.npz"
    bad.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="bad.npz"):
        open_digits(bad)
    bad = tmp_path / "other.npz"  # a file is read once
    np.savez(bad, train_images=np.zeros(3))
    with pytest.raises(ValueError, match="no train_labels, test_images, test_labels"):
        open_digits(bad)
    bad = tmp_path / "floats.npz"
    short = np.zeros(3)
    np.savez(bad, train_images=short, train_labels=short, test_images=short, test_labels=short)
    with pytest.raises(ValueError, match=r"bytes \(N, 28, 28\)"):
        open_digits(bad)


def job(name: str, file: Path, epochs: int | None = 1) -> Job:
    return Job(entry=load_catalogue()[name], data=file, seeds=(0,), epochs=epochs)


def trained(setting: Setting, cache: Path) -> Record:
    """Train a setting with seed 0."""
    return gather_runs([setting], (0,), RunFiles(None, cache)).records[setting.key(0)]


def test_training_learns_and_repeats(file: Path, tmp_path: Path) -> None:
    known = digits(job("largest-margins/table1", file), "c", "cosface", "train.batch_size=32", steps=60)
    one, two = (trained(known, tmp_path / name) for name in "ab")
    assert one.numbers == two.numbers
    assert one.numbers["accuracy"] > 85
    assert len(one.arrays["samples"]) == 100


def test_lengths_are_measured_after_every_step(file: Path, tmp_path: Path) -> None:
    settings = settings_of(job("largest-margins/fig1", file))
    (setting,) = (replace(each, overrides=(*each.overrides, "train.steps=7")) for each in settings)
    record = trained(setting, tmp_path)
    assert record.arrays["lengths"].shape == (7,)
    assert (record.arrays["lengths"] > 1).all()


def test_a_plane_has_features_of_two_dimensions(file: Path, tmp_path: Path) -> None:
    where = job("sphereface/fig8", file)
    assert (plane_steps(where), plane_steps(replace(where, epochs=None))) == (300 // 256, 624)
    relu = plane(where, "r", "softmax", "backbone.last_relu=true")
    record = trained(relu, tmp_path)
    assert (record.arrays["features"].shape, record.arrays["new features"].shape) == ((300, 2), (100, 2))
    assert record.arrays["features"].min() >= 0
    assert record.arrays["labels"].tolist() == [n % 10 for n in range(300)]


def test_of_many_images_a_record_has_some_features_in_half_precision(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = plane(job("sphereface/fig8", file), "p", "softmax")
    whole = trained(setting, tmp_path).arrays
    monkeypatch.setattr(measure, "_SHOWN", 40)
    some = trained(setting, tmp_path / "some").arrays
    for new, count in (("", 300), ("new ", 100)):
        chosen = measure.drawn(count)
        assert some[f"{new}features"].dtype == np.float16
        assert len(np.unique(chosen)) == 40
        np.testing.assert_allclose(some[f"{new}features"], whole[f"{new}features"][chosen], rtol=1e-3, atol=1e-6)
        assert (some[f"{new}labels"] == whole[f"{new}labels"][chosen]).all()


def test_what_is_too_large_for_half_precision_is_kept_as_it_is() -> None:
    large = np.array([[7e4, 1.0]], np.float32)
    assert measure.halved(large) is large
    assert measure.halved(large / 2).dtype == np.float16


def test_a_folder_of_records_is_asked_for_runs_of_twenty_epochs(file: Path, tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").touch()
    recorded, images = (job("sphereface/fig8", path, None) for path in (tmp_path, file))
    assert (plane_steps(recorded), plane_steps(images)) == (20 * 234, 624)
    assert plane_steps(replace(recorded, epochs=3)) == 3 * 234
    assert plane(recorded, "p", "softmax").recipe(0).train.batch_size == 256
    assert ("20 epochs" in how(recorded), "624 steps" in how(images)) == (True, True)
    table = settings_of(job("largest-margins/table1", tmp_path, None))[0]
    assert table.recipe(0).train.steps == 20 * 234


def test_the_path_of_the_data_may_have_any_letters(tmp_path: Path) -> None:
    odd = tmp_path / 'a "b" = c, d.npz'
    assert plane(job("sphereface/fig8", odd, None), "p", "softmax").recipe(0).data.source == str(odd)


def test_a_run_that_diverged_is_said(file: Path) -> None:
    asked = job("normface/fig2", file)
    (setting,) = settings_of(asked)
    records = {setting.key(0): Record("t", 0, 1.0, stopped="the loss is nan")}
    run = find_item("normface/fig2")
    assert run is not None
    (finding,) = run(replace(asked, gathered=Gathered(records))).findings
    assert (finding.ours, finding.verdict) == ("not measured", "undecided")
    assert finding.note == "softmax, without bias: seed 0 stopped: the loss is nan"


def test_spread_of_known_directions() -> None:
    degrees = torch.tensor([0.0, 10.0, 90.0, 100.0, 200.0, 210.0])
    radians = degrees.deg2rad()
    features = torch.stack([radians.cos(), radians.sin()], dim=1) * torch.tensor([1.0, 3, 1, 1, 2, 1])[:, None]
    found = spread(features, torch.tensor([0, 0, 1, 1, 2, 2]))
    assert found.within == pytest.approx(5, abs=1e-4)
    assert found.between == pytest.approx(90, abs=1e-4)
    assert found.empty == pytest.approx(160, abs=1e-4)


def test_radial_features_are_mixed_up_by_distance_not_by_angle() -> None:
    g = torch.Generator().manual_seed(0)
    labels = torch.arange(2).repeat_interleave(500)
    angles = torch.tensor([0.0, 1.0])[labels] + 0.05 * torch.randn(1000, generator=g)
    features = torch.rand(1000, 1, generator=g) * 50 * torch.stack([angles.cos(), angles.sin()], dim=1)
    euclidean, angular = mixed_up(features, labels, triplets=5000)
    assert euclidean > 0.15
    assert angular < 0.001


@pytest.mark.parametrize(
    ("row", "title", "head"),
    [
        (Row("CE"), "CE", {"name": "softmax"}),
        (Row("", weight=1.0), "R_sm", {"name": "sample_margin"}),
        (Row("CE", weight=0.5), "CE + 0.5 R_sm", {"name": "softmax", "add": {"sample_margin": {"weight": 0.5}}}),
        (Row("CosFace", 20), "CosFace (s = 20)", {"name": "cosface", "scale": 20.0, "margin": 0.1}),
        (
            Row("NormFace", 64, 1.0),
            "NormFace (s = 64) + R_sm",
            {"name": "normface", "scale": 64.0, "learnable_scale": False, "add": {"sample_margin": {"weight": 1.0}}},
        ),
    ],
)
def test_rows_are_settings(row: Row, title: str, head: dict[str, object], file: Path) -> None:
    made = row.digits(job("largest-margins/table1", file), 3).recipe(0).head
    assert row.title == title
    assert {key: value for key, value in made.items() if key not in ("engine", "prototype_norm")} == head


def test_every_row_of_the_tables_is_known() -> None:
    tables = [load_catalogue()[f"largest-margins/{name}"].rows for name in ("table1", "table5")]
    assert set(ROWS) == set(tables[1]) > set(tables[0])


class Bar:
    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []

    def begin(self, done: int) -> None:
        self.steps.append((done, 0))

    def __call__(self, done: int, total: int, note: str = "") -> None:
        self.steps.append((done, total))


def test_items_share_runs_behind_one_bar(file: Path, tmp_path: Path) -> None:
    """All runs of all items are announced with an estimate and trained before any item is judged."""
    bars_: dict[str, Bar] = {}
    said: list[str] = []

    @contextlib.contextmanager
    def progress(title: str, unit: str) -> Iterator[TrainingReporter]:
        assert title not in bars_
        bars_[title] = Bar()
        yield bars_[title]

    names = ["sphereface/fig9", "sphereface/fig11", "normface/fig2"]
    options = RunOptions(data=file, epochs=4, seeds=(0, 1), progress=progress, announce=said.append)
    done = list(run_entries([load_catalogue()[name] for name in names], tmp_path / "out", options))
    assert said[0] == "4 runs to train, 16 steps in all"
    assert re.fullmatch(r"about \d+ s on cpu with --jobs 1, after the images are decoded", said[1])
    assert said[3:] == [f"\n{entry.id}: {entry.title}" for entry, _ in done]
    assert list(bars_) == ["training", *(f"judging {name}" for name in names)]
    assert list(dict.fromkeys(bars_["training"].steps)) == [(1, 0), *((step, 16) for step in range(1, 17))]
    for entry, result in done:
        assert not isinstance(result, Exception), result
        assert any(finding.verdict is not None for finding in result.findings)
        assert result.command == f"hypersphere reproduce {entry.id} --data PATH --seeds 2 --epochs 4"
        assert (tmp_path / "out" / "images" / f"{entry.id.replace('/', '-')}.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["largest-margins/fig1", "sphereface/fig12", "largest-margins/table1"])
def test_longer_items_run_too(name: str, file: Path, tmp_path: Path) -> None:
    result = run_entry(load_catalogue()[name], tmp_path / "out", RunOptions(data=file, epochs=1, progress=silent))
    assert all(finding.ours for finding in result.findings)


def test_without_data_an_item_asks_for_it(tmp_path: Path) -> None:
    assert find_item("normface/fig2") is not None
    with pytest.raises(ValueError, match="needs MNIST.*: give its path with --data"):
        run_entry(load_catalogue()["normface/fig2"], tmp_path)


@pytest.mark.realdata
def test_mnist_trains_to_the_usual_accuracy(tmp_path: Path) -> None:
    if not REAL.is_file():
        pytest.skip("shared/data/mnist.npz is not here")
    train, test = open_digits(REAL)
    assert (len(train), len(test)) == (60_000, 10_000)
    known = digits(job("largest-margins/table1", REAL), "c", "cosface", steps=234)
    record = trained(known, tmp_path)
    assert record.numbers["accuracy"] > 96
