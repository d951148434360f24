"""MegaFace's search: every probe against all distractors, of which only what decides the estimates is kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hypersphere.core import Reporter
from hypersphere.evaluation.arrays import Array, Ints
from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.evaluation.metrics.search import Matches, search_gallery
from hypersphere.evaluation.protocols.official_files import found_units

DEPTH = 100
_BLOCK = 1 << 16
_MOST = 1 << 26
_DRAWN = 1 << 16


def mate_pairs(units: Array, people: Ints) -> tuple[Ints, Ints, Array]:
    """Every ordered pair of two images of one person, and its score."""
    left, right, scores = [], [], []
    for person in np.unique(people):
        own = np.flatnonzero(people == person)
        matrix = units[own] @ units[own].T
        i, j = np.nonzero(~np.eye(len(own), dtype=bool))
        left.append(own[i])
        right.append(own[j])
        scores.append(np.maximum(matrix, matrix.T)[i, j])
    return np.concatenate(left), np.concatenate(right), np.concatenate(scores)


def scores_to_keep(far: float, total: int) -> int:
    """How many impostor scores decide the curve up to a FAR, and at least enough for a picture."""
    keep = max(int(far * total) + 2, _DRAWN)
    if keep > _MOST:
        raise ValueError(f"fars up to {far:g} of {total:,} impostor pairs need {keep:,} scores; {_MOST:,} are kept")
    return keep


def search_distractors(
    units: Array, others: Embeddings, rows: Ints, each: Callable[[Array], None], progress: Reporter | None
) -> Matches:
    """The best distractors of every probe, as rows of their embeddings.

    Args:
        units: (probes, dim) unit vectors.
        others: embeddings of the distractors, read in blocks.
        rows: (distractors,) where they are.
        each: called with every block of scores.
        progress: called as `progress(done, total)` in distractors.
    """
    best: Matches | None = None
    for start in range(0, len(rows), _BLOCK):
        part = rows[start : start + _BLOCK]
        block = found_units(others, part)
        found = search_gallery(units, block, min(DEPTH, len(part)), each=each)
        here = Matches(part[found.indices], found.scores)
        best = here if best is None else _better(best, here)
        if progress is not None:
            progress(start + len(part), len(rows))
    if best is None:
        raise ValueError("no distractor is left")
    return best


def _better(first: Matches, second: Matches) -> Matches:
    scores = np.concatenate([first.scores, second.scores], axis=1)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
    indices = np.concatenate([first.indices, second.indices], axis=1)
    return Matches(np.take_along_axis(indices, order, axis=1), np.take_along_axis(scores, order, axis=1))
