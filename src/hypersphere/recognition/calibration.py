"""What decisions of a model rest on: thresholds of pairs and of searches, likelihood ratios, and the people behind."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hypersphere.core import (
    Reporter,
    check_integer,
    check_range,
    check_rising,
    counted,
    digest,
    sealed_text,
    write_atomically,
)
from hypersphere.data import first_few, shared_names
from hypersphere.evaluation import SortedScores, roc_from
from hypersphere.evaluation.arrays import finite_rows, finite_scores, labels_for
from hypersphere.evaluation.metrics.calibrate import all_pairs, calibrate_pairs
from hypersphere.models import STARTER, Contract, ThresholdTable, find_entry
from hypersphere.models.catalogue import CATALOGUE_FOLDER, STARTER_FOLDER
from hypersphere.models.thresholds import read_calibrated
from hypersphere.recognition.llr import LlrLine, fit_llr
from hypersphere.recognition.score_curve import ScoreCurve, score_curve, sorted_kinds
from hypersphere.recognition.search_thresholds import SearchThreshold, calibrate_searches

CALIBRATION_FILE = "calibration.json"
SHIPPED = {"portraits": CALIBRATION_FILE, "albums": f"albums.{CALIBRATION_FILE}"}
"""Calibrations of the starter model by the kind of photos that they are for: portraits of adults, which decide where
nothing else is said, and family albums, with children and relatives."""
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Everything that a decision about scores of a model needs.

    Args:
        contract: digest of the whole contract: weights, size, colours, alignment, mirror images.
        table: thresholds of pairs at false-match rates, and the people they were calibrated on.
        llr: the log-likelihood ratio of a score.
        curve: how the scores are spread, with both error rates at every edge.
        tail_ranks, tail_scores: impostor scores from the top, such as the highest, the second, the fifth ...
        searches: thresholds of searches in galleries of several sizes; none where pairs were all there was.
        disjoint_from: sets of people that none of the calibration's people is in, by name.
    """

    contract: str
    table: ThresholdTable
    llr: LlrLine
    curve: ScoreCurve
    tail_ranks: tuple[int, ...]
    tail_scores: tuple[float, ...]
    searches: tuple[SearchThreshold, ...]
    disjoint_from: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.tail_ranks) != len(self.tail_scores) or not self.tail_ranks:
            raise ValueError(f"tail_scores has {len(self.tail_scores)} entries for {len(self.tail_ranks)} ranks")
        check_rising("tail_ranks", self.tail_ranks, 1, self.table.impostors, strictly=True)
        check_rising("tail_scores, from the last to the first", self.tail_scores[::-1], -2, 2)
        self._check_counts()
        self._check_searches()

    def _check_counts(self) -> None:
        """Raise ValueError unless thresholds, tail and likelihood ratios are of the pairs that the curve counts."""
        table, curve = self.table, self.curve
        for kind, bound in (("genuine", -self.llr.low), ("impostors", self.llr.high)):
            count, total = sum(getattr(curve, kind)), getattr(table, kind)
            if count != total:
                raise ValueError(f"curve.{kind} counts {count:,} pairs, table.{kind} says {total:,}")
            if not math.isclose(bound, math.log(total + 1), rel_tol=1e-9):
                raise ValueError(f"llr.low, llr.high: {bound:g} is not ln({total:,} + 1) of the {kind} pairs")
        for row in table.thresholds:
            for kind, accepted in (
                ("impostors", row.false_matches),
                ("genuine", round((1 - row.fnmr) * table.genuine)),
            ):
                least, most = curve.accepted(getattr(curve, kind), row.threshold)
                if not least <= accepted <= most:
                    raise ValueError(
                        f"threshold={row.threshold:g} at fmr={row.fmr:g} accepts {accepted:,} {kind} pairs, but the "
                        f"curve counts {least:,} to {most:,} above it"
                    )
        for rank, score in zip(self.tail_ranks, self.tail_scores, strict=True):
            least, most = curve.accepted(curve.impostors, score)
            if not least < rank <= most:
                raise ValueError(
                    f"tail_scores: {score:g} has rank {rank:,}, but the curve counts {least:,} to {most:,}"
                )

    def _check_searches(self) -> None:
        """Raise ValueError unless thresholds of searches were measured, and rise as their rates fall."""
        by_size: dict[int, list[SearchThreshold]] = {}
        for row in self.searches:
            by_size.setdefault(row.gallery_size, []).append(row)
            if row.extrapolated or row.gallery_size >= self.table.identities:
                raise ValueError(
                    f"searches: {self.table.identities:,} people cannot measure a gallery of {row.gallery_size:,}"
                )
        for size, rows in by_size.items():
            rates, thresholds = [row.fpir for row in rows[::-1]], [row.threshold for row in rows]
            check_rising(f"searches in {size:,}, fpir from the last row to the first", rates, 0, 1, strictly=True)
            check_rising(f"searches in {size:,}, threshold", thresholds, -2, 2)

    def check_contract(self, contract: Contract) -> None:
        """ValueError if this is the calibration of another model, or of the same with other preprocessing."""
        if digest(contract) != self.contract:
            raise ValueError(
                f"the calibration is of contract {self.contract} (weights {self.table.model}), but the model has "
                f"contract {digest(contract)} (weights {contract.digest}): calibrate it (hypersphere calibrate)"
            )

    def fmr_at(self, score: float) -> float:
        """An upper bound of the false-match rate of a threshold at a score, at least 3 / pairs (the rule of 3)."""
        return max(self.curve.fmr_at(score), 3 / self.table.impostors)

    def largest_gallery(self, fpir: float) -> int:
        """How many templates a gallery may have for searches at this FPIR.

        Example:
            >>> starter = load_calibration("starter")
            >>> starter.search_at(1e-2, starter.largest_gallery(1e-2)).extrapolated
            True
        """
        check_range("fpir", fpir, 1e-12, 1.0)
        measured = [row.gallery_size for row in self.searches if row.fpir <= fpir * (1 + 1e-9)]
        size = math.log1p(-min(fpir, 1 - 1e-12)) / math.log1p(-3 / self.table.impostors)
        return max(0, math.floor(size * (1 + 1e-12)), *measured)

    def search_at(self, fpir: float, gallery_size: int) -> SearchThreshold:
        """The threshold of a search among `gallery_size` templates with at most this FPIR.

        The row of the largest measured rate that is not above `fpir`, of the smallest measured gallery that is not
        smaller. Where there is none it is extrapolated: FPIR = 1 - (1 - FMR)^N, with the impostor pairs' FMR, as if
        comparisons were independent. Where this FMR is below 3 / pairs, ValueError.

        Example:
            >>> row = load_calibration("starter").search_at(1e-2, gallery_size=120)
            >>> row.gallery_size, row.indicative, row.extrapolated
            (200, False, False)
        """
        check_range("fpir", fpir, 1e-12, 1.0)
        size = max(1, check_integer("gallery_size", gallery_size, 0))
        rows = [row for row in self.searches if row.gallery_size >= size and row.fpir <= fpir * (1 + 1e-9)]
        if rows:
            return min(rows, key=lambda row: (-row.fpir, row.gallery_size))
        fmr = -math.expm1(math.log1p(-min(fpir, 1 - 1e-12)) / size)
        taken = math.floor(fmr * self.table.impostors * (1 + 1e-12))
        if taken < 3:
            least = -math.expm1(size * math.log1p(-3 / self.table.impostors))
            digits = 1 - math.floor(math.log10(least))
            offered = math.ceil(least * 10**digits) / 10**digits
            raise ValueError(
                f"fpir={fpir:g} in a gallery of {size:,} needs a false-match rate of {fmr:.1e} for each comparison, "
                f"below {3 / self.table.impostors:.1e}, the smallest that {self.table.impostors:,} pairs support: up "
                f"to {self.largest_gallery(fpir):,} templates are; {f'ask for fpir={offered:g}, or ' * (offered < 1)}"
                "calibrate on more people"
            )
        place = max(k for k, rank in enumerate(self.tail_ranks) if rank <= taken + 1)
        threshold = SortedScores(np.array([self.tail_scores[place]], np.float32)).least_threshold(0)
        low, high = (-math.expm1(size * math.log1p(-min(rate, 1 - 1e-12))) for rate in self.curve.fmr_bounds(threshold))
        return SearchThreshold(
            gallery_size=size,
            fpir=fpir,
            threshold=threshold,
            fpir_low=low,
            fpir_high=high,
            searches=0,
            fnir=None,
            fnir_low=None,
            fnir_high=None,
            indicative=taken < 30,
            extrapolated=True,
        )


