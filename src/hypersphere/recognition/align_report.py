"""What is aligned and what became of it, in plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypersphere.core import check_choice
from hypersphere.evaluation import Estimate, guaranteed_proportion
from hypersphere.models.align import ALIGNMENT_TARGETS
from hypersphere.recognition.detect import Detector, load_detector

FACE_POLICIES = ("one", "largest", "all")
"""Of a photo with several faces: refuse it, take the one with the largest box, or take all."""
ALIGN_FAILURES = ("unreadable", "too large", "no face", "several faces", "landmarks")
"""Why a photo gives no crop."""


@dataclass(frozen=True, kw_only=True)
class AlignTask:
    """Which photos are aligned to what, in plain values that can be sent to another process.

    Args:
        photos: as `open_every_image` takes them: a folder, a tar, a list, a record file, or one photo.
        out: the folder of crops; `Ada/1.jpg` becomes `Ada/1.png`.
        detector: as `load_detector` takes it.
        target: a name of `ALIGNMENT_TARGETS`.
        faces: what to do with a photo of several faces: `one` refuses it, `largest`, or `all` (`Ada/1.face1.png`, ...).
        min_face: the smallest face that MTCNN looks for, in pixels.
        quality: None for PNG; 1 to 100 for JPEG.
        format: of the photos; guessed by default.
    """

    photos: str
    out: str
    detector: str = "mtcnn"
    target: str = "insightface-112"
    faces: str = "one"
    min_face: int = 20
    quality: int | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        check_choice("target", self.target, ALIGNMENT_TARGETS)
        check_choice("faces", self.faces, FACE_POLICIES)

    def load_detector(self, threads: int | None = None) -> Detector:
        """Return the detector."""
        options: dict[str, Any] = {"min_face": self.min_face} if self.detector == "mtcnn" else {}
        return load_detector(self.detector, threads=threads, **options)


@dataclass(frozen=True, kw_only=True)
class AlignedPhoto:
    """What became of one photo: the crops of its faces, or why there is none.

    Args:
        photo: its name.
        failure: one of `ALIGN_FAILURES`, empty where there is a crop.
        cause: of the failure, or of faces that were left out, in words.
        crops: the files, relative to the folder.
        boxes, scores, landmarks: of all faces that were found; those of the crops first, in their order.
    """

    photo: str
    failure: str = ""
    cause: str = ""
    crops: tuple[str, ...] = ()
    boxes: tuple[tuple[float, ...], ...] = ()
    scores: tuple[float, ...] = ()
    landmarks: tuple[tuple[tuple[float, ...], ...], ...] = ()


@dataclass(frozen=True)
class AlignReport:
    """What `align_photos` did."""

    task: AlignTask
    photos: list[AlignedPhoto] = field(repr=False)

    @property
    def crops(self) -> int:
        """How many crops were written."""
        return sum(len(each.crops) for each in self.photos)

    @property
    def failed(self) -> list[AlignedPhoto]:
        """The photos that gave no crop."""
        return [each for each in self.photos if each.failure]

    @property
    def failure_rate(self) -> Estimate:
        """The share of photos without a crop, with its 95 % interval: failure to acquire (FTA) of ISO/IEC 19795-1."""
        return guaranteed_proportion(len(self.failed), len(self.photos))
