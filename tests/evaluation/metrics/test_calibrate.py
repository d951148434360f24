"""Thresholds against plain loops over all pairs."""

import itertools
import math

import numpy as np
import pytest

from hypersphere.evaluation import SortedScores, calibrate_thresholds
from hypersphere.evaluation.metrics.calibrate import calibrate_pairs

RNG = np.random.default_rng(0)
PEOPLE = np.repeat(np.arange(12), RNG.integers(2, 7, 12))
VECTORS = RNG.normal(size=(12, 6))[PEOPLE] + 0.7 * RNG.normal(size=(len(PEOPLE), 6))
UNIT = (VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)).astype(np.float32)


def test_against_plain_loops() -> None:
    pairs = list(itertools.combinations(range(len(PEOPLE)), 2))
    cosine = {(i, j): float(UNIT[j] @ UNIT[i]) for i, j in pairs}
    sides = ([PEOPLE[pair[k]] for pair in pairs] for k in (0, 1))
    impostors = [pair for pair in pairs if PEOPLE[pair[0]] != PEOPLE[pair[1]]]
    genuine = [pair for pair in pairs if PEOPLE[pair[0]] == PEOPLE[pair[1]]]
    rows = calibrate_pairs(list(cosine.values()), *sides, replicates=50)
    whole = calibrate_thresholds(UNIT, PEOPLE, replicates=50)
    assert [row.threshold for row in whole] == pytest.approx([row.threshold for row in rows], abs=1e-6)
    assert [row.fmr for row in rows] == [rate for rate in (0.1, 0.01, 0.001) if len(impostors) * rate >= 3]
    generator = np.random.default_rng(0)
    draws = [np.bincount(generator.integers(12, size=12), minlength=12) for _ in range(50)]
    for row in rows:
        false = [pair for pair in impostors if cosine[pair] >= row.threshold]
        missed = [pair for pair in genuine if cosine[pair] < row.threshold]
        assert row.false_matches == len(false) == math.floor(row.fmr * len(impostors))
        assert row.fnmr == pytest.approx(len(missed) / len(genuine))
        assert row.indicative == (row.fmr * len(impostors) < 30)
        rates = []
        for drawn in draws:
            weights = {pair: drawn[PEOPLE[pair[0]]] * drawn[PEOPLE[pair[1]]] for pair in impostors}
            rates.append(sum(weights[pair] for pair in false) / sum(weights.values()))
        low, high = np.quantile(rates, [0.025, 0.975])
        assert (row.fmr_low, row.fmr_high) == pytest.approx((low, high))
        own = [sum(d[PEOPLE[i]] for i, _ in missed) / sum(d[PEOPLE[i]] for i, _ in genuine) for d in draws]
        low, high = np.quantile(own, [0.025, 0.975])
        assert (row.fnmr_low, row.fnmr_high) == pytest.approx((low, high))


def plain_threshold(impostors: list[float], power: int) -> float:
    """The least double that at most one in 10^power of the impostors reaches: each and its neighbour is tried."""
    allowed = len(impostors) // 10**power
    tried = sorted({number for score in impostors for number in (score, math.nextafter(score, math.inf))})
    scores = np.array(impostors)
    return next(cut for cut in tried if np.count_nonzero(scores >= cut) <= allowed)


def scored(impostors: list[float], genuine: list[float]) -> tuple[list[float], list[int], list[int]]:
    """Scores with people: the impostors' pairs show persons 0 and 1, the genuine ones person 0."""
    return [*impostors, *genuine], [0] * (len(impostors) + len(genuine)), [1] * len(impostors) + [0] * len(genuine)


@pytest.mark.parametrize("count", [30, 31, 39, 299, 300, 319, 3000])
@pytest.mark.parametrize("digits", [1, 2, 15])
def test_a_threshold_is_the_order_statistic_of_impostors(count: int, digits: int) -> None:
    impostors = np.round(np.random.default_rng(count).normal(0, 0.2, count), digits).tolist()
    rows = calibrate_pairs(*scored(impostors, [0.3, 0.99]), replicates=2)
    assert len(rows) == math.floor(math.log10(count / 3) + 1e-9)
    for power, row in enumerate(rows, start=1):
        assert row.threshold == plain_threshold(impostors, power)
        assert row.false_matches == sum(score >= row.threshold for score in impostors) <= count // 10**power
        if digits == 15:  # no ties
            assert row.false_matches == count // 10**power


@pytest.mark.parametrize("genuine", [[0.9], [-1.0], [0.31, 0.32, 0.33], list(np.linspace(-1, 1, 501))])
def test_genuine_scores_do_not_choose_a_threshold(genuine: list[float]) -> None:
    impostors = np.linspace(-0.5, 0.5, 1000)
    rows = calibrate_pairs(*scored(impostors.tolist(), genuine), replicates=2)
    expected = [math.nextafter(impostors[-101], 1), math.nextafter(impostors[-11], 1)]
    assert [row.threshold for row in rows] == expected
    assert [row.false_matches for row in rows] == [100, 10]
    assert [row.fnmr for row in rows] == pytest.approx([np.mean(np.array(genuine) < cut) for cut in expected])


def test_equal_impostors_are_all_refused() -> None:
    (row,) = calibrate_pairs(*scored([0.25] * 200, [0.25, 0.5]), replicates=2)
    assert (row.threshold, row.false_matches, row.fnmr) == (math.nextafter(0.25, 1), 0, 0.5)


def test_float32_scores_have_float32_thresholds() -> None:
    scores, left, right = scored(np.linspace(0, 1, 40).tolist(), [0.5])
    (row,) = calibrate_pairs(np.array(scores, np.float32), left, right, replicates=2)
    assert row.threshold == float(np.nextafter(np.float32(np.linspace(0, 1, 40)[-5]), np.float32(2)))
    assert row.false_matches == 4


def test_the_rule_of_3_refuses() -> None:
    for count, rates in ((29, []), (30, [0.1]), (299, [0.1]), (300, [0.1, 0.01])):
        impostors = np.linspace(0, 1, count).tolist()
        assert [row.fmr for row in calibrate_pairs(*scored(impostors, [1.0]), replicates=2)] == rates


def test_the_least_threshold_of_sorted_scores() -> None:
    scores = [0.9, 0.8, 0.8, 0.8, -1.0]
    found = [SortedScores(scores).least_threshold(accepted) for accepted in range(5)]
    assert found == [math.nextafter(score, math.inf) for score in (0.9, 0.8, 0.8, 0.8, -1.0)]
    for accepted, threshold in enumerate(found):
        assert sum(score >= threshold for score in scores) <= accepted
        assert sum(score >= math.nextafter(threshold, -1e9) for score in scores) > accepted
    assert SortedScores([0.0]).least_threshold(0) == math.ulp(0)
    for wrong in (-1, 5):
        with pytest.raises(ValueError, match=r"(accepted|k)="):
            SortedScores(scores).least_threshold(wrong)


def test_one_person_has_no_thresholds() -> None:
    with pytest.raises(ValueError, match="pairs of one person and pairs of two"):
        calibrate_thresholds(UNIT[:4], [0, 0, 0, 0])
    with pytest.raises(ValueError, match="pairs of one person and pairs of two"):
        calibrate_thresholds(UNIT[:4], [0, 1, 2, 3])
