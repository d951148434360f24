"""A product of test cases, of which every two values meet in `make test` and all the others are `slow`."""

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any

import pytest

Row = tuple[Any, ...]


def _all(*_: Any) -> bool:
    return True


def cover(*factors: Sequence[Any], allowed: Callable[..., bool] = _all) -> list[Row]:
    """Rows with a value of each factor, few of them, that hold every two values of different factors that may meet.

    For each pair that no row holds yet, in order, it takes of all rows with this pair the first of those that hold the
    most new pairs. The largest factors go first: as many rows as their product are needed in any case.

    Args:
        factors: the values of each parameter of a test.
        allowed: whether the values of a row may meet.
    """
    sizes = [range(len(factor)) for factor in factors]
    pairs = sorted(combinations(range(len(factors)), 2), key=lambda pair: -len(sizes[pair[0]]) * len(sizes[pair[1]]))
    held: set[tuple[int, int, int, int]] = set()
    rows: list[tuple[int, ...]] = []

    def held_by(row: tuple[int, ...]) -> set[tuple[int, int, int, int]]:
        return {(a, b, row[a], row[b]) for a, b in pairs}

    for a, b in pairs:
        for x, y in product(sizes[a], sizes[b]):
            if (a, b, x, y) in held:
                continue
            options = [[x] if at == a else [y] if at == b else size for at, size in enumerate(sizes)]
            possible = [row for row in product(*options) if allowed(*_values(factors, row))]
            if possible:
                rows.append(max(possible, key=lambda row: len(held_by(row) - held)))
                held |= held_by(rows[-1])
    return [_values(factors, row) for row in rows]


def _values(factors: Sequence[Sequence[Any]], row: Sequence[int]) -> Row:
    return tuple(factor[at] for factor, at in zip(factors, row, strict=True))


def pairwise(
    *factors: Sequence[Any], allowed: Callable[..., bool] = _all, name: Callable[[Any], str] = str
) -> list[Any]:
    """All allowed rows as parameters of a test, those outside of `cover` marked `slow`; `name` makes ids of values."""
    chosen = cover(*factors, allowed=allowed)
    return [
        pytest.param(*row, id="-".join(map(name, row)), marks=() if row in chosen else pytest.mark.slow)
        for row in product(*factors)
        if allowed(*row)
    ]
