"""The ROC and what is read off it, against plain loops, scikit-learn and hand-worked numbers."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from sklearn import metrics

from hypersphere.evaluation import RULES, NotMeasurable, OperatingPoint, Roc, roc_curve
from tests.evaluation import reference


@settings(deadline=None)
@given(reference.PAIRS, st.booleans())
def test_every_point_is_what_its_threshold_accepts(pairs: list[tuple[int, bool]], narrow: bool) -> None:
    scores, same = reference.split(pairs)
    curve = roc_curve(scores.astype(np.float32) if narrow else scores, same)
    assert curve.thresholds[0] == np.inf
    assert (np.diff(curve.thresholds) < 0).all()
    assert (curve.far[-1], curve.tar[-1]) == (1, 1)
    for threshold, far, tar, fnmr in zip(curve.thresholds, curve.far, curve.tar, curve.fnmr, strict=True):
        expected_far, expected_tar = reference.rates(scores, same, threshold)
        assert (far, tar, fnmr) == (float(expected_far), float(expected_tar), float(1 - expected_tar))


@settings(deadline=None)
@given(reference.PAIRS)
def test_the_points_left_out_lie_between(pairs: list[tuple[int, bool]]) -> None:
    scores, same = reference.split(pairs)
    curve = roc_curve(scores, same)
    far, tar, thresholds = metrics.roc_curve(same, scores, drop_intermediate=False)
    kept = np.isin(thresholds, curve.thresholds)
    np.testing.assert_array_equal(curve.far, far[kept])
    np.testing.assert_array_equal(curve.tar, tar[kept])
    for point in np.flatnonzero(~kept):
        assert tar[point - 1] == tar[point] == tar[point + 1]


@settings(deadline=None)
@given(reference.PAIRS)
def test_area_and_equal_error_on_ties(pairs: list[tuple[int, bool]]) -> None:
    scores, same = reference.split(pairs)
    curve = roc_curve(scores, same)
    assert curve.auc() == float(reference.area(scores, same))
    assert curve.auc() == pytest.approx(metrics.roc_auc_score(same, scores))
    assert curve.eer() == pytest.approx(float(reference.equal_error(scores, same)), abs=1e-15)


@settings(deadline=None)
@given(reference.PAIRS, st.sampled_from([0.0, 0.1, 0.2, 1 / 3, 0.5, 0.7, 1.0]))
def test_tar_is_that_of_the_largest_far_not_above(pairs: list[tuple[int, bool]], far: float) -> None:
    scores, same = reference.split(pairs)
    curve = roc_curve(scores, same)
    allowed = [point for point in reference.curve(scores, same) if float(point[0]) <= far]
    assert curve.tar_at(far) == float(max(allowed)[1])
    threshold = curve.thresholds[curve.point_at(far)]
    realised_far, realised_tar = reference.rates(scores, same, threshold)
    assert float(realised_far) <= far
    assert float(realised_tar) == curve.tar_at(far)
    higher = [t for t in scores if t > threshold]
    assert all(reference.rates(scores, same, t)[1] < realised_tar for t in higher)


def test_the_equal_error_of_smooth_data_is_what_interpolation_finds() -> None:
    generator = np.random.default_rng(1)
    scores = np.concatenate([generator.normal(1, 1, 500), generator.normal(-1, 1, 700)])
    same = np.arange(1200) < 500
    far, tar, _ = metrics.roc_curve(same, scores)
    found = brentq(lambda x: 1 - x - np.interp(x, far, tar), 0, 1)
    assert roc_curve(scores, same).eer() == pytest.approx(found, abs=1e-9)


@settings(deadline=None)
@example([(score, score % 2 == 1) for score in range(5, -5, -1)])
@given(reference.PAIRS)
def test_best_threshold_against_all_of_them(pairs: list[tuple[int, bool]]) -> None:
    scores, same = reference.split(pairs)
    values = np.unique(scores)
    cuts = [values[0], *((values[1:] + values[:-1]) / 2), np.nextafter(values[-1], np.inf)]
    right = [int(((scores >= cut) == same).sum()) for cut in cuts]
    best = [cut for cut, hits in zip(cuts, right, strict=True) if hits == max(right)]
    chosen = roc_curve(scores, same).best_threshold()
    assert ((scores >= chosen) == same).sum() == max(right)
    assert chosen == best[len(best) // 2]


def test_a_threshold_between_neighbouring_floats_separates_them() -> None:
    low = 0.3
    for _ in range(2):
        scores, same = np.array([low, np.nextafter(low, 1)]), np.array([False, True])
        threshold = roc_curve(scores, same).best_threshold()
        assert ((scores >= threshold) == same).all()
        low = scores[1]


def test_by_hand() -> None:
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    same = np.array([True, True, False, True, False, False])
    curve = roc_curve(scores, same)
    assert curve.tar_at(0.0) == pytest.approx(2 / 3)
    assert curve.tar_at(1 / 3) == 1.0
    assert curve.eer() == pytest.approx(1 / 3)
    assert curve.auc() == pytest.approx(8 / 9)


def test_an_operating_point_needs_three_expected_errors() -> None:
    scores = np.concatenate([np.linspace(0.5, 1, 50), np.linspace(0, 0.6, 300)])
    same = np.arange(350) < 50
    curve = roc_curve(scores, same)
    point = curve.operating_point(0.01)
    assert isinstance(point, OperatingPoint)
    assert point.far.value <= 0.01
    assert point.tar.value == curve.tar_at(0.01)
    assert point.tar.value + point.fnmr.value == pytest.approx(1)
    assert point.tar.n == 50
    assert (point.tar.low, point.tar.high) == (pytest.approx(1 - point.fnmr.high), pytest.approx(1 - point.fnmr.low))  # type: ignore[comparison-overlap]
    assert curve.operating_point(0.009) == NotMeasurable(300, 334)


def test_a_far_is_compared_as_a_fraction() -> None:
    scores = np.concatenate([[0.9, 0.5], np.repeat([0.6, 0.1], [3, 2997])])
    same = np.arange(3002) < 2
    point = roc_curve(scores, same).operating_point(1e-3)
    assert isinstance(point, OperatingPoint)
    assert (point.far.value, point.tar.value, point.threshold) == (1e-3, 1, 0.5)
    assert roc_curve(scores, same).tar_at(np.nextafter(1e-3, 0)) == 0.5


def test_counts_beyond_64_bits() -> None:
    half = 1 << 40
    curve = Roc(
        np.array([math.inf, 1.0, 0.0]), np.array([0, half, 2 * half]), np.array([0, half, 2 * half]), 2 * half, 2 * half
    )
    assert curve.auc() == 0.5
    assert curve.eer() == 0.5


def test_bad_pairs() -> None:
    with pytest.raises(ValueError, match="must be two lists of one length"):
        roc_curve([0.1, 0.2], [True])
    with pytest.raises(ValueError, match="first in position 1"):
        roc_curve([0.1, math.nan], [True, False])
    with pytest.raises(ValueError, match="pairs of one person and pairs of two"):
        roc_curve([0.1, 0.2], [True, True])


def test_the_document_states_the_rules() -> None:
    assert RULES in (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
