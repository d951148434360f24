"""Exact search finds what a plain float64 computation finds, whatever the first pass and however near the ties."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from hypersphere.recognition.gallery import exact_search
from hypersphere.recognition.gallery.exact_search import ExactSearch, Found, multiplies_integers

Rows = NDArray[np.float16]


def unit(rows: NDArray[np.float64]) -> Rows:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)


def draw(count: int, dim: int, seed: int = 0) -> Rows:
    return unit(np.random.default_rng(seed).normal(size=(count, dim)))


def brute(rows: Rows, probe: NDArray[np.float32], k: int, allowed: NDArray[np.bool_] | None = None) -> Found:
    """All scores in float64, one by one; every row that ties with the k-th."""
    scores = np.array([np.einsum("d,d->", row.astype(np.float64), probe.astype(np.float64)) for row in rows])
    if allowed is not None:
        scores[~allowed] = -np.inf
    order = np.lexsort((np.arange(len(rows)), -scores))
    order = order[scores[order] > -np.inf]
    last = scores[order[min(k, len(order)) - 1]] if len(order) else 0.0
    best = order[scores[order] >= last]
    return best, scores[best]


def check(search: ExactSearch, rows: Rows, probes: Rows, k: int, allowed: NDArray[np.bool_] | None = None) -> None:
    wide = probes.astype(np.float32)
    for (positions, scores), probe in zip(search.search(wide, k, allowed=allowed), wide, strict=True):
        wanted, exact = brute(rows, probe, k, allowed)
        np.testing.assert_array_equal(positions, wanted)
        np.testing.assert_allclose(scores, exact, rtol=0, atol=1e-15)


@pytest.fixture(params=exact_search.FIRST_PASSES)
def first_pass(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each first pass, in blocks so small that there are many."""
    monkeypatch.setattr(exact_search, "_BLOCK", 64)
    monkeypatch.setattr(exact_search, "_SAMPLE", 8)
    return str(request.param)


def built(rows: Rows, first_pass: str) -> ExactSearch:
    search = ExactSearch(rows.shape[1], first_pass=first_pass)
    for part in np.array_split(rows, 3):
        search.append(part)
    return search


@pytest.mark.parametrize("k", [1, 10, 400, 1000])
@pytest.mark.parametrize("probes", [1, 7, 70])
def test_random_rows(first_pass: str, k: int, probes: int) -> None:
    rows = draw(500, 24)
    check(built(rows, first_pass), rows, draw(probes, 24, 1), k)


def test_near_ties_that_the_first_pass_cannot_tell_apart(first_pass: str) -> None:
    """300 rows within the last bits of one another, among others, and rows that are the same."""
    draws = np.random.default_rng(2)
    near = np.tile(draw(1, 64), (300, 1)).copy()
    bits = near.view(np.uint16)
    bits[np.arange(300), draws.integers(0, 64, 300)] ^= 1
    rows = np.concatenate([draw(200, 64, 3), near, near[:50], draw(100, 64, 4)])
    rows = rows[draws.permutation(len(rows))]
    check(built(rows, first_pass), rows, unit(near[:5].astype(np.float64)), 10)


@pytest.mark.parametrize("shape", ["one large number", "a tenth of the bound apart", "the same"])
def test_rows_that_quantise_badly(first_pass: str, shape: str) -> None:
    draws = np.random.default_rng(5)
    rows = draw(400, 32).astype(np.float64)
    if shape == "one large number":
        rows[:, 0] = 30
    elif shape == "a tenth of the bound apart":
        rows = rows[:1] + 1e-3 * draws.normal(size=(400, 32))
    else:
        rows[:] = rows[0]
    stored = unit(rows)
    check(built(stored, first_pass), stored, unit(rows[:6] + 0.01 * draws.normal(size=(6, 32))), 7)


def test_the_bound_holds_for_every_row() -> None:
    """Approximate scores are as near to the exact ones as is claimed, also where rounding is as bad as it can be."""
    draws = np.random.default_rng(6)
    rows = np.concatenate([draw(300, 48), unit(draws.choice([0.5, 1.0, 127.0], (300, 48)))])
    probes = np.concatenate([draw(9, 48, 7), unit(draws.choice([0.5, -1.5, 127.0], (9, 48)))]).astype(np.float32)
    exact = probes.astype(np.float64) @ rows.astype(np.float64).T
    digits, scale, norm, error = exact_search._quantised(rows.astype(np.float32))
    first = exact_search._Int8Pass(probes)
    off = np.abs(first.scores(rows, digits, scale) - exact)
    bound = first.probe_bounds(norm)[:, None] + first.row_bounds(norm, error)
    assert (off <= bound).all()
    assert off.max() > 0.1 * bound.min()
    plain = exact_search._Float32Pass(probes)
    off = np.abs(plain.scores(rows.astype(np.float32), digits, scale) - exact)
    assert (off <= plain.probe_bounds(norm)[:, None]).all()


def test_removed_and_excluded_rows_are_never_found(first_pass: str) -> None:
    rows = draw(300, 16)
    search = built(rows, first_pass)
    best = search.search(rows[:1].astype(np.float32), 1)[0][0]
    assert best.tolist() == [0]
    search.remove(np.array([0, 5, 6]))
    assert search.removed == 3
    left = np.ones(300, np.bool_)
    left[[0, 5, 6]] = False
    check(search, rows, rows[:9], 20, left)
    left[::2] = False
    check(search, rows, rows[:9], 20, left)
    assert not search._rows[[0, 5, 6]].any()
    assert not search._digits[[0, 5, 6]].any()


def test_nothing_to_find() -> None:
    search = ExactSearch(8)
    assert search.search(np.eye(8, dtype=np.float32)[:2], 3)[1][0].size == 0
    search.append(draw(4, 8))
    assert search.search(np.eye(8, dtype=np.float32)[:1], 3, allowed=np.zeros(4, np.bool_))[0][0].size == 0
    assert search.search(np.eye(8, dtype=np.float32)[:0], 3) == []


def test_without_integers_the_first_pass_is_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(multiplies_integers(), bool)
    monkeypatch.setattr(exact_search, "multiplies_integers", lambda: False)
    rows = draw(50, 8)
    search = built(rows, "int8")
    assert search.first_pass == "float32"
    check(search, rows, rows[:3], 5)


def test_a_processor_that_saturates_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def saturating(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return product(left, right).clamp(-32768, 32767)

    product = torch._int_mm
    monkeypatch.setattr(torch, "_int_mm", saturating)
    assert not multiplies_integers.__wrapped__()


def test_wrong_shapes() -> None:
    search = ExactSearch(8)
    with pytest.raises(ValueError, match="rows have shape"):
        search.append(draw(3, 9))
    with pytest.raises(ValueError, match="probes have shape"):
        search.search(np.zeros((1, 9), np.float32), 1)
    with pytest.raises(ValueError, match="k=0"):
        search.search(np.zeros((1, 8), np.float32), 0)
