"""Thresholds against plain loops over all pairs."""

import itertools

import numpy as np
import pytest

from hypersphere.evaluation import calibrate_thresholds

RNG = np.random.default_rng(0)
PEOPLE = np.repeat(np.arange(12), RNG.integers(2, 7, 12))
VECTORS = RNG.normal(size=(12, 6))[PEOPLE] + 0.7 * RNG.normal(size=(len(PEOPLE), 6))
UNIT = (VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)).astype(np.float32)


def test_against_plain_loops() -> None:
    pairs = list(itertools.combinations(range(len(PEOPLE)), 2))
    cosine = {(i, j): float(UNIT[j] @ UNIT[i]) for i, j in pairs}
    impostors = [pair for pair in pairs if PEOPLE[pair[0]] != PEOPLE[pair[1]]]
    genuine = [pair for pair in pairs if PEOPLE[pair[0]] == PEOPLE[pair[1]]]
    rows = calibrate_thresholds(UNIT, PEOPLE, replicates=50)
    assert [row.fmr for row in rows] == [rate for rate in (0.1, 0.01, 0.001) if len(impostors) * rate >= 3]
    generator = np.random.default_rng(0)
    draws = [np.bincount(generator.integers(12, size=12), minlength=12) for _ in range(50)]
    for row in rows:
        false = [pair for pair in impostors if cosine[pair] >= row.threshold - 1e-6]
        missed = [pair for pair in genuine if cosine[pair] < row.threshold - 1e-6]
        assert row.false_matches == len(false) <= row.fmr * len(impostors)
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


def test_one_person_has_no_thresholds() -> None:
    with pytest.raises(ValueError, match="pairs of one person and pairs of two"):
        calibrate_thresholds(UNIT[:4], [0, 0, 0, 0])
    with pytest.raises(ValueError, match="pairs of one person and pairs of two"):
        calibrate_thresholds(UNIT[:4], [0, 1, 2, 3])
