"""What the service answers, as plain values: the schema of its API."""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from hypersphere.data import encode
from hypersphere.models import ThresholdTable
from hypersphere.recognition import (
    NO_LIVENESS,
    Calibration,
    Decision,
    GalleryInfo,
    IdentificationDecision,
    LlrLine,
    Recognizer,
    SearchThreshold,
)
from hypersphere.service.photo_faces import PhotoFace

STEP = 0.01
"""Scores go out rounded down to multiples of it. That hides nothing: who sees some hundreds computes a template."""


@dataclass(frozen=True, kw_only=True)
class FaceOnPhoto:
    """Where the face is on a photo that was sent.

    Args:
        width, height: of the photo, upright.
        box: x0, y0, x1, y1 in pixels; None of a crop that was aligned before.
        landmarks: x and y of eyes, nose and corners of the mouth.
        crop: the aligned face as a PNG in a data URL, if it was asked for.
    """

    width: int
    height: int
    box: tuple[float, float, float, float] | None
    landmarks: tuple[tuple[float, float], ...]
    crop: str | None


@dataclass(frozen=True, kw_only=True)
class VerificationDecision:
    """A `Decision` of recognition as it goes out: without score, LLR and FMR at the score where these are not shown."""

    match: bool
    score: float | None
    threshold: float
    fmr: float
    fmr_low: float
    fmr_high: float
    fnmr: float
    fnmr_low: float
    fnmr_high: float
    fmr_at_score: float | None
    llr: float | None
    indicative: bool
    calibration: str
    calibration_digest: str
    model: str
    contract: str


@dataclass(frozen=True, kw_only=True)
class FoundSubject:
    """Somebody enrolled whose score reaches the threshold; score and LLR only for keys that may see scores."""

    subject: str
    score: float | None
    llr: float | None


@dataclass(frozen=True, kw_only=True)
class SearchDecision:
    """An `IdentificationDecision` of recognition as it goes out: with scores only for keys that may see them."""

    candidates: tuple[FoundSubject, ...]
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


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The answer to /v1/verify.

    Args:
        verdict: in a few words; `sentence` goes on with how often such answers are wrong, which `setting` says alone.
    """

    decision: VerificationDecision
    verdict: str
    setting: str
    sentence: str
    photos: tuple[FaceOnPhoto, ...]
    liveness: str = NO_LIVENESS


@dataclass(frozen=True, kw_only=True)
class Identification:
    """The answer to /v1/identify."""

    match: bool
    decision: SearchDecision
    verdict: str
    setting: str
    sentence: str
    photo: FaceOnPhoto
    liveness: str = NO_LIVENESS


@dataclass(frozen=True, kw_only=True)
class Enrolled:
    """The answer to /v1/enroll.

    Args:
        subject: who was enrolled.
        template: its id; the idempotency key, if one was sent.
        photos: how many photos made it.
        expires: until when it is kept, in seconds since 1970.
    """

    subject: str
    template: str
    photos: int
    expires: float | None


@dataclass(frozen=True, kw_only=True)
class Forgotten:
    """The answer to a deletion: how many templates are gone."""

    subject: str
    removed: int


@dataclass(frozen=True, kw_only=True)
class Subjects:
    """Names of people who are enrolled, sorted; `after` asks for those after the last one."""

    subjects: tuple[str, ...]
    more: bool


@dataclass(frozen=True, kw_only=True)
class GallerySummary:
    """What the gallery holds."""

    engine: str
    size: int
    subjects: int
    expired: int
    quarantined: int
    contract: str
    index: str
    miss_rate: float


@dataclass(frozen=True, kw_only=True)
class ScoreSpread:
    """How the calibration's scores are spread: counts in bins, and the rates of a threshold at each left edge."""

    edges: tuple[float, ...]
    genuine: tuple[int, ...]
    impostors: tuple[int, ...]
    fmr: tuple[float, ...]
    fmr_low: tuple[float, ...]
    fmr_high: tuple[float, ...]
    fnmr: tuple[float, ...]
    fnmr_low: tuple[float, ...]
    fnmr_high: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class ModelReport:
    """The model in use and what its decisions rest on."""

    model: str
    contract: str
    input_size: tuple[int, int]
    dim: int
    alignment: str
    detector: str
    table: ThresholdTable
    searches: tuple[SearchThreshold, ...]
    llr: LlrLine
    spread: ScoreSpread
    liveness: str = NO_LIVENESS


@dataclass(frozen=True, kw_only=True)
class Health:
    """Whether the service can work, and its version."""

    status: str
    version: str


