"""The difference of two systems on the same pairs, against plain loops and cases with a known answer."""

import random

import numpy as np
import pytest

from hypersphere.evaluation import paired_difference


def test_against_plain_loops() -> None:
    rng = random.Random(0)
    people = [(i % 7, (i * i) % 7) for i in range(60)]
    first = [rng.random() < 0.8 for _ in people]
    second = [rng.random() < 0.6 for _ in people]
    draws = np.random.default_rng(3)
    values = []
    for _ in range(200):
        drawn = draws.integers(7, size=7).tolist()
        total = weights = 0.0
        for (left, right), one, other in zip(people, first, second, strict=True):
            weight = drawn.count(left) if left == right else drawn.count(left) * drawn.count(right)
            total += weight * (one - other)
            weights += weight
        values.append(total / weights)
    result = paired_difference(first, second, people, replicates=200, seed=3)
    assert result.value == pytest.approx((sum(first) - sum(second)) / 60)
    assert (result.low, result.high) == pytest.approx(np.percentile(values, [2.5, 97.5]))


def test_equal_systems_do_not_differ() -> None:
    right = np.arange(50) % 3 == 0
    result = paired_difference(right, right, np.stack([np.arange(50) % 5] * 2, 1))
    assert (result.value, result.low, result.high) == (0, 0, 0)


def test_one_persons_errors_count_as_one() -> None:
    person = np.repeat(np.arange(20), 50)
    people = np.stack([person, person], 1)
    one_is_hard = np.where(person == 0, False, True)
    spread = np.arange(1000) % 20 != 0
    always = np.ones(1000, bool)
    clustered, even = (paired_difference(always, right, people) for right in (one_is_hard, spread))
    assert clustered.value == even.value == pytest.approx(0.05)
    assert clustered.low == 0
    assert clustered.high > 0.1
    assert even.low == pytest.approx(0.04, abs=0.011)


def test_no_weight_is_drawn_again() -> None:
    assert paired_difference([True], [False], [[0, 1]], replicates=20).low == 1


@pytest.mark.parametrize(
    ("first", "people", "replicates", "message"),
    [
        ([True], [[0, 0], [0, 1]], 10, r"decisions \(1,\) and people \(2, 2\)"),
        ([True], [[0, -1]], 10, "people hold -1; number them from 0"),
        ([True], [[0, 1]], 0, "replicates"),
    ],
)
def test_bad_input(first: list[bool], people: list[list[int]], replicates: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        paired_difference(first, first, people, replicates=replicates)
