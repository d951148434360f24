"""Verdicts: one rule for every sentence that was measured, whatever it was measured on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from hypersphere.evaluation import compare_repeated

Verdict = Literal["held", "contradicted", "undecided"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
MARGIN = 0.5
"""Points of accuracy by which something may be worse and still be "at least as good"."""
FITTED = 95.0
"""Per cent of its training images that a run must classify rightly to be a test of its loss."""


@dataclass(frozen=True)
class Interval:
    """How far a number is on the side that a sentence claims; negative on the other side.

    Args:
        value: the mean.
        low, high: of 95 %, over people and runs, over runs alone (Student's), or over classes (Fisher's).
        seeds: of every run alone, where there are several.
        df: degrees of freedom of Student's distribution; infinite for the others.
    """

    value: float
    low: float
    high: float
    seeds: tuple[float, ...] = ()
    df: float = math.inf

    @property
    def half_width(self) -> float:
        """The least effect that could have been told from none."""
        return (self.high - self.low) / 2

    def text(self) -> str:
        """`+1.20 (+0.80 to +1.60; seeds +0.50, +1.20, +1.90)`."""
        each = ", ".join(f"{value:+.2f}" for value in self.seeds)
        return f"{self.value:+.2f} ({self.low:+.2f} to {self.high:+.2f}{f'; seeds {each}' if each else ''})"

    def p_value(self, null: float = 0.0) -> float:
        """Two-sided, of the value `null`: below 0.05 where the interval does not contain it.

        The standard error is that of the side of the interval that is nearer to `null`.
        """
        from scipy.stats import t

        distance = abs(self.value - null)
        width = self.value - self.low if self.value > null else self.high - self.value
        if not width > 0:
            return math.nan if math.isnan(distance) else float(distance == 0)
        return float(2 * t.sf(distance * float(t.ppf(0.975, self.df)) / width, self.df))


@dataclass(frozen=True)
class Rule:
    """Makes a verdict of an amount on the claimed side.

    Args:
        margin: of non-inferiority, for "at least as good"; 0 for "better".
        both_sides: of "about as good": within the margin on both sides.
    """

    margin: float = 0.0
    both_sides: bool = False

    def __call__(self, interval: Interval | None) -> Verdict:
        """Return the verdict."""
        verdict = judge(interval, margin=self.margin)
        if interval is None or not self.both_sides:
            return verdict
        other = Interval(-interval.value, -interval.high, -interval.low, tuple(-seed for seed in interval.seeds))
        return every([verdict, judge(other, margin=self.margin)])

    def p_value(self, interval: Interval) -> float:
        """Return how often chance alone would decide so surely."""
        p = interval.p_value(-self.margin)
        if not self.both_sides:
            return p
        other = interval.p_value(self.margin)
        return max(p, other) if abs(interval.value) < self.margin else min(p, other)


def judge(interval: Interval | None, *, margin: float = 0.0) -> Verdict:
    """The rule: held where the whole interval and every seed are above -margin, contradicted where they are below.

    Everything else is undecided: an interval that contains -margin, seeds that disagree, a number that is none, and no
    interval at all. Equal signs of a few seeds do not make an interval.

    Args:
        interval: of the amount on the claimed side.
        margin: of non-inferiority, for "at least as good"; 0 for "better".
    """
    if interval is None:
        return "undecided"
    numbers = (interval.low, interval.high, *interval.seeds)
    if all(number > -margin for number in numbers):
        return "held"
    return "contradicted" if all(number < -margin for number in numbers) else "undecided"


BETTER, NO_WORSE, ALIKE = Rule(), Rule(MARGIN), Rule(MARGIN, both_sides=True)


def exactly(held: bool) -> Verdict:
    """The verdict on what was computed, not measured."""
    return "held" if held else "contradicted"


def rounded_down(share: float) -> str:
    """Per cent with one digit, so that 94.96 is not printed as 95.0; 94.4 stays so where a sum missed it by 1e-14."""
    return f"{math.floor(10 * round(share, 6)) / 10:.1f}"


def most(verdicts: Sequence[Verdict]) -> Verdict:
    """Of "in most cases": held where more than half of the cases are, contradicted where more than half are."""
    for verdict in ("held", "contradicted"):
        if 2 * sum(each == verdict for each in verdicts) > len(verdicts):
            return verdict
    return "undecided"


def every(verdicts: Sequence[Verdict]) -> Verdict:
    """Of "in all cases": held where all are, contradicted where one is."""
    if "contradicted" in verdicts:
        return "contradicted"
    return "held" if verdicts and all(verdict == "held" for verdict in verdicts) else "undecided"


def over_seeds(values: npt.ArrayLike) -> Interval | None:
    """Student's 95 % interval of the mean of a few runs; None of fewer than two, or where one of them is no number."""
    from scipy.stats import t

    numbers = np.asarray(values, dtype=np.float64)
    if len(numbers) < 2 or not np.isfinite(numbers).all():
        return None
    mean = float(numbers.mean())
    half = float(t.ppf(0.975, len(numbers) - 1)) * float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    return Interval(mean, mean - half, mean + half, tuple(float(number) for number in numbers), len(numbers) - 1)


def gain_of(
    worse: npt.NDArray[np.float64],
    better: npt.NDArray[np.float64],
    subjects: tuple[npt.ArrayLike, npt.ArrayLike],
    weights: npt.ArrayLike | None = None,
) -> Interval:
    """The gain in points, of (seeds, decisions) each, by `compare_repeated`: paired in people and in seeds.

    Decisions count by their `weights`, (decisions,), or alike.
    """
    found = compare_repeated(worse, better, subjects=subjects, weights=weights).estimate
    share = np.ones(better.shape[1]) if weights is None else np.asarray(weights, dtype=np.float64)
    by_seed = np.average(100 * (better - worse), axis=1, weights=share) if len(better) > 1 else ()
    return Interval(100 * found.value, 100 * found.low, 100 * found.high, tuple(float(seed) for seed in by_seed))


def of_correlation(correlation: float, count: int) -> Interval | None:
    """Fisher's 95 % interval of a correlation of so many points."""
    if not abs(correlation) < 1 or count < 4:
        return None
    half = 1.96 / math.sqrt(count - 3)
    low, high = (math.tanh(math.atanh(correlation) + sign * half) for sign in (-1, 1))
    return Interval(correlation, low, high)
