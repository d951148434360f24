"""Pair verification against plain loops, scikit-learn and hand-worked numbers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from hypersphere.evaluation import roc_curve, verify_pairs, wilson_interval
from hypersphere.evaluation.verification import best_threshold

PAIRS = st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=2, max_size=40)


@settings(deadline=None)
@given(PAIRS)
def test_roc_is_exact_on_ties(pairs: list[tuple[int, bool]]) -> None:
    scores, same = np.array([float(p[0]) for p in pairs]), np.array([p[1] for p in pairs])
    if same.all() or not same.any():
        return
    curve = roc_curve(scores, same)
    for threshold, far, tar in zip(curve.thresholds, curve.far, curve.tar, strict=True):
        accepted = scores >= threshold
        assert far == pytest.approx((accepted & ~same).sum() / (~same).sum())
        assert tar == pytest.approx((accepted & same).sum() / same.sum())
    far, tar, _ = metrics.roc_curve(same, scores, drop_intermediate=False)
    np.testing.assert_allclose(curve.far, far)
    np.testing.assert_allclose(curve.tar, tar)
    assert curve.auc == pytest.approx(metrics.roc_auc_score(same, scores))


@settings(deadline=None)
@given(PAIRS)
def test_best_threshold_against_all_of_them(pairs: list[tuple[int, bool]]) -> None:
    scores, same = np.array([float(p[0]) for p in pairs]), np.array([p[1] for p in pairs])
    candidates = [*(np.unique(scores) - 0.5), scores.max() + 1]
    best = max(((scores >= threshold) == same).mean() for threshold in candidates)
    assert ((scores >= best_threshold(scores, same)) == same).mean() == pytest.approx(best)


def test_folds_by_hand() -> None:
    same = np.array([True, False] * 4)
    scores = np.array([0.9, 0.1, 0.8, 0.2, 0.7, 0.3, 0.35, 0.6])
    result = verify_pairs(scores, same, folds=4)
    assert result.accuracy == pytest.approx((1 + 1 + 1 + 0) / 4)
    assert result.deviation == pytest.approx(0.5)
    assert (result.pairs, result.folds) == (8, 4)
    assert result.right.tolist() == [True] * 6 + [False] * 2
    assert result.low < 0.75 < result.high


def test_eer_and_tar_by_hand() -> None:
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    same = np.array([True, True, False, True, False, False])
    curve = roc_curve(scores, same)
    assert curve.tar_at(0.0) == pytest.approx(2 / 3)
    assert curve.tar_at(1 / 3) == 1.0
    assert curve.eer == pytest.approx(1 / 3)
    assert curve.auc == pytest.approx(8 / 9)


def test_wilson_by_hand() -> None:
    low, high = wilson_interval(9, 10)
    assert (low, high) == (pytest.approx(0.5958, abs=1e-4), pytest.approx(0.9821, abs=1e-4))
    assert wilson_interval(0, 10)[0] == 0
    assert wilson_interval(10, 10)[1] == pytest.approx(1)


@pytest.mark.parametrize(
    ("scores", "same", "folds", "message"),
    [
        ([0.1, 0.2], [True], 2, "must be two lists of one length"),
        ([0.1, math.nan, 0.2], [True, False, True], 2, "first in pair 1"),
        ([0.1, 0.2, 0.3], [True, False, True], 4, "folds=4"),
        ([0.1, 0.2, 0.3], [True, True, True], 2, "pairs of one person and pairs of two"),
    ],
)
def test_bad_pairs(scores: list[float], same: list[bool], folds: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        verify_pairs(scores, same, folds)
