"""Holm's correction within an item, and what chance alone would decide."""

import math

import pytest
from scipy.stats import ttest_1samp

from hypersphere_papers.engine.multiplicity import by_chance, corrected
from hypersphere_papers.engine.outcome import Finding
from hypersphere_papers.engine.verdict import ALIKE, BETTER, NO_WORSE, Interval, over_seeds


def judged(p: float | None, verdict: str = "held") -> Finding:
    return Finding(what=f"p = {p}", ours="1", verdict=verdict, p_value=p, note="why")  # type: ignore[arg-type]


def test_holm_by_hand() -> None:
    found = corrected([judged(0.01), judged(0.04), judged(0.03, "contradicted"), judged(0.005), judged(None)])
    # 4 x 0.005 and 3 x 0.01 are below 0.05; 2 x 0.03 is not, and what comes after it is not either
    assert [each.verdict for each in found] == ["held", "undecided", "undecided", "held", "held"]
    assert [each.alone for each in found] == [None, "held", "contradicted", None, None]
    assert found[2].note == "undecided as one of 4 sentences (Holm): p = 0.03; why"
    assert corrected([judged(0.04)])[0].verdict == "held"
    assert corrected([]) == []


def test_what_chance_would_decide() -> None:
    items = [[judged(0.01), judged(0.2, "undecided")], [judged(None)], [judged(0.5, "undecided")]]
    assert by_chance(items) == pytest.approx((3, 0.15, 0.1))


def test_the_p_value_of_a_few_seeds_is_students() -> None:
    values = [1.0, 2.0, 4.0]
    found = over_seeds(values)
    assert found is not None
    assert found.p_value() == pytest.approx(ttest_1samp(values, 0.0).pvalue)
    assert found.p_value(-0.5) == pytest.approx(ttest_1samp(values, -0.5).pvalue)


@pytest.mark.parametrize("low", [-0.3, 0.0, 0.3])
def test_it_is_below_a_twentieth_where_the_interval_leaves_nothing_out(low: float) -> None:
    assert Interval(1.0, low, 3.0).p_value() == pytest.approx(0.05) if low == 0 else True
    assert (Interval(1.0, low, 3.0).p_value() < 0.05) == (low > 0)
    assert (Interval(-1.0, -3.0, -low).p_value() < 0.05) == (low > 0)


def test_of_at_least_as_good_it_is_that_of_the_margin() -> None:
    close = Interval(-0.1, -0.3, 0.1)
    assert BETTER.p_value(close) > 0.05
    assert NO_WORSE.p_value(close) < 0.05
    assert ALIKE.p_value(close) == pytest.approx(max(close.p_value(-0.5), close.p_value(0.5)))
    assert ALIKE.p_value(Interval(2.0, 1.5, 2.5)) < 0.05
    assert (ALIKE(close), ALIKE(Interval(2.0, 1.5, 2.5))) == ("held", "contradicted")
    assert Interval(1.0, 1.0, 1.0).p_value() == 0.0
    assert math.isnan(Interval(math.nan, math.nan, math.nan).p_value())