@dataclass(frozen=True, kw_only=True)
class CalibrationSet:
    """Which people a calibration is made of.

    Args:
        people: in words.
        digest: SHA-256 over names and bytes of their images.
        images: how many images.
        names: of the people; none where they have only numbers.
        disjoint_from: sets of people that none of these is in, as `disjoint` found.
    """

    people: str
    digest: str
    images: int
    names: tuple[str, ...] = ()
    disjoint_from: tuple[str, ...] = ()

    def disjoint(self, others: Sequence[str], what: str) -> CalibrationSet:
        """The same set with the statement that none of its people is among others; ValueError if one is, by name.

        Args:
            others: names of people, such as those of the training set or of a test.
            what: whose names they are, for the message.
        """
        both = [name for name, _ in shared_names(self.names, others)]
        if both:
            raise ValueError(
                f"the calibration set shares {counted(len(both), 'person', 'people')} with {what}: "
                f"{first_few(both, len(both))}; thresholds must come from people that nobody trained on or tests with"
            )
        return dataclasses.replace(self, disjoint_from=(*self.disjoint_from, what))


def calibrate(
    unit: npt.ArrayLike,
    identities: npt.ArrayLike,
    contract: Contract,
    about: CalibrationSet,
    *,
    prior: float = 0.5,
    galleries: int = 50,
    replicates: int = 1000,
    seed: int = 0,
    progress: Reporter | None = None,
) -> Calibration:
    """Calibrate a model on the embeddings of people that it was not trained on, each image compared with every other.

    Args:
        unit: (images, dim) unit vectors.
        identities: (images,) whole numbers: whose image each is.
        contract: of the model.
        about: which people they are.
        prior: of the log-likelihood ratios' fit.
        galleries: random galleries of each size, for the thresholds of searches.
        replicates, seed: of the bootstrap.
        progress: called as `progress(done, total)` in galleries.
    """
    rows = finite_rows("unit", unit)
    person = np.unique(labels_for("identities", identities, len(rows)), return_inverse=True)[1].astype(np.int64)
    pairs = all_pairs(rows, person)
    made = calibrate_scores(*pairs, contract, about, prior=prior, replicates=replicates, seed=seed)
    searches = calibrate_searches(
        rows, person, galleries=galleries, replicates=replicates, seed=seed, progress=progress
    )
    return dataclasses.replace(made, searches=tuple(searches))


