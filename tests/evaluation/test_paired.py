"""Paired tests against exact binomials and simulation."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersphere.evaluation import Difference, NotMeasurable, compare_tar, mcnemar


def decisions(both: int, first: int, second: int, neither: int) -> tuple[np.ndarray, np.ndarray]:
    pairs = [(1, 1)] * both + [(1, 0)] * first + [(0, 1)] * second + [(0, 0)] * neither
    return np.array([p[0] for p in pairs], dtype=bool), np.array([p[1] for p in pairs], dtype=bool)


@given(st.integers(0, 50), st.integers(0, 40), st.integers(0, 40), st.integers(1, 20))
def test_mcnemar_is_the_exact_binomial(both: int, first: int, second: int, neither: int) -> None:
    result = mcnemar(*decisions(both, first, second, neither))
    changed, least = first + second, min(first, second)
    tail = sum(Fraction(math.comb(changed, k), 2**changed) for k in range(least + 1))
    assert result.p_value == pytest.approx(float(min(Fraction(1), 2 * tail)))
    total = both + first + second + neither
    assert result.figure.value == pytest.approx((second - first) / total)
    assert result.figure.low <= result.figure.value <= result.figure.high
    assert result.figure.low < result.figure.high


def test_mcnemar_by_hand() -> None:
    result = mcnemar(*decisions(80, 1, 9, 10))
    assert result.p_value == pytest.approx(2 * 11 / 1024)
    assert result.figure.low > 0


def simulated(seed: int, shift: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(seed)
    left = np.repeat(np.arange(60), 20)
    same = np.tile(np.arange(20) < 10, 60)
    right = np.where(same, left, (left + 1 + generator.integers(59, size=1200)) % 60)
    common = 2 * same + generator.normal(0, 0.7, 60)[left] + generator.normal(0, 0.5, 1200)
    first, second = (common + generator.normal(0, 0.3, 1200) for _ in range(2))
    return first, second + shift * same, same, (left, right)


def test_a_better_system_is_found_better_and_the_same_is_not() -> None:
    first, second, same, subjects = simulated(0, 1.0)
    better = compare_tar(first, second, same, 0.01, subjects=subjects, replicates=200)
    assert isinstance(better, Difference)
    assert better.p_value < 0.02
    assert better.figure.low > 0
    assert better.test == "paired bootstrap over subjects"
    swapped = compare_tar(second, first, same, 0.01, subjects=subjects, replicates=200)
    assert isinstance(swapped, Difference)
    assert swapped.figure.value == -better.figure.value
    assert swapped.p_value == better.p_value
    equal = compare_tar(first, first, same, 0.01, subjects=subjects, replicates=50)
    assert isinstance(equal, Difference)
    assert (equal.figure.value, equal.p_value) == (0, 1)


def test_equal_systems_are_seldom_called_different() -> None:
    alarms = 0
    for seed in range(40):
        first, second, same, subjects = simulated(seed, 0.0)
        result = compare_tar(first, second, same, 0.05, subjects=subjects, replicates=100)
        assert isinstance(result, Difference)
        alarms += result.p_value < 0.05
    assert alarms <= 6


def test_what_cannot_be_measured_cannot_be_compared() -> None:
    first, second, same, _ = simulated(0, 0.0)
    assert compare_tar(first, second, same, 1e-3) == NotMeasurable(600, 3000)
    with pytest.raises(ValueError, match="lists of the same pairs"):
        mcnemar([True], [True, False])
