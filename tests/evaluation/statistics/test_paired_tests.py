"""Paired tests against exact binomials, plain loops and simulation."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from hypersphere.evaluation import (
    Difference,
    Matches,
    NotMeasurable,
    Roc,
    compare_accuracy,
    compare_repeated,
    compare_tar,
    mcnemar,
    open_set_roc,
    roc_curve,
)
from hypersphere.evaluation.metrics.identification import open_set_scores
from hypersphere.evaluation.statistics.paired_tests import (
    Reading,
    compare_curves,
    compare_lowered,
    compare_open_set,
    compare_trials,
)


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
    assert result.estimate.value == pytest.approx((second - first) / total)
    assert result.estimate.low <= result.estimate.value <= result.estimate.high
    assert result.estimate.low < result.estimate.high


def test_mcnemar_by_hand() -> None:
    result = mcnemar(*decisions(80, 1, 9, 10))
    assert result.p_value == pytest.approx(2 * 11 / 1024)
    assert result.estimate.low > 0


def test_accuracies_against_plain_loops() -> None:
    rng = random.Random(0)
    left, right = [i % 7 for i in range(60)], [(i * i) % 7 for i in range(60)]
    first, second = ([rng.random() < share for _ in left] for share in (0.6, 0.8))
    draws = np.random.default_rng(3)
    values = []
    for _ in range(200):
        drawn = draws.integers(7, size=7).tolist()
        total = weights = 0.0
        for one, other, before, after in zip(left, right, first, second, strict=True):
            weight = drawn.count(one) if one == other else drawn.count(one) * drawn.count(other)
            total += weight * (after - before)
            weights += weight
        values.append(total / weights)
    result = compare_accuracy(first, second, subjects=(left, right), replicates=200, seed=3)
    assert result.estimate.value == pytest.approx((sum(second) - sum(first)) / 60)
    assert (result.estimate.low, result.estimate.high) == pytest.approx(np.percentile(values, [2.5, 97.5]))
    least = min(sum(v <= 0 for v in values), sum(v >= 0 for v in values))
    assert result.p_value == pytest.approx(min(1, 2 * (1 + least) / 201))
    assert (result.estimate.n, result.test) == (60, "paired bootstrap over subjects")


def test_repeated_runs_against_plain_loops() -> None:
    rng = random.Random(1)
    left, right = [i % 7 for i in range(60)], [(i * i) % 7 for i in range(60)]
    first, second = ([[rng.random() < share for _ in left] for _ in range(n)] for share, n in ((0.6, 2), (0.8, 3)))
    draws, choices = np.random.default_rng(3), np.random.default_rng([3, 1])
    values = []
    for _ in range(100):
        drawn = draws.integers(7, size=7).tolist()
        one, two = (choices.integers(len(runs), size=len(runs)).tolist() for runs in (first, second))
        total = weights = 0.0
        for pair, (a, b) in enumerate(zip(left, right, strict=True)):
            weight = drawn.count(a) if a == b else drawn.count(a) * drawn.count(b)
            after, before = sum(second[run][pair] for run in two) / 3, sum(first[run][pair] for run in one) / 2
            total += weight * (after - before)
            weights += weight
        values.append(total / weights)
    result = compare_repeated(first, second, subjects=(left, right), seeds="independent", replicates=100, seed=3)
    assert result.estimate.value == pytest.approx(np.mean(second) - np.mean(first))
    assert (result.estimate.low, result.estimate.high) == pytest.approx(np.percentile(values, [2.5, 97.5]))
    assert result.test == "paired bootstrap over subjects and runs"
    with pytest.raises(ValueError, match="first has 60 items, second 59"):
        compare_repeated(first, [run[1:] for run in second], subjects=(left, right))
    with pytest.raises(ValueError, match="first has 2 runs, second 3; runs of different seeds are 'independent'"):
        compare_repeated(first, second, subjects=(left, right))
    with pytest.raises(ValueError, match="seeds='both' must be"):
        compare_repeated(first, second, subjects=(left, right), seeds="both")  # type: ignore[arg-type]


def test_paired_seeds_are_drawn_together_and_items_weighed() -> None:
    rng = random.Random(2)
    left, right = [i % 7 for i in range(60)], [(i * i) % 7 for i in range(60)]
    share = [1 + i % 3 for i in range(60)]
    first, second = ([[rng.random() for _ in left] for _ in range(3)] for _ in range(2))
    draws, choices = np.random.default_rng(3), np.random.default_rng([3, 1])
    values = []
    for _ in range(100):
        drawn = draws.integers(7, size=7).tolist()
        runs = choices.integers(3, size=3).tolist()
        total = weights = 0.0
        for pair, (a, b) in enumerate(zip(left, right, strict=True)):
            weight = share[pair] * (drawn.count(a) if a == b else drawn.count(a) * drawn.count(b))
            total += weight * sum(second[run][pair] - first[run][pair] for run in runs) / 3
            weights += weight
        values.append(total / weights)
    result = compare_repeated(first, second, subjects=(left, right), weights=share, replicates=100, seed=3)
    means = np.mean(second, axis=0) - np.mean(first, axis=0)
    assert result.estimate.value == pytest.approx(np.average(means, weights=share))
    assert (result.estimate.low, result.estimate.high) == pytest.approx(np.percentile(values, [2.5, 97.5]))
    assert result.test == "paired bootstrap over subjects and seeds"


def test_seeds_that_gain_alike_have_a_narrower_interval_paired_than_independent() -> None:
    people = np.arange(200)
    rng = np.random.default_rng(0)
    level = np.array([0.5, 0.7, 0.9])[:, None]  # what the seed alone decides
    first, second = (rng.random((3, 200)) < level + gain for gain in (0.0, 0.05))
    paired, independent = (
        compare_repeated(first, second, subjects=(people, people), seeds=how).estimate
        for how in ("paired", "independent")
    )
    assert paired.value == pytest.approx(independent.value)
    assert paired.high - paired.low < 0.7 * (independent.high - independent.low)


def test_equal_decisions_do_not_differ() -> None:
    right, people = np.arange(50) % 3 == 0, np.arange(50) % 5
    result = compare_accuracy(right, right, subjects=(people, people))
    assert (result.estimate.value, result.estimate.low, result.estimate.high, result.p_value) == (0, 0, 0, 1)


def test_one_persons_errors_count_as_one() -> None:
    person = np.repeat(np.arange(20), 50)
    one_is_hard, spread, always = person != 0, np.arange(1000) % 20 != 0, np.ones(1000, bool)
    clustered, even = (compare_accuracy(right, always, subjects=(person, person)) for right in (one_is_hard, spread))
    assert clustered.estimate.value == even.estimate.value == pytest.approx(0.05)
    assert clustered.estimate.low == 0
    assert clustered.estimate.high > 0.1
    assert even.estimate.low == pytest.approx(0.04, abs=0.011)


def test_draws_without_a_pair_are_left_out() -> None:
    assert compare_accuracy([False], [True], subjects=([0], [1]), replicates=20).estimate.low == 1
    with pytest.raises(ValueError, match="too few subjects"):
        compare_accuracy([False], [True], subjects=([0], [1]), replicates=1, seed=0)
    with pytest.raises(ValueError, match="lists of the same pairs"):
        compare_accuracy([True], [True, False], subjects=([0], [1]))


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
    assert better.estimate.low > 0
    assert better.test == "paired bootstrap over subjects"
    swapped = compare_tar(second, first, same, 0.01, subjects=subjects, replicates=200)
    assert isinstance(swapped, Difference)
    assert swapped.estimate.value == -better.estimate.value
    assert swapped.p_value == better.p_value
    equal = compare_tar(first, first, same, 0.01, subjects=subjects, replicates=50)
    assert isinstance(equal, Difference)
    assert (equal.estimate.value, equal.p_value) == (0, 1)


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


def test_readings_share_their_draws() -> None:
    first, second, same, subjects = simulated(0, 0.3)
    readings = [Reading(Roc.eer, 600), Reading(lambda roc: roc.tar_at(0.05), 600)]
    equal_error, tar = compare_curves(first, second, same, readings, subjects=subjects, replicates=60, seed=5)
    assert tar == compare_tar(first, second, same, 0.05, subjects=subjects, replicates=60, seed=5)
    assert equal_error.estimate.value == pytest.approx(roc_curve(second, same).eer() - roc_curve(first, same).eer())
    assert equal_error.estimate.high < 0


def test_open_sets_against_plain_loops() -> None:
    rng = np.random.default_rng(2)
    people, galleries = np.repeat(np.arange(20), 6), [np.arange(10), np.arange(10, 20)]
    systems: list[list[np.ndarray]] = [[], []]
    mates = []
    for gallery in galleries:
        for system, strength in zip(systems, (0.6, 1.5), strict=True):
            table = rng.normal(size=(120, 10)) + strength * (people[:, None] == gallery)
            order = np.argsort(-table, axis=1)
            scores = np.take_along_axis(table, order, axis=1).astype(np.float32)
            matches = Matches(order, scores)
            system.append(open_set_scores(matches, people, gallery, 1)[0])
            assert open_set_roc(matches, people, gallery).impostors == 60
        mates.append(np.isin(people, gallery))

    def rate(scores: np.ndarray, mated: np.ndarray, times: np.ndarray) -> float:
        own = [(s, t) for s, m, t in zip(scores, mated, times, strict=True) if m]
        others = [(s, t) for s, m, t in zip(scores, mated, times, strict=True) if not m]
        best = 0.0
        for threshold in sorted({s for s, _ in own + others if np.isfinite(s)}):
            wrong = sum(t for s, t in others if s >= threshold) / sum(t for _, t in others)
            if wrong <= 0.2:
                best = max(best, sum(t for s, t in own if s >= threshold) / sum(t for _, t in own))
        return best

    def mean_rate(system: list[np.ndarray], times: np.ndarray) -> float:
        return sum(rate(scores, mated, times) for scores, mated in zip(system, mates, strict=True)) / 2

    found = compare_open_set(*systems, mates, 0.2, subjects=people, replicates=8, seed=1)  # type: ignore[arg-type, misc]
    assert isinstance(found, Difference)
    everyone = np.ones(120)
    assert found.estimate.value == pytest.approx(mean_rate(systems[1], everyone) - mean_rate(systems[0], everyone))
    draws, values = np.random.default_rng(1), []
    for _ in range(8):
        times = np.bincount(draws.integers(20, size=20), minlength=20)[people]
        values.append(mean_rate(systems[1], times) - mean_rate(systems[0], times))
    low, high = np.percentile(values, [2.5, 97.5])
    assert (found.estimate.low, found.estimate.high) == pytest.approx(
        (min(low, found.estimate.value), max(high, found.estimate.value))
    )
    assert compare_open_set(*systems, mates, 1e-3, subjects=people) == NotMeasurable(60, 3000)  # type: ignore[arg-type, call-arg, misc]


def test_trials_by_the_paired_t_test() -> None:
    rng = np.random.default_rng(4)
    first = rng.normal(0.9, 0.02, 10)
    second = first + rng.normal(0.01, 0.01, 10)
    found, wanted = compare_trials(first, second), ttest_rel(second, first)
    assert found.p_value == pytest.approx(wanted.pvalue)
    bounds = wanted.confidence_interval()
    assert (found.estimate.low, found.estimate.high) == pytest.approx((bounds.low, bounds.high))
    assert (compare_trials(first, first).p_value, compare_trials(first, first + 1).p_value) == (1, pytest.approx(0))  # type: ignore[comparison-overlap]
    lowered = compare_lowered(first, second, replicates=200)
    assert lowered.estimate.value == pytest.approx(
        second.mean() - np.std(second, ddof=1) - first.mean() + np.std(first, ddof=1)
    )
    assert lowered.estimate.low < lowered.estimate.value < lowered.estimate.high
    same = compare_lowered(first, first, replicates=20)
    assert (same.estimate.low, same.estimate.high, same.p_value) == (0, 0, 1)
