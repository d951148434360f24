"""The two definitions of IJB's 1:N identification."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hypersphere.core import Reporter
from hypersphere.evaluation.arrays import Array, Floats, Ints
from hypersphere.evaluation.bootstrap import bootstrap_mean, percentile_figure
from hypersphere.evaluation.counting import ScoreCounts
from hypersphere.evaluation.figures import check_measurable, rate_name
from hypersphere.evaluation.histogram import ScoreHistogram
from hypersphere.evaluation.identification import (
    cmc,
    found_by,
    mate_ranks,
    mated,
    open_set_curve,
    open_set_draws,
    open_set_scores,
)
from hypersphere.evaluation.items import MATED, OPEN_SET, SUBJECT, outcomes
from hypersphere.evaluation.results import ScoredPair
from hypersphere.evaluation.roc import Roc
from hypersphere.evaluation.search import search_gallery
from hypersphere.evaluation.verification import Metrics

RANKS = (1, 5, 10)
_DEPTH = 20
_PROBES = 1024


@dataclass(frozen=True)
class People:
    """Templates and who they show.

    Args:
        units: (n, dim) unit vectors.
        subjects: (n,) people.
    """

    units: Array
    subjects: Ints


@dataclass
class Part:
    """What a task adds to a result."""

    metrics: Metrics = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    curves: dict[str, Roc] = field(default_factory=dict)
    cmc: dict[str, Floats] = field(default_factory=dict)
    histograms: dict[str, ScoreHistogram] = field(default_factory=dict)
    worst: dict[str, list[ScoredPair]] = field(default_factory=dict)
    items: dict[str, Array] = field(default_factory=dict)


def search_official(
    galleries: dict[str, People], probes: People, fpirs: Sequence[float], progress: Reporter | None = None
) -> Part:
    """Every probe against each gallery by itself: in one of them it has a mate, in the other it has not.

        FPIR = share of probes without a mate whose best entry scores at least the threshold
        TPIR = share of probes with a mate that is their best entry and scores at least the threshold

    TPIR is the mean over the galleries; ranks are counted over all galleries together.
    """
    found = Part(items={f"{SUBJECT}tpir": probes.subjects})
    ranks, owners, curves, drawn = [], [], [], []
    usable = [
        rate for rate in fpirs if all(_measurable(rate, probes, gallery) is None for gallery in galleries.values())
    ]
    for done, (name, gallery) in enumerate(galleries.items(), start=1):
        matches = search_gallery(probes.units, gallery.units, min(_DEPTH, len(gallery.units)))
        here = mated(probes.subjects, gallery.subjects)
        ranks.append(mate_ranks(matches, probes.subjects, gallery.subjects)[here])
        owners.append(probes.subjects[here])
        scores, with_mate = open_set_scores(matches, probes.subjects, gallery.subjects, 1)
        curves.append(open_set_curve(scores, with_mate))
        found.curves[f"1:N, {name}"] = curves[-1]
        drawn.append(open_set_draws(scores, with_mate, probes.subjects, usable))
        found.items |= {f"{OPEN_SET}{name}": scores, f"{MATED}{name}": with_mate}
        if progress is not None:
            progress(done, len(galleries))
    places, people = np.concatenate(ranks), np.concatenate(owners)
    for rank, figure in cmc(places, RANKS, people).items():
        found.metrics[f"rank-{rank}"] = figure
        found.items |= outcomes({f"rank-{rank}": found_by(places, rank)}, people)
    found.cmc["1:N"] = _rates(places)
    together = np.mean(drawn, axis=0)
    for rate in fpirs:
        name = rate_name("tpir@fpir", rate)
        if rate not in usable:
            missing = [_measurable(rate, probes, gallery) for gallery in galleries.values()]
            found.metrics[name] = min((m for m in missing if m is not None), key=lambda m: m.n)
            continue
        values = [curve.tar_at(rate) for curve in curves]
        value, count = float(np.mean(values)), len(np.unique(probes.subjects))
        found.metrics[name] = percentile_figure(
            value, together[:, usable.index(rate)], len(places), count, "bootstrap over subjects"
        )
        found.details[name] = dict(zip(galleries, values, strict=True))
    return found


def search_merged(galleries: dict[str, People], probes: People, fpirs: Sequence[float]) -> Part:
    """The definition of older programs: both galleries are one, and every probe has a mate in it.

        threshold = the ceil(FPIR probes)-th largest of all scores of a probe with another person
        TPIR = share of probes whose mate scores above it, whatever its rank

    It counts pairs where the official one counts probes, and knows no probe without a mate.
    """
    gallery = People(
        np.concatenate([one.units for one in galleries.values()]),
        np.concatenate([one.subjects for one in galleries.values()]),
    )
    order = np.argsort(gallery.subjects, kind="stable")
    mate = order[np.searchsorted(gallery.subjects[order], probes.subjects)]
    others, own = ScoreCounts(), np.zeros(len(mate), dtype=np.float32)
    for top in range(0, len(mate), _PROBES):
        scores = probes.units[top : top + _PROBES] @ gallery.units.T
        rows, columns = np.arange(len(scores)), mate[top : top + _PROBES]
        own[top : top + _PROBES] = scores[rows, columns]
        apart = np.ones(scores.shape, dtype=bool)
        apart[rows, columns] = False
        others.add(scores[apart])
    matches = search_gallery(probes.units, gallery.units, min(_DEPTH, len(gallery.units)))
    places = mate_ranks(matches, probes.subjects, gallery.subjects)
    found = Part(cmc={"1:N, merged": _rates(places)})
    for rank, figure in cmc(places, RANKS, probes.subjects).items():
        found.metrics[f"merged_rank-{rank}"] = figure
        found.items |= outcomes({f"merged_rank-{rank}": found_by(places, rank)}, probes.subjects)
    for rate in fpirs:
        name = rate_name("merged_tpir@fpir", rate)
        missing = check_measurable(rate, len(mate))
        threshold = others.kth_largest(math.ceil(rate * len(mate)))
        found.metrics[name] = bootstrap_mean(own > threshold, probes.subjects) if missing is None else missing
        if missing is None:
            found.items |= outcomes({name: own > threshold}, probes.subjects)
    return found


def _measurable(rate: float, probes: People, gallery: People) -> Any:
    return check_measurable(rate, int((~mated(probes.subjects, gallery.subjects)).sum()))


def _rates(places: Ints) -> Floats:
    """The identification rate at rank 1, 2, ..."""
    return np.array([found_by(places, rank).mean() for rank in range(1, _DEPTH + 1)])
