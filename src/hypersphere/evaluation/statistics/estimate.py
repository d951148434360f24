"""An estimate is a value, a 95 % interval and a count; what the data cannot measure is said so and never a number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

Unit = Literal["share", "degrees", "cosine", "ratio"]
"""What an estimate is measured in; a share is a fraction and is shown in percent."""

Z = 1.959963984540054
"""The 97.5 % point of the normal distribution: every interval here is of 95 %."""


@dataclass(frozen=True)
class Estimate:
    """A measured value.

    Args:
        value: what was measured; shares are fractions.
        low, high: 95 % interval.
        n: how many decisions it rests on.
        interval: how the interval was made; `exact` if the value is a fact of the data and estimates nothing.
        unit: what it is measured in.

    Example:
        >>> f"{proportion(5950, 6000):.2%}"
        '99.17% [98.90%, 99.37%], n=6,000'
    """

    value: float
    low: float
    high: float
    n: int
    interval: str
    unit: Unit = "share"

    def __format__(self, spec: str) -> str:
        shown = [format(number, spec or ".4g") for number in (self.value, self.low, self.high)]
        return f"{shown[0]} [{shown[1]}, {shown[2]}], n={self.n:,}"

    def __str__(self) -> str:
        return format(self, "")


@dataclass(frozen=True)
class NotMeasurable:
    """An estimate that the data are too few for.

    Args:
        n: what there is of the decisions that would be needed.
        needed: how many are.
    """

    n: int
    needed: int

    def __format__(self, spec: str) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"not measurable with n={self.n:,}"


def wilson_interval(hits: float, total: int) -> tuple[float, float]:
    """The Wilson score interval of a proportion: all p with |hits/total - p| <= z sqrt(p (1 - p) / total)."""
    _check_share(hits, total)
    share = hits / total
    middle = (share + Z * Z / (2 * total)) / (1 + Z * Z / total)
    half = Z / (1 + Z * Z / total) * math.sqrt(share * (1 - share) / total + Z * Z / (4 * total * total))
    return (max(0.0, middle - half) if hits > 0 else 0.0), (min(1.0, middle + half) if hits < total else 1.0)


def clopper_pearson_interval(hits: int, total: int) -> tuple[float, float]:
    """The Clopper-Pearson interval, which never covers less than 95 %: p with P(X >= hits), P(X <= hits) >= 2.5 %."""
    from scipy.special import betaincinv

    _check_share(hits, total)
    low = float(betaincinv(hits, total - hits + 1, 0.025)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, total - hits, 0.975)) if hits < total else 1.0
    return low, high


def area_interval(area: float, genuine: int, impostors: int) -> tuple[float, float]:
    """The interval of an area under the ROC, which has a width at 0 and 1 too.

        all A with (area - A)^2 <= z^2 A (1 - A) (1 + N (1 - A) / (2 - A) + N A / (1 + A)) / (genuine impostors),
        N = (genuine + impostors) / 2 - 1

    References:
        Newcombe 2006, Statistics in Medicine 25, method 5, on the variance of Hanley and McNeil 1982.
    """
    spread = (genuine + impostors) / 2 - 1

    def outside(a: float) -> bool:
        variance = a * (1 - a) * (1 + spread * (1 - a) / (2 - a) + spread * a / (1 + a)) / (genuine * impostors)
        return (area - a) ** 2 > Z * Z * variance

    ends = []
    for end in (0.0, 1.0):
        far, near = end, area
        for _ in range(80):
            middle = (far + near) / 2
            far, near = (middle, near) if outside(middle) else (far, middle)
        ends.append(near if area != end else end)
    return ends[0], ends[1]


def proportion(hits: float, total: int) -> Estimate:
    """hits / total with its Wilson interval."""
    return Estimate(hits / max(1, total), *wilson_interval(hits, total), total, "wilson")


def guaranteed_proportion(hits: int, total: int) -> Estimate:
    """hits / total with its Clopper-Pearson interval: for rates that are promises, as a false-accept rate is."""
    return Estimate(hits / max(1, total), *clopper_pearson_interval(hits, total), total, "clopper-pearson")


def exact(value: float, n: int, unit: Unit) -> Estimate:
    """A fact of the data, such as a minimum over them, which estimates nothing."""
    return Estimate(value, value, value, n, "exact", unit)


def check_measurable(rate: float, n: int) -> NotMeasurable | None:
    """None if n decisions can measure an error rate, i.e. n >= 3 / rate: with fewer, no error at all proves nothing."""
    if not 0 < rate <= 1:
        raise ValueError(f"rate={rate:g} must be above 0 and at most 1")
    needed = math.ceil(3 / rate * (1 - 1e-12))
    return NotMeasurable(n, needed) if n < needed else None


def rate_name(name: str, rate: float) -> str:
    """The name of an operating point: `tar@far=1e-3`."""
    mantissa, exponent = f"{rate:.6e}".split("e")
    return f"{name}={float(mantissa):g}e{int(exponent)}"


class RatePoint(NamedTuple):
    """What the name of an operating point says: `lfw/tar@far=1e-3` is `tar` at a `far` of 1e-3 of the set `lfw`."""

    owner: str
    metric: str
    axis: str
    rate: float


def read_rate_name(name: str) -> RatePoint | None:
    """The parts of a name that `rate_name` made, with the set before it; None for any other name."""
    owner, _, bare = name.rpartition("/")
    kind, equals, rate = bare.partition("=")
    metric, at, axis = kind.partition("@")
    return RatePoint(owner, metric, axis, float(rate)) if equals and at else None


def complement(name: str) -> str | None:
    """The name of the TAR that an FNMR is 1 less; None for any other metric."""
    point = read_rate_name(name)
    if point is None or point.metric != "fnmr":
        return None
    return f"{point.owner}/" * bool(point.owner) + rate_name("tar@far", point.rate)


def _check_share(hits: float, total: int) -> None:
    if not 0 <= hits <= total or total == 0:
        raise ValueError(f"hits={hits} must lie between 0 and total={total}, which must be positive")
