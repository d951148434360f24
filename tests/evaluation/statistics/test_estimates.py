"""Intervals against sums of the binomial distribution, and by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersphere.evaluation.statistics.estimate import (
    NotMeasurable,
    Z,
    area_interval,
    check_measurable,
    clopper_pearson_interval,
    guaranteed_proportion,
    proportion,
    rate_name,
    wilson_interval,
)

COUNTS = st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def tail(hits: int, total: int, p: float) -> float:
    """P(X >= hits) of a binomial."""
    return sum(math.comb(total, k) * p**k * (1 - p) ** (total - k) for k in range(hits, total + 1))


@given(COUNTS)
def test_clopper_pearson_against_the_binomial(counts: tuple[int, int]) -> None:
    hits, total = counts
    low, high = clopper_pearson_interval(hits, total)
    assert low <= hits / total <= high
    assert (low == 0) if hits == 0 else tail(hits, total, low) == pytest.approx(0.025)
    assert (high == 1) if hits == total else 1 - tail(hits + 1, total, high) == pytest.approx(0.025)


def test_clopper_pearson_of_no_error_among_many() -> None:
    assert clopper_pearson_interval(0, 10**8)[1] == pytest.approx(1 - 0.025 ** (1 / 10**8), rel=1e-6)


@given(COUNTS)
def test_the_ends_of_wilson_are_z_deviations_away(counts: tuple[int, int]) -> None:
    hits, total = counts
    low, high = wilson_interval(hits, total)
    assert low <= hits / total <= high
    for end in (low, high):
        assert abs(hits / total - end) == pytest.approx(Z * math.sqrt(end * (1 - end) / total), abs=1e-9)


def test_wilson_by_hand() -> None:
    assert wilson_interval(9, 10) == (pytest.approx(0.5958, abs=1e-4), pytest.approx(0.9821, abs=1e-4))  # type: ignore[comparison-overlap]


@settings(deadline=None)
@given(st.floats(0, 1), st.integers(1, 5000), st.integers(1, 5000))
def test_the_interval_of_an_area_solves_its_equation(area: float, genuine: int, impostors: int) -> None:
    low, high = area_interval(area, genuine, impostors)
    assert 0 <= low <= area <= high <= 1
    spread = (genuine + impostors) / 2 - 1
    for end in {low, high} - {0.0, 1.0, area}:
        variance = end * (1 - end) * (1 + spread * (1 - end) / (2 - end) + spread * end / (1 + end))
        assert (area - end) ** 2 == pytest.approx(Z * Z * variance / (genuine * impostors), rel=1e-6, abs=1e-12)


def test_a_perfect_area_is_not_certain() -> None:
    low, high = area_interval(1.0, 30, 30)
    assert low < 0.95
    assert high == 1


def test_the_area_interval_covers() -> None:
    generator = np.random.default_rng(0)
    truth, covered = 0.921350396, 0  # Phi(2 / sqrt 2)
    for _ in range(400):
        genuine, impostors = generator.normal(2, 1, 40), generator.normal(0, 1, 60)
        low, high = area_interval(float((genuine[:, None] > impostors).mean()), 40, 60)
        covered += low <= truth <= high
    assert covered > 0.92 * 400


def test_estimates_in_words() -> None:
    estimate = proportion(5950, 6000)
    assert f"{estimate:.2%}" == "99.17% [98.90%, 99.37%], n=6,000"
    assert str(estimate).startswith("0.9917 [0.989")
    assert guaranteed_proportion(0, 10).interval == "clopper-pearson"
    assert str(NotMeasurable(2999, 3000)) == f"{NotMeasurable(2999, 3000):.2%}" == "not measurable with n=2,999"


@pytest.mark.parametrize("rate", [0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6, 3e-4, 0.07])
def test_three_expected_errors_make_a_rate_measurable(rate: float) -> None:
    needed = math.ceil(round(3 / rate, 6))
    assert check_measurable(rate, needed) is None
    assert check_measurable(rate, needed - 1) == NotMeasurable(needed - 1, needed)


def test_names_of_operating_points() -> None:
    assert [rate_name("tar@far", rate) for rate in (0.1, 1e-3, 5e-4, 1e-6, 1.0)] == [
        "tar@far=1e-1",
        "tar@far=1e-3",
        "tar@far=5e-4",
        "tar@far=1e-6",
        "tar@far=1e0",
    ]


def test_bad_counts() -> None:
    for hits, total in ((1, 0), (-1, 5), (6, 5)):
        with pytest.raises(ValueError, match="must lie between 0 and total"):
            wilson_interval(hits, total)
    with pytest.raises(ValueError, match="rate=0 must be above 0"):
        check_measurable(0.0, 10)
