"""Thresholds of a search among N people: which cosine gives which false-positive identification rate (FPIR)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hypersphere.core import Reporter, check_integer, check_range, check_rising
from hypersphere.evaluation import Estimate, NotMeasurable, SortedScores
from hypersphere.evaluation.statistics.bootstrap import percentile_estimate, subject_draws
from hypersphere.evaluation.statistics.estimate import check_measurable
from hypersphere.models.thresholds import check_cosine

FPIRS = (1e-1, 1e-2, 1e-3, 1e-4)
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class SearchThreshold:
    """Accept the candidates of a search whose cosine is at least `threshold`.

    Args:
        gallery_size: templates in the gallery, one for each person.
        fpir: share of searches for somebody who is not enrolled that may return anybody.
        threshold: the cosine.
        fpir_low, fpir_high: 95 % interval of that share at this threshold, over people and galleries.
        searches: different images that were searched.
        fnir, fnir_low, fnir_high: share of searches for somebody who is enrolled that do not return that person first,
            with the same interval; None where it was not measured.
        indicative: fewer than 30 false positives would be expected among `searches`: take it as a hint.
        extrapolated: not measured on galleries of this size, but FPIR = 1 - (1 - FMR)^N, as if comparisons were
            independent.
    """

    gallery_size: int
    fpir: float
    threshold: float
    fpir_low: float
    fpir_high: float
    searches: int
    fnir: float | None
    fnir_low: float | None
    fnir_high: float | None
    indicative: bool
    extrapolated: bool = False

    def __post_init__(self) -> None:
        check_integer("gallery_size", self.gallery_size, 1)
        check_integer("searches", self.searches, 0)
        check_range("fpir", self.fpir, 1e-12, 1)
        check_cosine("threshold", self.threshold)
        check_rising("fpir_low, fpir_high", (self.fpir_low, self.fpir_high), 0, 1)
        negatives = [rate for rate in (self.fnir_low, self.fnir, self.fnir_high) if rate is not None]
        if len(negatives) not in (0, 3):
            raise ValueError("fnir, fnir_low and fnir_high: all of them are numbers, or none")
        check_rising("fnir_low, fnir, fnir_high", negatives, 0, 1)
        if not self.extrapolated:
            self._check_measured()

    def _check_measured(self) -> None:
        if self.fpir_low > self.fpir * (1 + 1e-9) or self.searches * self.fpir < 3 * (1 - 1e-9):
            raise ValueError(
                f"fpir={self.fpir:g} does not fit {self.searches:,} searches and an interval from {self.fpir_low:g}"
            )
        if self.indicative != (self.searches * self.fpir < 30):
            raise ValueError(
                f"indicative={self.indicative} of {self.searches:,} searches at {self.fpir:g} (rule of 30)"
            )


def gallery_sizes(people: int) -> list[int]:
    """The sizes that a set of people can measure: 10, 20, 50, 100 ... and one less than there are people."""
    steps = [step * 10**power for power in range(1, 9) for step in (1, 2, 5)]
    return [*(size for size in steps if size < people - 1), people - 1]


def calibrate_searches(
    unit: npt.NDArray[np.float32],
    person: Ints,
    *,
    galleries: int = 50,
    replicates: int = 1000,
    seed: int = 0,
    progress: Reporter | None = None,
) -> list[SearchThreshold]:
    """The thresholds of FPIRs 1e-1, 1e-2 ... for galleries of several sizes, as far as the images can measure them.

    A gallery holds one random image of each of N random people. Every image is searched in it, without its own
    person's entry. With k = floor(FPIR x searches) the threshold is the smallest number above the (k + 1)-th highest
    of the searches' best scores. The rules of 3 and of 30 count different images, however many galleries each was
    searched in.

    Args:
        unit: (images, dim) unit vectors.
        person: (images,) whose each is, from 0.
        galleries: random galleries of each size.
        replicates, seed: of the bootstrap over people and galleries, and of the galleries.
        progress: called as `progress(done, total)` in galleries.
    """
    if person.ndim != 1 or not len(person) or unit.ndim != 2 or len(unit) != len(person):
        raise ValueError(f"unit {unit.shape} and person {person.shape} must be (images, dim) and (images,), not empty")
    count = int(person.max()) + 1
    sizes = gallery_sizes(count) if count > 2 else []
    found: list[SearchThreshold] = []
    for number, size in enumerate(sizes):
        searched = []
        for turn, gallery in enumerate(_searched(unit, person, size, galleries, seed)):
            searched.append(gallery)
            if progress is not None:
                progress(number * galleries + turn + 1, len(sizes) * galleries)
        found += _rows(searched, person, size, replicates, seed)
    return found


@dataclass(frozen=True, eq=False)
class _Searched:
    """What one gallery gave: for each image the best score of others, and of those whose person is enrolled, by another
    image, the mate's score, -inf where somebody else's is higher."""

    others: npt.NDArray[np.float32]
    mated: Ints
    mates: npt.NDArray[np.float32]


def _searched(unit: npt.NDArray[np.float32], person: Ints, size: int, galleries: int, seed: int) -> Iterator[_Searched]:
    """Galleries of `size` + 1 people: an image of one of them is compared with the others, any other with all but one.

    So every image is a search among `size` people without its own. A search for somebody enrolled leaves out one of
    the others.
    """
    generator = np.random.default_rng([seed, size])
    order = np.argsort(person, kind="stable")
    starts = np.searchsorted(person[order], np.arange(person.max() + 2))
    rows = np.arange(len(person))
    for _ in range(galleries):
        people = generator.permutation(len(starts) - 1)[: size + 1]
        entries = order[generator.integers(starts[people], starts[people + 1])]
        scores = unit @ unit[entries].T
        place = np.full(len(starts) - 1, -1)
        place[people] = np.arange(size + 1)
        own = place[person]
        without = scores.copy()
        without[rows, own] = -np.inf  # place -1 is the last entry, which an image of nobody enrolled leaves out
        others = without.max(axis=1)
        mated = np.flatnonzero((own >= 0) & (entries[own] != rows))
        spare = np.where(own[mated] == size, 0, size)
        left = without[mated]
        left[np.arange(len(mated)), spare] = -np.inf
        mates = scores[mated, own[mated]]
        yield _Searched(others, mated, np.where(mates > left.max(axis=1), mates, -np.inf).astype(np.float32))


def _rows(
    searched: Sequence[_Searched], person: Ints, size: int, replicates: int, seed: int
) -> Iterator[SearchThreshold]:
    images = len(person)
    highest = SortedScores(np.concatenate([each.others for each in searched]))
    people = int(person.max()) + 1
    draws = np.array(list(subject_draws(people, replicates, seed)), dtype=np.float64)
    weights = np.array(list(subject_draws(len(searched), replicates, seed + 1)), dtype=np.float64)

    def counted(which: list[npt.NDArray[np.bool_]], whose: list[Ints]) -> Floats:
        """(galleries, people) how many of each person's searches in each gallery are of a kind."""
        return np.stack([np.bincount(w, k, people) for k, w in zip(which, whose, strict=True)])

    def rated(wrong: Floats, total: Floats) -> Estimate:
        """The share of searches that are wrong, with its interval over people and galleries."""
        with np.errstate(invalid="ignore"):  # a draw without such a search measures nothing
            drawn = ((weights @ wrong) * draws).sum(1) / ((weights @ total) * draws).sum(1)
        return percentile_estimate(wrong.sum() / total.sum(), drawn, images, people, "bootstrap over subjects")

    everyone = [person] * len(searched)
    enrolled = [person[each.mated] for each in searched]
    trials = counted([np.ones(len(w), bool) for w in everyone], everyone)
    mated = counted([np.ones(len(w), bool) for w in enrolled], enrolled)
    for fpir in FPIRS:
        if isinstance(check_measurable(fpir, images), NotMeasurable):
            return
        threshold = highest.least_threshold(math.floor(fpir * highest.total))
        errors = counted([each.others >= threshold for each in searched], everyone)
        missed = counted([each.mates < threshold for each in searched], enrolled)
        positives = rated(errors, trials)
        negatives = rated(missed, mated) if mated.any() else None
        yield SearchThreshold(
            gallery_size=size,
            fpir=fpir,
            threshold=threshold,
            fpir_low=positives.low,
            fpir_high=positives.high,
            searches=images,
            fnir=None if negatives is None else negatives.value,
            fnir_low=None if negatives is None else negatives.low,
            fnir_high=None if negatives is None else negatives.high,
            indicative=images * fpir < 30,
        )
