"""Imbalance, label noise and unlabelled images: exact counts, every time the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersphere.data.corrupt import imbalance, long_tailed_counts, noisy_labels, step_counts, unlabelled


def test_long_tail_of_cifar10_as_ldam_makes_it() -> None:
    assert long_tailed_counts(10, 5000, 100).tolist() == [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]


@pytest.mark.parametrize("ratio", [10, 20, 50, 100, 200])
@pytest.mark.parametrize("num_classes", [2, 7, 10, 100])
def test_the_last_class_is_the_first_over_the_ratio(num_classes: int, ratio: int) -> None:
    counts = long_tailed_counts(num_classes, 1000, ratio)
    assert (counts[0], counts[-1]) == (1000, 1000 // ratio)
    assert (np.diff(counts) <= 0).all()


def test_no_class_is_emptied() -> None:
    assert long_tailed_counts(5, 10, 1000).min() == 1
    assert step_counts(4, 10, 1000).tolist() == [10, 10, 1, 1]


def test_ratio_one_is_balanced() -> None:
    assert set(long_tailed_counts(10, 77, 1)) == set(step_counts(10, 77, 1)) == {77}


def test_step_has_the_stated_share_of_minority_classes() -> None:
    assert step_counts(10, 5000, 100).tolist() == [5000] * 5 + [50] * 5
    assert step_counts(10, 500, 10, minority=0.2).tolist() == [500] * 8 + [50] * 2
    assert step_counts(5, 500, 10, minority=0.5).tolist() == [500] * 2 + [50] * 3
    assert step_counts(5, 500, 10, minority=0.0).tolist() == [500] * 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((1, 10, 10), "num_classes=1"), ((10, 0, 10), "largest=0"), ((10, 10, 0.5), "ratio=0.5")],
)
def test_impossible_profiles(arguments: tuple[int, int, float], message: str) -> None:
    for profile in (long_tailed_counts, step_counts):
        with pytest.raises(ValueError, match=message):
            profile(*arguments)
    with pytest.raises(ValueError, match=r"minority=1\.5"):
        step_counts(10, 10, 10, minority=1.5)


def test_imbalance_keeps_exactly_the_counts_and_what_has_no_class() -> None:
    labels = np.random.default_rng(0).permutation(np.repeat([0, 1, 2, -1], [50, 40, 30, 5]))
    counts = [50, 7, 0]
    kept = imbalance(labels, counts, seed=3)
    assert np.bincount(labels[kept] + 1, minlength=4).tolist() == [5, *counts]
    assert (np.diff(kept) > 0).all()
    assert np.array_equal(kept, imbalance(labels, counts, seed=3))
    assert not np.array_equal(kept, imbalance(labels, counts, seed=4))


def test_imbalance_needs_enough_images() -> None:
    with pytest.raises(ValueError, match=r"class 1 has 2 images, but counts\[1\]=3"):
        imbalance([0, 0, 0, 1, 1], [3, 3], seed=0)
    with pytest.raises(ValueError, match=r"counts\[1\]=-1"):
        imbalance([0, 1], [1, -1], seed=0)
    with pytest.raises(ValueError, match=r"label 2 must be in \[0, 2\)"):
        imbalance([0, 1, 2], [1, 1], seed=0)


@given(
    counts=st.lists(st.integers(0, 30), min_size=2, max_size=8),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32),
    extras=st.integers(0, 5),
)
@settings(deadline=None)
def test_every_class_has_exactly_its_share_of_wrong_labels(
    counts: list[int], share: float, seed: int, extras: int
) -> None:
    labels = np.concatenate([np.repeat(np.arange(len(counts)), counts), np.full(extras, -1)]).astype(np.int64)
    labels = np.random.default_rng(0).permutation(labels)
    noisy = noisy_labels(labels, share, len(counts), seed)
    assert ((noisy == -1) == (labels == -1)).all()
    assert noisy.max(initial=-1) < len(counts)
    for label, count in enumerate(counts):
        assert (noisy[labels == label] != label).sum() == int(np.floor(share * count + 0.5))


def test_wrong_labels_are_uniform_over_the_other_classes() -> None:
    labels = np.repeat(np.arange(5), 20_000)
    noisy = noisy_labels(labels, 0.4, 5, seed=0)
    for label in range(5):
        wrong = np.bincount(noisy[(labels == label) & (noisy != label)], minlength=5)
        assert wrong[label] == 0
        assert np.abs(np.delete(wrong, label) / 8000 - 0.25).max() < 0.02


def test_noise_is_seeded_and_leaves_its_input_alone() -> None:
    labels = np.repeat(np.arange(4), 25)
    before = labels.copy()
    assert np.array_equal(noisy_labels(labels, 0.6, 4, 7), noisy_labels(labels, 0.6, 4, 7))
    assert not np.array_equal(noisy_labels(labels, 0.6, 4, 7), noisy_labels(labels, 0.6, 4, 8))
    assert np.array_equal(labels, before)


def test_noise_refuses_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match=r"share=1\.2"):
        noisy_labels([0, 1], 1.2, 2, 0)
    with pytest.raises(ValueError, match="num_classes=1"):
        noisy_labels([0, 0], 0.5, 1, 0)
    with pytest.raises(ValueError, match="label 3"):
        noisy_labels([0, 3], 0.5, 3, 0)
    with pytest.raises(ValueError, match="float64"):
        noisy_labels(np.array([0.0, 1.0]), 0.5, 3, 0)


def test_unlabelled_takes_labels_away() -> None:
    labels = np.arange(4)
    assert unlabelled(labels, [0, 2]).tolist() == [-1, 1, -1, 3]
    assert unlabelled(labels, []).tolist() == labels.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"index 4 is not in \[0, 4\)"):
        unlabelled(labels, [4])