def calibrate_scores(
    scores: npt.ArrayLike,
    left: npt.ArrayLike,
    right: npt.ArrayLike,
    contract: Contract,
    about: CalibrationSet,
    *,
    prior: float = 0.5,
    replicates: int = 1000,
    seed: int = 0,
) -> Calibration:
    """Calibrate on scored pairs alone; thresholds of searches are then extrapolated from them.

    Args:
        scores: (pairs,) cosines.
        left, right: (pairs,) whole numbers: the person on the first and on the second image.
        contract, about, prior, replicates, seed: as for `calibrate`.
    """
    cosines = finite_scores("scores", scores).astype(np.float32)
    sides = [labels_for(name, side, len(cosines)) for name, side in (("left", left), ("right", right))]
    people = np.unique(np.concatenate(sides))
    first, second = (np.searchsorted(people, side) for side in sides)
    rows = calibrate_pairs(cosines, first, second, replicates=replicates, seed=seed)
    genuine, impostors = sorted_kinds(cosines, first, second)
    if not rows:
        raise ValueError(
            f"{impostors.total:,} pairs of different people are too few: even a false-match rate of 0.1 needs 30"
        )
    ranks, tail = _tail(impostors)
    return Calibration(
        contract=digest(contract),
        table=ThresholdTable(
            model=contract.digest,
            people=about.people,
            digest=about.digest,
            identities=len(people),
            images=about.images,
            genuine=genuine.total,
            impostors=impostors.total,
            method=f"95 % intervals, bootstrap over people, {replicates} replicates, seed {seed}",
            thresholds=tuple(rows),
        ),
        llr=fit_llr(genuine.values, impostors.values, roc_from(genuine, impostors), prior=prior),
        curve=score_curve(cosines, first, second, replicates=replicates, seed=seed),
        tail_ranks=ranks,
        tail_scores=tail,
        searches=(),
        disjoint_from=about.disjoint_from,
    )


def _tail(impostors: SortedScores) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Ranks from the top, twenty for each power of ten down to the highest tenth, and the scores there."""
    last = max(1, impostors.total // 10)
    steps = 10 ** (np.arange(20 * 16) / 20)
    ranks = sorted({int(step) for step in steps if step <= last} | {last})
    return tuple(ranks), tuple(impostors.kth_largest(rank) for rank in ranks)


def calibration_path(model: str | Path) -> Path:
    """Where the calibration of a model lies: in its folder, or beside its file `X.onnx` as `X.calibration.json`.

    That of a named model is the user's own, in the folder of its files; without it `load_calibration` reads the
    package's.
    """
    entry = find_entry(model)
    if entry is not None and entry.files:
        return entry.folder / CALIBRATION_FILE
    place = STARTER_FOLDER if model == STARTER else Path(entry.path if entry is not None and entry.path else model)
    return place / CALIBRATION_FILE if place.is_dir() else place.with_suffix(f".{CALIBRATION_FILE}")


def load_calibration(path: str | Path, contract: Contract | None = None) -> Calibration:
    """The calibration of a model.

    Args:
        path: the `.json` file, a model's folder or file that has one beside it, `"starter"`, or one of `SHIPPED`.
        contract: of the model whose scores it will judge, which must be the one that was calibrated.

    Example:
        >>> load_calibration("starter").table.identities, load_calibration("albums").table.identities
        (2141, 267)
    """
    if str(path) in SHIPPED:
        place = STARTER_FOLDER / SHIPPED[str(path)]
    else:
        place = Path(path) if Path(path).suffix == ".json" else calibration_path(path)
    packaged = CATALOGUE_FOLDER / f"{path}.{CALIBRATION_FILE}"
    if not place.is_file() and find_entry(path) is not None and packaged.is_file():
        place = packaged
    if not place.is_file():
        raise ValueError(
            f"{place} is missing: the model was not calibrated, so no score of it has an error rate; "
            "`hypersphere calibrate` makes it from images of people that the model was not trained on"
        )
    calibration = read_calibrated(place, Calibration, "calibration")
    if contract is not None:
        try:
            calibration.check_contract(contract)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None
    return calibration


def save_calibration(calibration: Calibration, path: str | Path) -> None:
    """Write a calibration as JSON with its seal, whole or not at all."""
    write_atomically(path, sealed_text(dataclasses.asdict(calibration)))
