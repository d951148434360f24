"""Verdicts: one rule for every sentence that was measured, whatever it was measured on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from hypersphere.evaluation import PairWeights

Verdict = Literal["held", "contradicted", "undecided"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
MARGIN = 0.5
"""Points of accuracy by which something may be worse and still be "at least as good"."""
FITTED = 95.0
"""Per cent of its training images that a run must classify rightly to be a test of its loss."""
_REPLICATES = 1000


@dataclass(frozen=True)
class Interval:
    """How far a number is on the side that a sentence claims; negative on the other side.

    Args:
        value: the mean.
        low, high: of 95 %, over people and runs, over runs alone (Student's), or over classes (Fisher's).
        seeds: of every run alone, where there are several.
    """

    value: float
    low: float
    high: float
    seeds: tuple[float, ...] = ()

    @property
    def half_width(self) -> float:
        """The least effect that could have been told from none."""
        return (self.high - self.low) / 2

    def text(self) -> str:
        """`+1.20 (+0.80 to +1.60; seeds +0.50, +1.20, +1.90)`."""
        each = ", ".join(f"{value:+.2f}" for value in self.seeds)
        return f"{self.value:+.2f} ({self.low:+.2f} to {self.high:+.2f}{f'; seeds {each}' if each else ''})"


Rule = Callable[[Interval | None], Verdict]
"""Makes a verdict of an amount on the claimed side."""


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


def alike(interval: Interval | None) -> Verdict:
    """Of "about as good": held where the difference lies within `MARGIN` on both sides, contradicted beyond one."""
    if interval is None:
        return "undecided"
    other = Interval(-interval.value, -interval.high, -interval.low, tuple(-seed for seed in interval.seeds))
    return every([judge(interval, margin=MARGIN), judge(other, margin=MARGIN)])


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
    return Interval(mean, mean - half, mean + half, tuple(float(number) for number in numbers))


def gain_of(
    worse: npt.NDArray[np.float64],
    better: npt.NDArray[np.float64],
    subjects: tuple[npt.ArrayLike, npt.ArrayLike],
    weights: npt.ArrayLike = 1.0,
) -> Interval:
    """The gain in points, of (seeds, decisions) each, with its interval over people and runs, paired in both.

    A replicate draws people, and as many of the seeds as there are, with replacement. Decisions count by their
    `weights`, (decisions,), or alike.
    """
    gain = 100 * (better - worse)
    share = np.broadcast_to(np.asarray(weights, dtype=np.float64), gain.shape[1:])
    generator, drawn = np.random.default_rng([0, 1]), []
    for times in PairWeights(gain.shape[1], subjects).draws(_REPLICATES, 0):
        mean = gain[generator.integers(len(gain), size=len(gain))].mean(0)
        if times.any():
            drawn.append(float(np.average(mean, weights=times * share)))
    low, high = np.quantile(drawn, [0.025, 0.975])
    by_seed = np.average(gain, axis=1, weights=share)
    value, each = float(by_seed.mean()), by_seed if len(gain) > 1 else ()
    return Interval(value, min(value, float(low)), max(value, float(high)), tuple(float(seed) for seed in each))


def of_correlation(correlation: float, count: int) -> Interval | None:
    """Fisher's 95 % interval of a correlation of so many points."""
    if not abs(correlation) < 1 or count < 4:
        return None
    half = 1.96 / math.sqrt(count - 3)
    low, high = (math.tanh(math.atanh(correlation) + sign * half) for sign in (-1, 1))
    return Interval(correlation, low, high)
