"""Exact search of a gallery by blocked matrix products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hypersphere.core import Reporter, check_integer
from hypersphere.evaluation.arrays import Array, Bools, Ints, finite_rows

_PROBES = 4096


@dataclass(frozen=True)
class Matches:
    """The best gallery entries of each probe, best first; equal scores in the order of the gallery.

    Args:
        indices: (probes, k) rows of the gallery.
        scores: (probes, k) float32, falling.
    """

    indices: Ints
    scores: npt.NDArray[np.float32]


def search_gallery(
    probes: npt.ArrayLike,
    gallery: npt.ArrayLike,
    k: int,
    *,
    block: int = 8192,
    each: Callable[[Array], None] | None = None,
    progress: Reporter | None = None,
) -> Matches:
    """The k gallery entries with the largest inner product with each probe; ties go to the lowest index.

    Products are float32. For cosines give unit vectors; for Euclidean distance give probes [2 x, -1] and gallery
    [y, |y|^2], whose products are |x|^2 - |x - y|^2.

    Args:
        probes: (probes, dim).
        gallery: (entries, dim), in memory or mapped from a file.
        k: how many entries; at most the gallery's.
        block: gallery entries per product; at most 4,096 x block scores are in memory at a time.
        each: called with every block of scores, for who wants to count them too.
        progress: called as `progress(done, total)` in products.
    """
    rows = finite_rows("probes", probes)
    entries = finite_rows("gallery", gallery, rows.shape[1])
    if not 1 <= k <= len(entries):
        raise ValueError(f"k={k} must lie between 1 and the size of the gallery, {len(entries)}")
    check_integer("block", block, 1)
    tops, lefts = range(0, len(rows), _PROBES), range(0, len(entries), block)
    found = []
    for number, top in enumerate(tops):
        part = rows[top : top + _PROBES]
        best = Matches(
            np.full((len(part), k), len(entries), dtype=np.int64), np.full((len(part), k), -np.inf, dtype=np.float32)
        )
        for step, left in enumerate(lefts):
            scores = part @ entries[left : left + block].T
            best = _merge(best, scores, left)
            if each is not None:
                each(scores)
            if progress is not None:
                progress(number * len(lefts) + step + 1, len(tops) * len(lefts))
        found.append(best)
    return Matches(np.concatenate([b.indices for b in found]), np.concatenate([b.scores for b in found]))


def _merge(best: Matches, scores: Array, left: int) -> Matches:
    """The best of what was found and the scores of later gallery entries, which lose ties against it."""
    count, k = best.scores.shape
    row, column = np.nonzero(_candidates(scores, best.scores[:, -1:], k))
    if len(row) == 0:
        return best
    rows = np.concatenate([np.repeat(np.arange(count), k), row])
    indices = np.concatenate([best.indices.reshape(-1), column + left])
    values = np.concatenate([best.scores.reshape(-1), scores[row, column]])
    order = np.lexsort((indices, -values, rows))
    firsts = np.searchsorted(rows[order], np.arange(count))
    chosen = order[firsts[:, None] + np.arange(k)]
    return Matches(indices[chosen], values[chosen])


def _candidates(scores: Array, floor: Array, k: int) -> Bools:
    """The scores that could be among the k best: above the k-th found so far, and not below the k-th of the block."""
    if scores.shape[1] > k and not np.isfinite(floor).all():
        floor_here = np.partition(scores, scores.shape[1] - k, axis=1)[:, -k, None]
        kept: Bools = (scores >= floor_here) & (scores > floor)
        return kept
    above: Bools = scores > floor
    return above