def rounded_down(score: float) -> float:
    """A score as it goes out.

    Example:
        >>> rounded_down(0.5876), rounded_down(-0.001)
        (0.58, -0.01)
    """
    return round(math.floor(score / STEP + 1e-4) * STEP, 2)


def verification(
    decision: Decision, faces: Sequence[PhotoFace], calibration: Calibration, *, crops: bool, scores: bool
) -> Verification:
    """A decision as it goes out: what follows from the score follows from the rounded one.

    Args:
        decision, faces, calibration: of the two photos.
        crops: whether to show the aligned faces.
        scores: whether to show the score also where there is no match.
    """
    score = rounded_down(decision.score)
    llr, fmr_at_score = round(calibration.llr.at(score), 1), calibration.fmr_at(score + 1e-9)
    shown = dataclasses.replace(decision, score=score, llr=llr, fmr_at_score=fmr_at_score)
    hidden = {} if decision.match or scores else {"score": None, "llr": None, "fmr_at_score": None}
    return Verification(
        decision=VerificationDecision(**{**dataclasses.asdict(shown), **hidden}),
        verdict=shown.verdict,
        setting=shown.setting,
        sentence=shown.sentence,
        photos=tuple(face_on_photo(face, crops) for face in faces),
    )


def identification(
    decision: IdentificationDecision, face: PhotoFace, calibration: Calibration, *, k: int, crops: bool, scores: bool
) -> Identification:
    """A search's decision as it goes out: at most k candidates.

    Scores of a match stay here too: once a photo matches, changed ones that still match would lead to the template.

    Args:
        decision, face, calibration: of the photo.
        k: candidates at most.
        crops: whether to show the aligned face.
        scores: whether to show scores, rounded.
    """
    candidates = []
    for each in decision.candidates[:k]:
        score = rounded_down(each.score)
        candidates.append(dataclasses.replace(each, score=score, llr=round(calibration.llr.at(score), 1)))
    best = None if decision.best_score is None or not scores else rounded_down(decision.best_score)
    shown = dataclasses.replace(decision, candidates=tuple(candidates), best_score=best)
    found = (
        FoundSubject(subject=each.subject, score=each.score if scores else None, llr=each.llr if scores else None)
        for each in candidates
    )
    values = {**dataclasses.asdict(shown), "candidates": tuple(found)}
    photo = face_on_photo(face, crops)
    return Identification(
        match=decision.match,
        decision=SearchDecision(**values),
        verdict=shown.verdict,
        setting=shown.setting,
        sentence=shown.sentence,
        photo=photo,
    )


def face_on_photo(found: PhotoFace, crop: bool) -> FaceOnPhoto:
    """Where a face is on its photo, with the aligned crop if asked."""
    face = found.face
    data = base64.b64encode(encode(found.crop)).decode() if crop else ""
    return FaceOnPhoto(
        width=found.width,
        height=found.height,
        box=None if face is None else tuple(round(float(value), 1) for value in face.box),  # type: ignore[arg-type]
        landmarks=() if face is None else tuple((round(float(x), 1), round(float(y), 1)) for x, y in face.landmarks),
        crop=f"data:image/png;base64,{data}" if crop else None,
    )


def gallery_summary(info: GalleryInfo) -> GallerySummary:
    """What may be said of a gallery: not where it is."""
    return GallerySummary(
        engine=info.engine,
        size=info.size,
        subjects=info.subjects,
        expired=info.expired,
        quarantined=info.quarantined,
        contract=info.contract_digest,
        index=info.index,
        miss_rate=info.miss_rate,
    )


def model_report(recognizer: Recognizer) -> ModelReport:
    """The report of a recognizer's model."""
    calibration, contract = recognizer.calibration, recognizer.contract
    curve = calibration.curve
    return ModelReport(
        model=recognizer.model.name or "model",
        contract=calibration.contract,
        input_size=contract.input_size,
        dim=contract.width,
        alignment=contract.alignment or "",
        detector="none: photos are aligned crops" if recognizer.detector is None else recognizer.detector.name,
        table=calibration.table,
        searches=calibration.searches,
        llr=calibration.llr,
        spread=ScoreSpread(
            edges=curve.edges,
            genuine=curve.genuine,
            impostors=curve.impostors,
            fmr=tuple(curve.fmr.tolist()),
            fmr_low=curve.fmr_low,
            fmr_high=curve.fmr_high,
            fnmr=tuple(curve.fnmr.tolist()),
            fnmr_low=curve.fnmr_low,
            fnmr_high=curve.fnmr_high,
        ),
    )
