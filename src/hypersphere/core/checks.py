"""Checks of arguments: each error names the argument, what was wrong with it and what would be right."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from hypersphere.core.numbers import INT64_MAX


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint for an unknown word: the known one that it resembles, if any, and all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(word[:100].lower(), names, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}Known: {', '.join(names)}"


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """`value` must be one of `choices`."""
    known = list(choices)
    if value not in known:
        raise ValueError(f"{name}={value!r} is unknown; {nearest(str(value), known)}")
    return str(value)


def check_finite_number(name: str, value: Any) -> float:
    """`value` must be a finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}={value!r} is not a number") from None
    except OverflowError:
        raise ValueError(f"{name} is a number too large for any computation") from None
    if not math.isfinite(number):
        raise ValueError(f"{name}={number} must be finite")
    return number


def check_integer(name: str, value: Any, least: int) -> int:
    """`value` must be a whole number (Python's or NumPy's) of at least `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise ValueError(f"{name}={value!r} must be an integer of at least {least}")
    if number > INT64_MAX:
        raise ValueError(f"{name} must be an integer of at most {INT64_MAX}")
    return number


def check_flag(name: str, value: Any) -> bool:
    """`value` must be True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value!r:.80} must be True or False")
    return value


def check_rising(name: str, values: Sequence[float], low: float, high: float, *, strictly: bool = False) -> None:
    """`values` must be finite numbers in [low, high] that rise, or `strictly`: no two of them equal."""
    for value in values:
        check_range(name, value, low, high)
    for before, after in pairwise(values):
        if after < before or (strictly and after == before):
            raise ValueError(f"{name}: {after:g} comes after {before:g}; they must rise")


def check_positive(name: str, value: Any) -> float:
    """`value` must be a finite number above zero."""
    number = check_finite_number(name, value)
    if number <= 0:
        raise ValueError(f"{name}={number:g} must be positive")
    return number


def check_range(name: str, value: Any, low: float, high: float = math.inf) -> float:
    """`value` must be a finite number in [low, high]."""
    number = check_finite_number(name, value)
    if not low <= number <= high:
        wanted = f"at least {low:g}" if high == math.inf else f"between {low:g} and {high:g}"
        raise ValueError(f"{name}={number:g} must be {wanted}")
    return number
