"""Exact answers from an engine whose scores are rounded: its nearest rows scored again, as many as it takes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hypersphere.core import counted
from hypersphere.recognition.gallery.driver import Candidate
from hypersphere.recognition.gallery.stored_template import Record, unpacked

_MORE = 32
"""Rows beyond k that are asked for first."""


@dataclass(frozen=True)
class Near:
    """A row that an engine returns: its record, None if it is damaged, and the engine's own score of it."""

    record: Record | None
    score: float


def exact_top(
    fetch: Callable[[int], Sequence[Near]], probe: NDArray[np.float32], k: int, *, off: float, most: int
) -> list[Candidate]:
    """The k templates of largest inner product with a probe, exactly; ties by the lowest template id.

    Args:
        fetch: returns the rows of largest score of the engine's, as many as it is asked for.
        probe: the unit vector.
        k: how many templates are wanted.
        off: how far the engine's score may be from the exact one.
        most: the largest number that `fetch` takes.
    """
    limit = min(k + _MORE, most)
    while True:
        rows = fetch(limit)
        records = [row.record for row in rows if row.record is not None]
        exact = _scores(records, probe)
        ranked = sorted(
            (-score, record.id, record.subject) for score, record in zip(exact.tolist(), records, strict=True)
        )
        rest = rows[-1].score + off if len(rows) == limit else -np.inf
        if rest < (-ranked[k - 1][0] if len(ranked) >= k else -np.inf) or len(rows) < limit or limit == most:
            break
        limit = min(4 * limit, most)
    damaged = len(rows) - len(records)
    if damaged:
        warnings.warn(
            f"{counted(damaged, 'damaged template')} left out; run `hypersphere gallery verify`",
            RuntimeWarning,
            stacklevel=4,
        )
    return [Candidate(subject, name, min(-score, 1.0)) for score, name, subject in ranked[:k]]


def _scores(records: Sequence[Record], probe: NDArray[np.float32]) -> NDArray[np.float64]:
    rows = unpacked([record.vector for record in records], len(probe)).astype(np.float64)
    scores: NDArray[np.float64] = np.einsum("nd,d->n", rows, probe.astype(np.float64))
    return scores
