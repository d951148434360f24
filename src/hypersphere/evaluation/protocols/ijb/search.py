"""The two definitions of IJB's 1:N identification."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from hypersphere.core import Reporter
from hypersphere.evaluation.arrays import Array, Bools, Floats, Ints
from hypersphere.evaluation.metrics.identification import (
    cmc,
    found_by,
    mate_ranks,
    mated,
    open_set_curve,
    open_set_draws,
    open_set_histogram,
    open_set_scores,
)
from hypersphere.evaluation.metrics.search import search_gallery
from hypersphere.evaluation.protocols.ijb.files import TemplateSet
from hypersphere.evaluation.protocols.worst import HighestPairs, worst_pairs
from hypersphere.evaluation.results.measurement import Measurement, ScoredPair
from hypersphere.evaluation.statistics.bootstrap import bootstrap_mean, percentile_estimate
from hypersphere.evaluation.statistics.choose_test import PairedBy, Pairing
from hypersphere.evaluation.statistics.estimate import check_measurable, rate_name
from hypersphere.evaluation.statistics.histogram import score_histogram
from hypersphere.evaluation.statistics.scores import ScoreBuffer, SortedScores

RANKS = (1, 5, 10)
_DEPTH = 20
_PROBES = 1024


@dataclass(frozen=True)
class People:
    """Templates and who they show.

    Args:
        templates: (n,) numbers.
        units: (n, dim) unit vectors.
        subjects: (n,) people.
    """

    templates: Ints
    units: Array
    subjects: Ints

    def some(self, kept: Bools) -> People:
        """Those that are kept."""
        return People(self.templates[kept], self.units[kept], self.subjects[kept])

    def mates_of(self, subjects: Ints) -> Ints:
        """(n,) the entry of each of these people, who all must have one."""
        order = np.argsort(self.subjects, kind="stable")
        entries: Ints = order[np.searchsorted(self.subjects[order], subjects)]
        return entries


@dataclass(frozen=True)
class Templates:
    """Templates that have images left.

    Args:
        ids: (n,) their numbers, rising.
        units: (n, dim) unit vectors.
        shown: an image of each, for the worst pairs.
    """

    ids: Ints
    units: Array
    shown: Mapping[int, str]

    def among(self, listed: TemplateSet) -> People:
        """Those that a list names."""
        here = np.isin(listed.templates, self.ids)
        templates = listed.templates[here]
        return People(templates, self.units[np.searchsorted(self.ids, templates)], listed.subjects[here])


def search_official(
    galleries: dict[str, People],
    probes: People,
    fpirs: Sequence[float],
    shown: Mapping[int, str],
    progress: Reporter | None = None,
) -> Measurement:
    """Every probe against each gallery by itself: in one of them it has a mate, in the other it has not.

        FPIR = share of probes without a mate whose best entry scores at least the threshold
        TPIR = share of probes with a mate that is their best entry and scores at least the threshold

    TPIR is the mean over the galleries; ranks are counted over all galleries together.

    Args:
        galleries: by name.
        probes: who is searched.
        fpirs: where TPIR is wanted.
        shown: an image of each template, for the worst pairs.
        progress: called as `progress(done, total)` in probes, once for each gallery.
    """
    found = Measurement(items={"subject:tpir": probes.subjects})
    ranks, owners, curves, drawn = [], [], [], []
    closest, farthest = HighestPairs(), HighestPairs()
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
        picture = open_set_histogram(scores, with_mate).at_lowest(curves[-1], usable, "FPIR")
        found.histograms[f"1:N, {name}"] = picture
        best = gallery.templates[matches.indices[:, 0]]
        closest.add(scores[~here], probes.templates[~here], best[~here])
        _add_mates(farthest, probes.some(here), gallery)
        drawn.append(open_set_draws(scores, with_mate, probes.subjects, usable))
        found.items |= {f"open_set:{name}": scores, f"mated:{name}": with_mate}
        if progress is not None:
            progress(done * len(probes.subjects), len(galleries) * len(probes.subjects))
    places, people = np.concatenate(ranks), np.concatenate(owners)
    for rank, estimate in cmc(places, RANKS, people).items():
        found.metrics[f"rank-{rank}"] = estimate
        found.add_means({f"rank-{rank}": found_by(places, rank)}, people)
    found.cmc["1:N"] = _rates(places)
    found.worst |= _named(worst_pairs(closest, farthest, lambda template: shown[template]), "1:N")
    together = np.mean(drawn, axis=0)
    for rate in fpirs:
        name = rate_name("tpir@fpir", rate)
        if rate not in usable:
            missing = [_measurable(rate, probes, gallery) for gallery in galleries.values()]
            found.metrics[name] = min((m for m in missing if m is not None), key=lambda m: m.n)
            continue
        values = [curve.tar_at(rate) for curve in curves]
        value, count = float(np.mean(values)), len(np.unique(probes.subjects))
        found.metrics[name] = percentile_estimate(
            value, together[:, usable.index(rate)], len(places), count, "bootstrap over subjects"
        )
        found.details[name] = dict(zip(galleries, values, strict=True))
        found.pairings[name] = Pairing(
            PairedBy.OPEN_SET,
            tuple(f"open_set:{gallery}" for gallery in galleries),
            tuple(f"mated:{gallery}" for gallery in galleries),
            ("subject:tpir",),
            rate,
        )
    return found


def search_merged(
    galleries: dict[str, People],
    probes: People,
    fpirs: Sequence[float],
    shown: Mapping[int, str],
    progress: Reporter | None = None,
) -> Measurement:
    """The definition of older programs: both galleries are one, and every probe has a mate in it.

        threshold = the ceil(FPIR probes)-th largest of all scores of a probe with another person
        TPIR = share of probes whose mate scores above it, whatever its rank

    It counts pairs where the official one counts probes, and knows no probe without a mate.

    Args:
        galleries, probes, fpirs, shown: as for `search_official`.
        progress: called as `progress(done, total)` in probes.
    """
    gallery = People(
        *(np.concatenate([getattr(one, part.name) for one in galleries.values()]) for part in fields(People))
    )
    mate = gallery.mates_of(probes.subjects)
    closest, farthest = HighestPairs(), HighestPairs()
    _add_mates(farthest, probes, gallery)
    buffer = ScoreBuffer(len(mate) * (len(gallery.units) - 1))
    own = np.zeros(len(mate), dtype=np.float32)
    for top in range(0, len(mate), _PROBES):
        scores = probes.units[top : top + _PROBES] @ gallery.units.T
        rows, columns = np.arange(len(scores)), mate[top : top + _PROBES]
        own[top : top + _PROBES] = scores[rows, columns]
        apart = np.ones(scores.shape, dtype=bool)
        apart[rows, columns] = False
        buffer.add(scores[apart])
        one, two = closest.among(scores, apart)
        closest.add(scores[one, two], probes.templates[top + one], gallery.templates[two])
        if progress is not None:
            progress(top + len(scores), len(mate))
    others = buffer.sorted()
    matches = search_gallery(probes.units, gallery.units, min(_DEPTH, len(gallery.units)))
    places = mate_ranks(matches, probes.subjects, gallery.subjects)
    lowest = min((rate for rate in fpirs if check_measurable(rate, len(mate)) is None), default=None)
    picture = score_histogram(SortedScores(own), others)
    if lowest is not None:
        threshold = others.kth_largest(math.ceil(lowest * len(mate)))
        picture = picture.at(threshold, f"the threshold of {rate_name('merged FPIR', lowest)}")
    found = Measurement(
        cmc={"1:N, merged": _rates(places)},
        histograms={"1:N, merged": picture},
        worst=_named(worst_pairs(closest, farthest, lambda template: shown[template]), "1:N, merged"),
    )
    for rank, estimate in cmc(places, RANKS, probes.subjects).items():
        found.metrics[f"merged_rank-{rank}"] = estimate
        found.add_means({f"merged_rank-{rank}": found_by(places, rank)}, probes.subjects)
    for rate in fpirs:
        name = rate_name("merged_tpir@fpir", rate)
        missing = check_measurable(rate, len(mate))
        threshold = others.kth_largest(math.ceil(rate * len(mate)))
        found.metrics[name] = bootstrap_mean(own > threshold, probes.subjects) if missing is None else missing
        if missing is None:
            found.add_means({name: own > threshold}, probes.subjects)
    return found


def _measurable(rate: float, probes: People, gallery: People) -> Any:
    return check_measurable(rate, int((~mated(probes.subjects, gallery.subjects)).sum()))


def _add_mates(farthest: HighestPairs, probes: People, gallery: People) -> None:
    """Probes that all have a mate, and their mates, those least alike first."""
    mates = gallery.mates_of(probes.subjects)
    scores = np.einsum("ij,ij->i", probes.units, gallery.units[mates])
    farthest.add(-scores, probes.templates, gallery.templates[mates])


def _named(worst: dict[str, list[ScoredPair]], task: str) -> dict[str, list[ScoredPair]]:
    return {f"{kind}, {task}": pairs for kind, pairs in worst.items()}


def _rates(places: Ints) -> Floats:
    """The identification rate at rank 1, 2, ..."""
    return np.array([found_by(places, rank).mean() for rank in range(1, _DEPTH + 1)])
