"""Pair protocols against plain loops and hand-worked numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersphere.evaluation import Estimate, NotMeasurable, curve_metrics, pair_metrics, roc_curve, verify_pairs
from tests.evaluation import reference


def test_folds_by_hand() -> None:
    same = np.array([True, False] * 4)
    scores = np.array([0.9, 0.1, 0.8, 0.2, 0.7, 0.3, 0.35, 0.6])
    result = verify_pairs(scores, same, folds=4)
    assert result.accuracy.value == pytest.approx((1 + 1 + 1 + 0) / 4)
    assert result.deviation == pytest.approx(0.5)
    assert result.accuracy.n == 8
    assert result.right.tolist() == [True] * 6 + [False] * 2
    assert result.accuracy.low < 0.75 < result.accuracy.high


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 6), st.integers(0, 1000), st.booleans())
def test_folds_against_loops(folds: int, seed: int, narrow: bool) -> None:
    generator = np.random.default_rng(seed)
    same = np.tile([True, False], 15)
    scores = np.round(generator.normal(same * 0.5, 0.4), 1).astype(np.float32 if narrow else np.float64)
    member = np.arange(30) * folds // 30
    result = verify_pairs(scores, same, folds=member)
    for fold in range(folds):
        rest = [(float(s), m) for s, m, f in zip(scores, same, member, strict=True) if f != fold]
        test = [(float(s), m) for s, m, f in zip(scores, same, member, strict=True) if f == fold]

        def share(cut: float, pairs: list[tuple[float, bool]]) -> float:
            return sum((s >= cut) == m for s, m in pairs) / len(pairs)

        best = max(share(cut, rest) for cut in [*(s for s, _ in rest), np.inf])
        assert share(result.fold_thresholds[fold], rest) == best
        assert share(result.fold_thresholds[fold], test) == result.fold_accuracies[fold]
    assert result.accuracy.value == pytest.approx(result.fold_accuracies.mean())
    assert result.deviation == pytest.approx(result.fold_accuracies.std(ddof=1))


def test_a_number_of_folds_means_consecutive_parts() -> None:
    generator = np.random.default_rng(3)
    same = np.tile([True, False], 31)
    scores = generator.normal(same * 1.0, 1)
    parts = np.array_split(np.arange(62), 10)
    member = np.concatenate([np.full(len(part), fold) for fold, part in enumerate(parts)])
    np.testing.assert_array_equal(verify_pairs(scores, same).right, verify_pairs(scores, same, member).right)


def test_metrics_by_name() -> None:
    generator = np.random.default_rng(0)
    same = np.arange(3500) < 500
    metrics = curve_metrics(roc_curve(generator.normal(same * 3.0, 1), same), fars=(1e-2, 1e-3, 1e-4))
    assert set(metrics) == {
        "auc",
        "eer",
        *(f"{name}=1e-{k}" for name in ("tar@far", "fnmr@fmr") for k in (2, 3, 4)),
    }
    assert metrics["tar@far=1e-4"] == metrics["fnmr@fmr=1e-4"] == NotMeasurable(3000, 30_000)
    measured = [estimate for estimate in metrics.values() if isinstance(estimate, Estimate)]
    assert len(measured) == 6
    assert all(estimate.low < estimate.value < estimate.high for estimate in measured)
    assert metrics["eer"].n == 500


def test_shared_subjects_widen_the_intervals() -> None:
    generator = np.random.default_rng(0)
    people, repeats = 40, 30
    quality = generator.normal(0, 1, people)
    left = np.repeat(np.arange(people), 2 * repeats)
    same = np.tile(np.arange(2 * repeats) < repeats, people)
    right = np.where(same, left, (left + 1 + generator.integers(people - 1, size=len(left))) % people)
    scores = 1.5 * same + quality[left] + generator.normal(0, 0.3, len(left))
    naive = curve_metrics(roc_curve(scores, same), fars=(1e-2, 1e-3))
    honest = pair_metrics(scores, same, (left, right), fars=(1e-2, 1e-3), replicates=200)
    assert honest["tar@far=1e-3"] == NotMeasurable(1200, 3000)
    for name in ("auc", "eer", "tar@far=1e-2", "fnmr@fmr=1e-2"):
        wide, narrow = honest[name], naive[name]
        assert isinstance(wide, Estimate)
        assert isinstance(narrow, Estimate)
        assert wide.value == narrow.value
        assert wide.n == narrow.n
        assert wide.low <= wide.value <= wide.high
        assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
    folds = np.tile(np.arange(2 * repeats) % 10, people)
    accuracies = [verify_pairs(scores, same, folds, subjects).accuracy for subjects in (None, (left, right))]
    assert accuracies[0].value == accuracies[1].value
    assert accuracies[1].interval == "bootstrap over subjects"
    assert accuracies[1].high - accuracies[1].low > accuracies[0].high - accuracies[0].low


def test_perfect_pairs_are_not_certain() -> None:
    same = np.tile([True, False], 50)
    left = np.repeat(np.arange(10), 10)
    right = np.where(same, left, (left + 1) % 10)
    metrics = pair_metrics(same.astype(float), same, (left, right), fars=(0.1,), replicates=50)
    estimate = metrics["tar@far=1e-1"]
    assert isinstance(estimate, Estimate)
    assert (estimate.value, estimate.high, estimate.interval) == (1, 1, "wilson over subjects")
    assert 0.7 < estimate.low < 0.75


@pytest.mark.parametrize(
    ("scores", "same", "folds", "message"),
    [
        ([0.1, 0.2], [True], 2, "must be two lists of one length"),
        ([0.1, np.nan, 0.2], [True, False, True], 2, "first in position 1"),
        ([0.1, 0.2, 0.3], [True, False, True], 4, "folds=4"),
        ([0.1, 0.2, 0.3], [True, True, True], 2, "pairs of one person and pairs of two"),
        ([0.1, 0.2, 0.3], [True, False, True], [1, 1, 1], "single fold"),
        ([0.1, 0.2, 0.3], [True, False, True], [1, 2], "3 of them are needed"),
        ([0.1, 0.2, 0.3], [True, False, True], [1, 2, 1], "outside fold 1 all pairs are of one kind"),
    ],
)
def test_bad_pairs(scores: list[float], same: list[bool], folds: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        verify_pairs(scores, same, folds)


def test_reference_area_is_the_area() -> None:
    assert reference.area(np.array([0.9, 0.1]), np.array([True, False])) == 1
