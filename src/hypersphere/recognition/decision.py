"""Decisions, each with its threshold, error rate and interval, and with the model and the people these come from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypersphere.recognition.calibration import Calibration

NO_LIVENESS = "liveness is not checked: a photo of a photo passes"
_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def one_in(rate: float, one: str, many: str) -> str:
    """Return a rate as people say it.

    Args:
        rate: a share, from 0 to 1.
        one, many: what is counted, in the singular and in the plural.

    Example:
        >>> one_in(0.001, "pair", "pairs"), one_in(0.34, "pair", "pairs")
        ('about one pair in 1,000', 'about one pair in three')
        >>> one_in(0.6, "pair", "pairs"), one_in(0, "pair", "pairs")
        ('about 60 of 100 pairs', 'hardly any pair')
    """
    if rate <= 0:
        return f"hardly any {one}"
    if rate > 0.45:
        return f"about {100 * rate:.0f} of 100 {many}"
    count = 1 / rate
    count = round(count, 1 - math.floor(math.log10(count)))
    return f"about one {one} in {_NUMBERS[round(count) - 2] if count <= 10 else f'{count:,.0f}'}"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether two photos show one person.

    Args:
        match: whether the score reaches the threshold.
        score: cosine of the two embeddings.
        threshold: the least score that is accepted.
        fmr: false-match rate that the threshold was set for; the largest calibrated one that is not above the asked.
        fmr_low, fmr_high: 95 % interval of the false-match rate at the threshold, over people.
        fnmr, fnmr_low, fnmr_high: the false-non-match rate there.
        fmr_at_score: the false-match rate of a threshold at this score is at most so large: at the next edge of the
            histograms below, and not below 3 / pairs.
        llr: log-likelihood ratio of the score, natural: above 0 it is likelier for one person than for two.
        indicative: the rate rests on fewer than 30 expected false matches.
        calibration: which people the rates were measured on, in words.
        calibration_digest: SHA-256 of their images.
        model: digest of the weights.
        contract: digest of the whole contract.
    """

    match: bool
    score: float
    threshold: float
    fmr: float
    fmr_low: float
    fmr_high: float
    fnmr: float
    fnmr_low: float
    fnmr_high: float
    fmr_at_score: float
    llr: float
    indicative: bool
    calibration: str
    calibration_digest: str
    model: str
    contract: str

    @property
    def verdict(self) -> str:
        """The answer in a few words."""
        if self.match:
            return "Probably the same person"
        return "Not sure enough that it is the same person" if self.llr > 0 else "Probably two different people"

    @property
    def setting(self) -> str:
        """How often the answers of this setting are wrong, in one sentence."""
        return (
            f"At this setting {one_in(self.fmr, 'pair of strangers', 'pairs of strangers')} would pass for one person, "
            f"and {one_in(self.fnmr, 'true pair', 'true pairs')} would be missed."
        )

    @property
    def sentence(self) -> str:
        """The verdict and how often such an answer is wrong."""
        return f"{self.verdict}. {self.setting}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**dataclasses.asdict(self), "sentence": self.sentence, "liveness_checked": False}

    def __str__(self) -> str:
        verdict = "match" if self.match else "no match"
        hint = ", indicative" if self.indicative else ""
        sign = ">=" if self.match else "<"
        return (
            f"{verdict} at FMR {self.fmr:.0e} [{self.fmr_low:.1e}, {self.fmr_high:.1e}]{hint}: score {self.score:.3f} "
            f"{sign} threshold {self.threshold:.3f}, LLR {self.llr:+.1f}"
        )


@dataclass(frozen=True)
class IdentifiedSubject:
    """Somebody enrolled whose score reaches the threshold of a search."""

    subject: str
    score: float
    llr: float


