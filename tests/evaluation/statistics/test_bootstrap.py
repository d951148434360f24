"""The bootstrap by weights is the bootstrap by copies, and its intervals cover."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersphere.evaluation import bootstrap_mean, bootstrap_roc, roc_curve
from hypersphere.evaluation.statistics.bootstrap import PairWeights, WeightedRoc, percentile_estimate, subject_draws
from tests.evaluation import reference


@settings(deadline=None)
@given(reference.PAIRS, st.integers(0, 100))
def test_a_weighted_curve_is_that_of_copied_pairs(pairs: list[tuple[int, bool]], seed: int) -> None:
    scores, same = reference.split(pairs)
    weights = np.random.default_rng(seed).integers(0, 4, len(scores))
    found = WeightedRoc(scores, same).roc(weights)
    copies, truth = np.repeat(scores, weights), np.repeat(same, weights)
    if truth.all() or not truth.any():
        assert found is None
        return
    assert found is not None
    expected = roc_curve(copies, truth)
    assert found.auc() == expected.auc()
    assert found.eer() == pytest.approx(expected.eer(), abs=1e-15)
    for far in (0.0, 0.1, 0.3, 0.5, 1.0):
        assert found.tar_at(far) == expected.tar_at(far)


def test_pairs_weigh_as_often_as_their_people_are_drawn() -> None:
    left, right = np.array([7, 7, 3, 9]), np.array([7, 3, 3, 3])
    for drawn, weights in zip(
        subject_draws(3, 20, seed=5), PairWeights(4, (left, right)).draws(20, seed=5), strict=True
    ):
        times = dict(zip([3, 7, 9], drawn.tolist(), strict=True))
        assert drawn.sum() == 3
        assert weights.tolist() == [times[7], times[7] * times[3], times[3], times[9] * times[3]]


def test_the_mean_by_weights_is_the_mean_of_copied_samples() -> None:
    values, people = np.array([0.1, 0.5, 0.9, 0.3, 0.2]), np.array([4, 4, 2, 8, 8])
    estimate = bootstrap_mean(values, people, replicates=50, seed=3)
    means = []
    for drawn in subject_draws(3, 50, seed=3):
        times = dict(zip([2, 4, 8], drawn.tolist(), strict=True))
        means.append(np.mean([v for v, p in zip(values, people, strict=True) for _ in range(times[int(p)])]))
    assert estimate.value == pytest.approx(0.4)
    assert [estimate.low, estimate.high] == pytest.approx(np.quantile(means, [0.025, 0.975]).tolist())
    assert (estimate.n, estimate.interval) == (5, "bootstrap over subjects")


def test_a_seed_decides() -> None:
    values = np.random.default_rng(0).random(30)
    assert bootstrap_mean(values, seed=1) == bootstrap_mean(values, seed=1) != bootstrap_mean(values, seed=2)


def test_the_interval_over_subjects_covers() -> None:
    generator, covered = np.random.default_rng(0), 0
    people = np.repeat(np.arange(50), 10)
    for _ in range(200):
        values = 0.5 + np.repeat(generator.normal(0, 0.1, 50), 10) + generator.normal(0, 0.05, 500)
        estimate = bootstrap_mean(values, people, replicates=200)
        covered += estimate.low <= 0.5 <= estimate.high
    assert covered >= 0.89 * 200


def test_too_few_subjects() -> None:
    with pytest.raises(ValueError, match="too few subjects"):
        bootstrap_roc([0.1, 0.2], [True, False], lambda roc: [roc.auc()], replicates=1, seed=4)
    with pytest.raises(ValueError, match="replicates=0"):
        bootstrap_mean([0.1], replicates=0)
    with pytest.raises(ValueError, match="subjects has shape"):
        bootstrap_mean([0.1, 0.2], [1])


def test_a_share_never_has_an_interval_without_width() -> None:
    drawn = np.zeros(1000)
    drawn[:5] = 0.01
    estimate = percentile_estimate(0.0, drawn, 400, 40, "bootstrap over subjects")
    assert estimate.interval == "wilson over subjects"
    assert estimate.low < estimate.high
    assert percentile_estimate(0.5, np.full(9, 0.5), 9, 9, "bootstrap over classes", share=False).low == 0.5


def test_nothing_to_read_off_the_curve_is_no_error() -> None:
    drawn = bootstrap_roc([0.9, 0.8, 0.1, 0.2], [True, True, False, False], lambda roc: [], replicates=20)
    assert drawn.shape == (20, 0)
