"""Re-identification: mean average precision and CMC with junk left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hypersphere.core import Reporter, check_choice
from hypersphere.evaluation.arrays import Array, Bools, Floats, Ints, finite_rows, labels_for
from hypersphere.evaluation.metrics.identification import cmc
from hypersphere.evaluation.statistics.bootstrap import bootstrap_mean
from hypersphere.evaluation.statistics.estimate import Estimate

_QUERIES = 64
AREAS = ("step", "trapezoid")


@dataclass(frozen=True)
class Retrieval:
    """The result of a re-identification protocol.

    Args:
        mean_ap: mean average precision of the queries that have a mate, bootstrapped over their people.
        cmc: share of them with a mate among the first r entries.
        average_precisions: (queries,), NaN without a mate.
        first_ranks: (queries,) the place of the first mate once junk is gone, 0 without a mate.
        without_mate: queries that nobody in the gallery could answer, and that are left out.
    """

    mean_ap: Estimate
    cmc: dict[int, Estimate]
    average_precisions: Floats
    first_ranks: Ints
    without_mate: int


def retrieve(
    queries: npt.ArrayLike,
    gallery: npt.ArrayLike,
    query_ids: npt.ArrayLike,
    gallery_ids: npt.ArrayLike,
    query_cameras: npt.ArrayLike,
    gallery_cameras: npt.ArrayLike,
    *,
    area: str = "step",
    progress: Reporter | None = None,
) -> Retrieval:
    """Rank the gallery for each query by inner product, without junk: the person by the query's camera, and person -1.

    Ties are in the order of the gallery. Queries without a mate are left out and counted.

    Args:
        queries: (queries, dim).
        gallery: (entries, dim).
        query_ids: (queries,) people, none of them -1.
        gallery_ids: (entries,) people; -1 is junk.
        query_cameras: (queries,).
        gallery_cameras: (entries,).
        area: `step`, the mean of the precisions at the mates; or `trapezoid`, which joins precisions by lines as
            Market-1501's own program does, and is never more.
        progress: called as `progress(done, total)` in queries.
    """
    check_choice("area", area, AREAS)
    rows = finite_rows("queries", queries)
    entries = finite_rows("gallery", gallery, rows.shape[1])
    people = labels_for("query_ids", query_ids, len(rows))
    cameras = labels_for("query_cameras", query_cameras, len(rows))
    known = labels_for("gallery_ids", gallery_ids, len(entries))
    places = labels_for("gallery_cameras", gallery_cameras, len(entries))
    if (people == -1).any():
        raise ValueError(f"query_ids holds -1, which is junk, first in position {int(np.argmax(people == -1))}")
    precisions, firsts = np.full(len(rows), np.nan), np.zeros(len(rows), dtype=np.int64)
    for top in range(0, len(rows), _QUERIES):
        scores = rows[top : top + _QUERIES] @ entries.T
        for query, row in enumerate(scores, start=top):
            same, seen = known == people[query], places == cameras[query]
            ranks = mates_among(row, same & ~seen, (same & seen) | (known == -1))
            if len(ranks):
                precisions[query], firsts[query] = average_precision(ranks, area), ranks[0]
        if progress is not None:
            progress(min(top + _QUERIES, len(rows)), len(rows))
    answered = firsts > 0
    if not answered.any():
        raise ValueError("query_ids: no query has a mate in the gallery seen by another camera")
    return Retrieval(
        bootstrap_mean(precisions[answered], people[answered]),
        cmc(firsts[answered], subjects=people[answered]),
        precisions,
        firsts,
        int((~answered).sum()),
    )


def mates_among(scores: Array, mates: Bools, junk: Bools) -> Ints:
    """The places, from 1, of the mates when entries that are not junk are ordered by falling score."""
    if not mates.any():
        return np.empty(0, dtype=np.int64)
    reached = np.flatnonzero(~junk & (scores >= scores[mates].min()))
    order = reached[np.argsort(-scores[reached], kind="stable")]
    return np.flatnonzero(mates[order]) + 1


def average_precision(ranks: Ints, area: str = "step") -> float:
    """The average precision of mates at these places, which rise.

    step:      (1/M) sum_i i / r_i
    trapezoid: (1/M) sum_i (i / r_i + p_i) / 2,  p_i = (i - 1) / (r_i - 1), or 1 where r_i = 1
    """
    hits = np.arange(1, len(ranks) + 1)
    precisions = hits / ranks
    if area == "trapezoid":
        before = np.where(ranks > 1, (hits - 1) / np.maximum(ranks - 1, 1), 1.0)
        precisions = (precisions + before) / 2
    return float(precisions.mean())