@dataclass(frozen=True, kw_only=True)
class IdentificationDecision:
    """Who of a gallery a photo shows, if anybody.

    Args:
        candidates: those who reach the threshold, best first; nobody is an answer.
        threshold: the least score that is accepted.
        fpir: false-positive identification rate that the threshold was set for, at most the asked one.
        fpir_low, fpir_high: its 95 % interval, over people and galleries.
        fnir, fnir_low, fnir_high: the false-negative identification rate there; None where it was not measured.
        gallery_size: templates that were searched.
        calibrated_size: size of the galleries that the threshold was measured on, not smaller than this one.
        extrapolated: the threshold was not measured at this size: FPIR = 1 - (1 - FMR)^N, independence assumed.
        best_score: the highest score of all; None of an empty gallery.
        indicative: the rate rests on fewer than 30 expected false positives.
        calibration, calibration_digest, model, contract: as in `Decision`.
    """

    candidates: tuple[IdentifiedSubject, ...]
    threshold: float
    fpir: float
    fpir_low: float
    fpir_high: float
    fnir: float | None
    fnir_low: float | None
    fnir_high: float | None
    gallery_size: int
    calibrated_size: int
    extrapolated: bool
    best_score: float | None
    indicative: bool
    calibration: str
    calibration_digest: str
    model: str
    contract: str

    @property
    def match(self) -> bool:
        """Whether anybody reaches the threshold."""
        return bool(self.candidates)

    @property
    def verdict(self) -> str:
        """The answer in a few words."""
        if self.candidates:
            return f"Probably {' or '.join(candidate.subject for candidate in self.candidates)}"
        return "Nobody in the gallery" if self.gallery_size else "Nobody: the gallery is empty"

    @property
    def setting(self) -> str:
        """How often the answers of this setting are wrong, in one sentence."""
        named = f"At this setting {one_in(self.fpir, 'stranger', 'strangers')} would be given a name"
        if self.fnir is None:
            return f"{named}."
        return f"{named}, and {one_in(self.fnir, 'enrolled person', 'enrolled people')} would be missed."

    @property
    def sentence(self) -> str:
        """The verdict and how often such an answer is wrong."""
        return f"{self.verdict}. {self.setting}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "match": self.match,
            **dataclasses.asdict(self),
            "sentence": self.sentence,
            "liveness_checked": False,
        }

    def __str__(self) -> str:
        notes = [
            *(["extrapolated, independence assumed"] if self.extrapolated else []),
            *(["indicative"] if self.indicative else []),
        ]
        where = (
            f"at FPIR {self.fpir:.0e} [{self.fpir_low:.1e}, {self.fpir_high:.1e}] with N = {self.gallery_size:,}"
            f"{''.join(f', {note}' for note in notes)} (threshold {self.threshold:.3f})"
        )
        if not self.candidates:
            best = "" if self.best_score is None else f"; the best score is {self.best_score:.3f}"
            best = best if self.gallery_size else "; the gallery is empty"
            return f"no match {where}{best}"
        listed = ", ".join(f"{each.subject} ({each.score:.3f}, LLR {each.llr:+.1f})" for each in self.candidates)
        return f"match {where}: {listed}"


def decide(score: float, calibration: Calibration, fmr: float = 1e-3) -> Decision:
    """Decide about the score of two photos.

    Args:
        score: cosine of their embeddings.
        calibration: of the model.
        fmr: the false-match rate that must not be exceeded; ValueError where it is below what the calibration measures.

    Example:
        >>> decide(0.7, load_calibration("starter"), fmr=1e-3).match
        True
    """
    row = calibration.table.at(fmr)
    return Decision(
        match=score >= row.threshold,
        score=score,
        threshold=row.threshold,
        fmr=row.fmr,
        fmr_low=row.fmr_low,
        fmr_high=row.fmr_high,
        fnmr=row.fnmr,
        fnmr_low=row.fnmr_low,
        fnmr_high=row.fnmr_high,
        fmr_at_score=calibration.fmr_at(score),
        llr=calibration.llr.at(score),
        indicative=row.indicative,
        **_origin(calibration),
    )


def decide_search(
    found: Sequence[tuple[str, float]],
    gallery_size: int,
    calibration: Calibration,
    fpir: float = 1e-2,
    *,
    miss_rate: float = 0.0,
) -> IdentificationDecision:
    """Decide about the best entries of a gallery.

    Args:
        found: subjects and scores of its entries, in any order; of a subject with several the best counts.
        gallery_size: templates in the gallery.
        calibration: of the model.
        fpir: the false-positive identification rate that must not be exceeded.
        miss_rate: share of searches whose best entry an approximate index misses, which is added to the FNIR.
    """
    row = calibration.search_at(fpir, gallery_size)
    fnir, fnir_low, fnir_high = (
        None if rate is None else min(1.0, rate + miss_rate) for rate in (row.fnir, row.fnir_low, row.fnir_high)
    )
    best: dict[str, float] = {}
    for subject, score in found:
        best[subject] = max(score, best.get(subject, -1.0))
    ranked = sorted(best.items(), key=lambda each: -each[1])
    return IdentificationDecision(
        candidates=tuple(
            IdentifiedSubject(subject, score, calibration.llr.at(score))
            for subject, score in ranked
            if score >= row.threshold
        ),
        threshold=row.threshold,
        fpir=row.fpir,
        fpir_low=row.fpir_low,
        fpir_high=row.fpir_high,
        fnir=fnir,
        fnir_low=fnir_low,
        fnir_high=fnir_high,
        gallery_size=gallery_size,
        calibrated_size=row.gallery_size,
        extrapolated=row.extrapolated,
        best_score=ranked[0][1] if ranked else None,
        indicative=row.indicative,
        **_origin(calibration),
    )


def _origin(calibration: Calibration) -> dict[str, str]:
    table = calibration.table
    return {
        "calibration": table.people,
        "calibration_digest": table.digest,
        "model": table.model,
        "contract": calibration.contract,
    }
