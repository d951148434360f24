"""Verdicts: each of the three, on evidence made up for it."""

import math

import pytest

from hypersphere_papers.engine.verdict import (
    MARGIN,
    VERDICTS,
    Interval,
    every,
    judge,
    most,
    of_correlation,
    over_seeds,
)
from hypersphere_papers.laboratory import Entry, Job

JOB = Job(entry=Entry(id="p/table1", title="t", kind="real", needs="MNIST", claim="c."))


@pytest.mark.parametrize(
    ("interval", "better", "as_good"),
    [
        (Interval(1.0, 0.5, 1.5, (0.8, 1.2)), "held", "held"),
        (Interval(1.0, 0.5, 1.5, (-0.1, 2.1)), "undecided", "held"),
        (Interval(0.2, -0.5, 0.9, (0.1, 0.3)), "undecided", "undecided"),
        (Interval(0.2, -0.4, 0.9, (0.1, 0.3)), "undecided", "held"),
        (Interval(-0.3, -0.4, -0.2, (-0.3, -0.3)), "contradicted", "held"),
        (Interval(-0.6, -0.9, -0.3, (-0.6, -0.6)), "contradicted", "undecided"),
        (Interval(-1.0, -1.5, -0.6, (-0.8, -1.2)), "contradicted", "contradicted"),
        (Interval(-1.0, -1.5, -0.6, (-2.1, 0.1)), "undecided", "undecided"),
        (Interval(math.nan, math.nan, math.nan), "undecided", "undecided"),
        (None, "undecided", "undecided"),
    ],
)
def test_the_whole_interval_and_every_seed_decide(interval: Interval | None, better: str, as_good: str) -> None:
    assert MARGIN == 0.5
    assert (judge(interval), judge(interval, margin=MARGIN)) == (better, as_good)


def test_equal_signs_of_three_seeds_are_not_enough() -> None:
    assert judge(over_seeds([0.1, 2.0, 10.0])) == "undecided"
    assert judge(over_seeds([1.9, 2.0, 2.1])) == "held"
    assert judge(over_seeds([-1.9, -2.0, -2.1])) == "contradicted"


def test_one_run_and_a_run_without_a_number_have_no_interval() -> None:
    assert over_seeds([3.0]) is None
    assert over_seeds([3.0, math.nan, 3.0]) is None


def test_students_interval_of_the_seeds() -> None:
    found = over_seeds([1.0, 2.0, 4.0])
    assert found is not None
    assert found.value == pytest.approx(7 / 3)
    assert found.half_width == pytest.approx(4.302653 * math.sqrt(7 / 3) / math.sqrt(3), rel=1e-6)
    assert found.seeds == (1.0, 2.0, 4.0)


def test_fishers_interval_of_a_correlation() -> None:
    found = of_correlation(0.28, 10)
    assert found is not None
    assert math.atanh(found.high) - math.atanh(found.low) == pytest.approx(2 * 1.96 / math.sqrt(7))
    assert judge(found) == "undecided"
    assert judge(of_correlation(0.57, 100)) == "held"
    assert of_correlation(math.nan, 10) is None


def test_most_and_every() -> None:
    held, contradicted, undecided = VERDICTS
    assert most([held, held, contradicted]) == held
    assert most([held, undecided, undecided]) == undecided
    assert most([contradicted, contradicted, held]) == contradicted
    assert every([held, held]) == held
    assert every([held, undecided]) == undecided
    assert every([undecided, contradicted]) == contradicted
    assert every([]) == undecided


def test_a_finding_says_what_it_could_have_seen() -> None:
    found = JOB.judged(Interval(0.2, -0.4, 0.8), "+0.20")
    assert (found.what, found.verdict, found.detectable, found.note) == ("c.", "undecided", 0.6, "")
    one = JOB.judged(None, "+0.20", sentence="s")
    assert (one.what, one.verdict, one.detectable, one.note) == ("s", "undecided", None, "no interval: one run")


def test_a_withheld_verdict_is_kept() -> None:
    found = JOB.judged(Interval(1.0, 0.5, 1.5), "+1.00", problem="it did not fit")
    assert (found.verdict, found.alone, found.note) == ("undecided", "held", "it did not fit")
