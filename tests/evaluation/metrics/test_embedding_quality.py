"""Scatter, margins and accuracy by shots against plain loops."""

import math

import numpy as np
import pytest
import torch

from hypersphere.evaluation import accuracy_by_shots, angular_fisher_score, margins, proportion
from hypersphere.geometry import normalize, sample_margins


def fisher(rows: np.ndarray, labels: np.ndarray) -> float:
    """SphereFace eq. 11, written out."""

    def cos(a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))

    middle, within, between = rows.mean(axis=0), 0.0, 0.0
    for label in set(labels.tolist()):
        members = [row for row, own in zip(rows, labels, strict=True) if own == label]
        mean = sum(members) / len(members)
        within += sum(1 - cos(row, mean) for row in members)
        between += len(members) * (1 - cos(mean, middle))
    return within / between


@pytest.mark.parametrize("seed", range(5))
def test_angular_fisher_score(seed: int) -> None:
    generator = np.random.default_rng(seed)
    labels = generator.choice([3, 5, 8, 9], 60)
    rows = np.eye(4)[labels % 4] + generator.normal(0, 0.3, (60, 4))
    rows = rows.astype(np.float32).astype(np.float64)
    estimate = angular_fisher_score(rows, labels, replicates=100)
    assert estimate.value == pytest.approx(fisher(rows, labels), rel=1e-9)
    assert estimate.low < estimate.value < estimate.high
    assert estimate.n == 60


def test_tighter_classes_have_a_lower_score() -> None:
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), 20)
    noise = generator.normal(0, 1, (100, 5))
    loose, tight = (angular_fisher_score(np.eye(5)[labels] + s * noise, labels, replicates=20) for s in (0.3, 0.05))
    assert tight.value < loose.value


def test_classes_without_scatter() -> None:
    labels = np.repeat(np.arange(3), 4)
    assert angular_fisher_score(np.eye(3)[labels], labels, replicates=20).value == pytest.approx(0, abs=1e-12)


def test_margins_are_those_of_the_geometry() -> None:
    generator = torch.Generator().manual_seed(0)
    rows, centres = torch.randn(50, 4, generator=generator), torch.randn(6, 4, generator=generator)
    labels = torch.randint(-1, 6, (50,), generator=generator)
    result = margins(rows.numpy(), centres.numpy(), labels.numpy())
    each = sample_margins(rows, centres, labels)
    known = each[~each.isnan()]
    cosines = normalize(centres.double()) @ normalize(centres.double()).T
    closest = cosines.fill_diagonal_(-1).max()
    assert result.class_margin.value == pytest.approx(float(torch.rad2deg(torch.arccos(closest))))
    assert result.mean.value == pytest.approx(float(known.mean()), rel=1e-6)
    assert result.minimum.value == float(known.min())
    assert result.minimum.interval == "exact"
    assert result.share_positive == proportion(int((known > 0).sum()), len(known))
    assert result.mean.low < result.mean.value < result.mean.high


def test_accuracy_by_shots() -> None:
    shots = [500, 101, 100, 20, 19, 1, 50]
    labels = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5])
    right = np.array([1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0], dtype=bool)
    result = accuracy_by_shots(right, labels, shots)
    assert {name: estimate.value for name, estimate in result.items()} == {
        "many": 0.75,
        "medium": 0.25,
        "few": 0.25,
        "all": pytest.approx(5 / 12),
    }
    balanced = proportion(3, 4)
    assert (result["many"].low, result["many"].high, result["many"].n) == (balanced.low, balanced.high, 4)


def test_accuracy_by_shots_is_the_mean_over_classes() -> None:
    result = accuracy_by_shots([True, False, False, False], [0, 1, 1, 1], [5, 5])
    assert result["few"].value == 0.5
    assert set(result) == {"few", "all"}
    three = proportion(1.5, 3)
    assert (result["few"].low, result["few"].high) == (three.low, three.high)


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="single class"):
        angular_fisher_score(np.ones((2, 2)), [1, 1])
    with pytest.raises(ValueError, match="needs at least 3"):
        angular_fisher_score(np.array([[1.0, 0], [0, 1], [0.2, 1]]), [0, 1, 1])
    with pytest.raises(ValueError, match="an embedding is the zero vector"):
        angular_fisher_score(np.array([[1.0, 0], [0, 1], [0, 0]]), [0, 1, 1])
    with pytest.raises(ValueError, match="the mean of a class is the zero vector"):
        angular_fisher_score(np.array([[1.0, 0], [-1, 0], [0, 1]]), [0, 0, 1])
    with pytest.raises(ValueError, match=r"labels must lie in \[0, 2\)"):
        accuracy_by_shots([True], [2], [1, 1])
    with pytest.raises(ValueError, match="labels has dtype float64"):
        accuracy_by_shots([True], [1.0], [1, 1])
