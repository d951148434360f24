"""The sampler of test cases: every pair that may meet is there, in few rows, and always the same ones."""

from itertools import combinations, product
from typing import Any

import pytest

from tests.pairwise import cover, pairwise


def pairs(rows: Any) -> set[tuple[int, int, Any, Any]]:
    return {(a, b, row[a], row[b]) for row in rows for a, b in combinations(range(len(row)), 2)}


@pytest.mark.parametrize(
    "sizes", [(1, 1), (3, 2), (5, 4, 3), (3, 5, 4), (2, 2, 2, 2), (7, 3, 3, 2, 2), (1, 4, 4)], ids=str
)
def test_every_pair_is_covered(sizes: tuple[int, ...]) -> None:
    factors = [[f"{place}{value}" for value in range(size)] for place, size in enumerate(sizes)]
    rows = cover(*factors)
    assert pairs(rows) == pairs(product(*factors))
    assert len(set(rows)) == len(rows)
    first, second = sorted(sizes)[-2:]
    assert first * second <= len(rows) <= 1.5 * first * second
    assert rows == cover(*factors)


def test_pairs_that_may_not_meet_are_left_out() -> None:
    factors = [range(4), range(3), range(3)]

    def allowed(a: int, b: int, c: int) -> bool:
        return a + b != 2 and (b, c) != (2, 2)

    rows = cover(*factors, allowed=allowed)
    assert all(allowed(*row) for row in rows)
    assert pairs(rows) == pairs(row for row in product(*factors) if allowed(*row))


def test_the_others_are_slow() -> None:
    factors = (["a", "b", "c"], [{"unhashable": 1}, {}], [1.5, 2.5])
    params = pairwise(*factors, name=lambda value: f"<{value}>")
    assert [param.values for param in params] == list(product(*factors))
    assert params[0].id == "<a>-<{'unhashable': 1}>-<1.5>"
    quick = [param.values for param in params if not param.marks]
    assert quick == [row for row in product(*factors) if row in cover(*factors)]
    assert len(quick) == 6
    assert {mark.name for param in params for mark in param.marks} == {"slow"}
