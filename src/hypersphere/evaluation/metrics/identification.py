"""Identification: closed-set ranks (CMC) and open-set search (TPIR at a FPIR, DIR at a FAR)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hypersphere.evaluation.arrays import Array, Bools, Floats, Ints, labels_for
from hypersphere.evaluation.metrics.roc import Roc, roc_from
from hypersphere.evaluation.metrics.search import Matches
from hypersphere.evaluation.statistics.bootstrap import bootstrap_mean, bootstrap_roc, percentile_estimate
from hypersphere.evaluation.statistics.estimate import Estimate, NotMeasurable, check_measurable, proportion
from hypersphere.evaluation.statistics.histogram import ScoreHistogram, score_histogram
from hypersphere.evaluation.statistics.scores import SortedScores


def mated(probe_ids: npt.ArrayLike, gallery_ids: npt.ArrayLike) -> Bools:
    """(probes,) whether the gallery holds the person of each probe."""
    return np.isin(np.asarray(probe_ids), np.asarray(gallery_ids))


def mate_ranks(matches: Matches, probe_ids: npt.ArrayLike, gallery_ids: npt.ArrayLike) -> Ints:
    """(probes,) the place, from 1, of the first entry of the probe's person; 0 if none is among the matches.

    Places count gallery entries, not people; ties are in the order of the gallery.
    """
    count = len(matches.indices)
    people, entries = labels_for("probe_ids", probe_ids, count), np.asarray(gallery_ids)
    if entries.ndim != 1 or len(entries) <= matches.indices.max():
        raise ValueError(f"gallery_ids has shape {entries.shape}; matches name row {matches.indices.max()}")
    hits = entries[matches.indices] == people[:, None]
    return np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, 0)


def ranks_among(mate_scores: npt.ArrayLike, distractors: Matches) -> Ints:
    """(probes,) the place, from 1, of one mate among distractors; k + 1 stands for every place beyond their k best.

    A distractor with the mate's score goes before it: who cannot tell them apart has not found the mate.
    """
    mates = np.asarray(mate_scores, dtype=np.float32)
    ahead: Ints = np.count_nonzero(distractors.scores >= mates[:, None], axis=1)
    return 1 + ahead


def cmc(
    ranks: npt.ArrayLike, wanted: Sequence[int] = (1, 5, 10), subjects: npt.ArrayLike | None = None
) -> dict[int, Estimate]:
    """Share of probes whose mate is among the first r entries, for each wanted r.

    Args:
        ranks: (probes,) from `mate_ranks`, of mated probes; 0 is not found.
        wanted: the r.
        subjects: (probes,) their people, for intervals by bootstrap over them; without, Wilson's.
    """
    places = np.asarray(ranks, dtype=np.int64)
    if len(places) == 0 or (places < 0).any():
        raise ValueError("ranks must hold at least one rank, none below 0")
    estimates = {}
    for rank in wanted:
        hits = found_by(places, rank)
        estimates[rank] = proportion(int(hits.sum()), len(hits)) if subjects is None else bootstrap_mean(hits, subjects)
    return estimates


def found_by(ranks: Ints, rank: int) -> Bools:
    """(probes,) whether the mate is among the first `rank` entries; 0 is not found."""
    return (ranks > 0) & (ranks <= rank)


def open_set_roc(matches: Matches, probe_ids: npt.ArrayLike, gallery_ids: npt.ArrayLike, rank: int = 1) -> Roc:
    """The curve of an open-set search: TPIR as `tar` over FPIR as `far`; DIR at a FAR is the same with rank 1.

        TPIR(t) = share of mated probes whose mate is among the first `rank` entries and scores >= t
        FPIR(t) = share of probes without a mate whose best entry scores >= t

    FNIR is `fnmr`. A mate beyond `rank` is never accepted, so the curve need not reach 1; read it by
    `operating_point(fpir)`.

    Args:
        matches: the best `rank` entries, or more.
        probe_ids: (probes,) who is searched.
        gallery_ids: (entries,) who is enrolled.
        rank: how many entries count.
    """
    return open_set_curve(*open_set_scores(matches, probe_ids, gallery_ids, rank))


def open_set_curve(scores: Array, with_mate: Bools) -> Roc:
    """`open_set_roc` from what `open_set_scores` gave."""
    others, total = SortedScores(scores[~with_mate]), int(with_mate.sum())
    accepted = scores[with_mate & np.isfinite(scores)]
    if len(accepted) == 0:
        return Roc(np.array([np.inf]), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), others.total, total)
    roc = roc_from(SortedScores(accepted), others)
    return Roc(roc.thresholds, roc.false_accepts, roc.true_accepts, roc.impostors, total)


def open_set_histogram(scores: Array, with_mate: Bools) -> ScoreHistogram:
    """How far the scores that `open_set_scores` gave lie apart; a mate beyond the rank has none."""
    mates, others = (SortedScores(scores[kind]) for kind in (with_mate & np.isfinite(scores), ~with_mate))
    return score_histogram(mates, others, kinds=("mates that were found", "best entries of strangers"))


def open_set_rate(
    matches: Matches,
    probe_ids: npt.ArrayLike,
    gallery_ids: npt.ArrayLike,
    fpir: float,
    rank: int = 1,
    *,
    replicates: int = 1000,
    seed: int = 0,
) -> Estimate | NotMeasurable:
    """TPIR at a FPIR below 1 with the interval of drawing the probes' people; the gallery stays.

    Args:
        matches, probe_ids, gallery_ids, rank: as for `open_set_roc`.
        fpir: the rate that must not be exceeded.
        replicates: how many draws.
        seed: of the draws.
    """
    scores, with_mate = open_set_scores(matches, probe_ids, gallery_ids, rank)
    _check_open(fpir)
    missing = check_measurable(fpir, int((~with_mate).sum()))
    if missing is not None:
        return missing
    value = open_set_roc(matches, probe_ids, gallery_ids, rank).tar_at(fpir)
    people = np.asarray(probe_ids)
    drawn = open_set_draws(scores, with_mate, people, [fpir], replicates=replicates, seed=seed)
    count = len(np.unique(people))
    return percentile_estimate(value, drawn[:, 0], int(with_mate.sum()), count, "bootstrap over subjects")


def open_set_scores(
    matches: Matches, probe_ids: npt.ArrayLike, gallery_ids: npt.ArrayLike, rank: int
) -> tuple[Array, Bools]:
    """(probes,) the score at which a probe is accepted, -inf for a mate beyond `rank`; and which probes have a mate."""
    if not 1 <= rank <= matches.indices.shape[1]:
        raise ValueError(f"rank={rank} must lie between 1 and the number of matches, {matches.indices.shape[1]}")
    ranks, with_mate = mate_ranks(matches, probe_ids, gallery_ids), mated(probe_ids, gallery_ids)
    if with_mate.all() or not with_mate.any():
        raise ValueError("probe_ids must name people who are enrolled and people who are not")
    rows = np.arange(len(ranks))
    mates = np.where((ranks > 0) & (ranks <= rank), matches.scores[rows, np.maximum(ranks, 1) - 1], -np.inf)
    return np.where(with_mate, mates, matches.scores[:, 0]).astype(np.float32), with_mate


def open_set_draws(
    scores: Array,
    with_mate: Bools,
    people: npt.ArrayLike,
    fpirs: Sequence[float],
    *,
    replicates: int = 1000,
    seed: int = 0,
) -> Floats:
    """(replicates, fpirs) TPIRs under draws of the probes' people.

    Args:
        scores, with_mate: from `open_set_scores`.
        people: (probes,) who is searched.
        fpirs: the rates that must not be exceeded, below 1.
        replicates: how many draws.
        seed: of the draws.
    """
    for fpir in fpirs:
        _check_open(fpir)
    return bootstrap_roc(
        _all_finite(scores),
        with_mate,
        lambda roc: [roc.tar_at(fpir) for fpir in fpirs],
        subjects=(people, people),
        replicates=replicates,
        seed=seed,
    )


def _check_open(fpir: float) -> None:
    if fpir >= 1:
        raise ValueError(f"fpir={fpir:g} must be below 1, where everything is accepted")


def _all_finite(scores: Array) -> Array:
    """Scores with a number below all others in the place of -inf, which is never accepted at a FPIR below 1."""
    lowest = np.nextafter(scores[np.isfinite(scores)].min(), np.float32(-np.inf))
    return np.where(np.isfinite(scores), scores, lowest)
