"""MNIST items, on digits that are not MNIST: reading, training, and what is measured."""

import contextlib
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hypersphere.core import Reporter
from hypersphere.data import ArraySource
from hypersphere.data.formats.idx import write_mnist
from hypersphere.reproduce import RunOptions, find_item, load_catalogue, run_entry
from hypersphere.reproduce.experiment.digits import DeeperLeNet, Digits, open_digits, train_digits
from hypersphere.reproduce.papers.largest_margins.digits import setting
from hypersphere.reproduce.papers.normface.digits import mixed_up
from hypersphere.reproduce.papers.sphereface.digits import mnist, spread

REAL = Path(__file__).parents[2] / "shared" / "data" / "mnist.npz"


def bars(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten classes: a bright bar at one of ten heights, under noise."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % 10
    images = random.integers(0, 60, (count, 28, 28))
    for image, label in zip(images, labels, strict=True):
        image[2 * label + 4 : 2 * label + 7, 4:24] += 180
    return images.astype(np.uint8), labels.astype(np.uint8)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bars.npz"
    (train, train_labels), (test, test_labels) = bars(300, 0), bars(100, 1)
    np.savez(path, train_images=train, train_labels=train_labels, test_images=test, test_labels=test_labels)
    return path


def test_both_layouts_are_read(file: Path, tmp_path: Path) -> None:
    train, test = open_digits(file)
    folder = tmp_path / "idx"
    for split, digits in (("train", train), ("test", test)):
        source = ArraySource(digits.images.numpy()[..., None], digits.labels.numpy(), where="here")
        write_mnist(source, folder, split=split)
    again = open_digits(folder)
    for first, second in zip((train, test), again, strict=True):
        assert torch.equal(first.images, second.images)
        assert torch.equal(first.labels, second.labels)
    pixels = train.pixels(slice(0, 3))
    assert pixels.shape == (3, 1, 28, 28)
    assert -1 <= pixels.min() < pixels.max() <= 1


def test_what_is_no_mnist_is_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give its path with --data"):
        open_digits(None)
    bad = tmp_path / "bad.npz"
    bad.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="bad.npz"):
        open_digits(bad)
    np.savez(bad, train_images=np.zeros(3))
    with pytest.raises(ValueError, match="no train_labels, test_images, test_labels"):
        open_digits(bad)
    np.savez(
        bad,
        **dict[str, Any].fromkeys(("train_images", "train_labels", "test_images", "test_labels"), np.zeros(3)),  # type: ignore[arg-type]
    )
    with pytest.raises(ValueError, match=r"bytes \(N, 28, 28\)"):
        open_digits(bad)


def test_training_learns_and_repeats() -> None:
    images, labels = bars(640, 0)
    digits = Digits(torch.from_numpy(images), torch.from_numpy(labels).long())
    seen: list[int] = []
    options = {"scale": 10.0, "margin": 0.1}
    runs = [
        train_digits(
            digits,
            "cosface",
            epochs=3,
            dim=8,
            options=options,
            batch_size=32,
            watch=lambda step, head: seen.append(step),
        )
        for _ in range(2)
    ]
    assert seen == [*range(1, 61)] * 2
    assert torch.equal(runs[0].head.weight, runs[1].head.weight)
    right = runs[0].head.cosines(runs[0].features(digits)).argmax(1) == digits.labels
    assert right.double().mean() > 0.85
    assert DeeperLeNet(2)(digits.pixels(slice(0, 2))).shape == (2, 2)


def test_a_run_that_diverges_is_an_error() -> None:
    images, labels = bars(64, 0)
    digits = Digits(torch.from_numpy(images), torch.from_numpy(labels).long())
    with pytest.raises(ValueError, match="softmax diverged with seed 3 at rate 1e"):
        train_digits(digits, "softmax", epochs=4, dim=2, rate=1e30, batch_size=32, seed=3)


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
    ("row", "loss", "options"),
    [
        ("CE", "softmax", {}),
        ("R_sm", "sample_margin", {}),
        ("CE + 0.5 R_sm", "softmax", {"add": {"sample_margin": {"weight": 0.5}}}),
        ("CosFace (s = 20)", "cosface", {"scale": 20.0, "margin": 0.1}),
        (
            "NormFace (s = 64) + R_sm",
            "normface",
            {"scale": 64.0, "learnable_scale": False, "add": {"sample_margin": {"weight": 1.0}}},
        ),
    ],
)
def test_rows_are_read(row: str, loss: str, options: dict[str, object]) -> None:
    assert setting(row) == (loss, options)


def test_every_row_of_the_tables_is_a_setting() -> None:
    for name in ("largest-margins/table1", "largest-margins/table5"):
        for row in load_catalogue()[name].rows:
            setting(row)
    with pytest.raises(ValueError, match="'Focal' is no row"):
        setting("Focal")


@pytest.mark.parametrize(
    "name", ["sphereface/fig8", "sphereface/fig9", "normface/fig2", "normface/fig3", "largest-margins/fig1"]
)
def test_an_item_runs_on_data_of_the_same_layout(name: str, file: Path, tmp_path: Path) -> None:
    mnist.cache_clear()
    said: list[str] = []
    steps: list[tuple[int, int]] = []

    @contextlib.contextmanager
    def progress(title: str, unit: str) -> Iterator[Reporter]:
        yield lambda done, total: steps.append((done, total))

    options = RunOptions(data=file, epochs=1, seeds=(0, 1), progress=progress, announce=said.append)  # type: ignore[arg-type]
    result = run_entry(load_catalogue()[name], tmp_path / "out", options)
    assert said.pop(0).startswith(f"\n{name}: ")
    if steps:  # else another test has trained the same runs
        runs, each = re.fullmatch(r"(\d) runs? of (\d+) steps", said[0]).groups()
        assert re.fullmatch(r"about \d+ s", said[1])
        total = int(runs) * int(each)
        assert steps == [(done, total) for done in range(1, total + 1)]
    assert any(finding.verdict is not None for finding in result.findings)
    several = name not in ("sphereface/fig8", "normface/fig2")
    assert result.seeds == ((0, 1) if several else (0,))
    assert result.command.endswith(f"--data PATH{' --seeds 2' if several else ''} --epochs 1")
    assert (tmp_path / "out" / "images" / f"{name.replace('/', '-')}.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sphereface/fig11", "sphereface/fig12", "largest-margins/table1"])
def test_longer_items_run_too(name: str, file: Path, tmp_path: Path) -> None:
    mnist.cache_clear()
    result = run_entry(load_catalogue()[name], tmp_path / "out", RunOptions(data=file, epochs=1))
    assert all(finding.ours for finding in result.findings)


def test_without_data_an_item_asks_for_it(tmp_path: Path) -> None:
    assert find_item("normface/fig2") is not None
    with pytest.raises(ValueError, match="needs MNIST: give its path with --data"):
        run_entry(load_catalogue()["normface/fig2"], tmp_path)


@pytest.mark.realdata
def test_mnist_trains_to_the_usual_accuracy() -> None:
    if not REAL.is_file():
        pytest.skip("shared/data/mnist.npz is not here")
    train, test = open_digits(REAL)
    assert (len(train.labels), len(test.labels)) == (60_000, 10_000)
    trained = train_digits(train, "cosface", epochs=1, dim=128, options={"scale": 10.0, "margin": 0.1})
    right = trained.head.cosines(trained.features(test)).argmax(1) == test.labels
    assert right.double().mean() > 0.96
    assert math.isfinite(float(trained.head.weight.sum()))
