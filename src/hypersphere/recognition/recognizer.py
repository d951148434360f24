"""From photos to decisions: detect, align, embed, compare with a calibrated threshold, enrol and identify."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_choice
from hypersphere.data import Image
from hypersphere.models import (
    AlignmentTarget,
    Contract,
    DegenerateLandmarks,
    Embedder,
    align_face,
    load_model,
)
from hypersphere.models.devices import detector_provider
from hypersphere.models.model_file import find_model
from hypersphere.recognition.calibration import Calibration, load_calibration
from hypersphere.recognition.decision import Decision, IdentificationDecision, decide, decide_search
from hypersphere.recognition.detect import Detector, load_detector
from hypersphere.recognition.face import Face
from hypersphere.recognition.gallery import Gallery, open_gallery
from hypersphere.recognition.gallery.addresses import check_gallery
from hypersphere.recognition.photo import read_photo
from hypersphere.recognition.template import pool_template

FACES = ("only", "largest")
"""Which face of a photo is meant: the only one, or the one with the largest box."""
Photo = str | Path | bytes | Image
"""A path, the content of an image file, or pixels: uint8 (H, W, 3) RGB."""
_CANDIDATES = 10


class FaceCountError(ValueError):
    """A photo on which one face was expected has none, or several.

    Args:
        photo: which one.
        faces: those that were found.
        size: height and width of the photo, of which `boxes` says the places as shares.
    """

    def __init__(self, photo: str, faces: Sequence[Face] = (), size: tuple[int, int] = (1, 1)) -> None:
        height, width = size
        self.boxes = [
            (x0 / width, y0 / height, x1 / width, y1 / height) for x0, y0, x1, y1 in (face.box for face in faces)
        ]
        count = self.count = len(faces)
        found = "no face was found" if count == 0 else f"{count} faces were found"
        hint = "" if count == 0 else " (face='largest', or --face largest, takes the largest)"
        super().__init__(f"{photo}: {found}; expected one{hint}")


@dataclass(frozen=True, eq=False)
class Portrait:
    """A face of a photo, as it was embedded.

    Args:
        name: of the photo.
        photo: its pixels.
        face: where it was found; None of a crop that was aligned before.
        crop: the aligned face.
        unit: its embedding, a unit vector.
    """

    name: str
    photo: Image
    face: Face | None
    crop: Image
    unit: npt.NDArray[np.float32]


class Recognizer:
    """Verifies, enrols and identifies faces on photos.

    Args:
        model: as `load_model` takes it, or one that is loaded; the starter model of the package by default.
        detector: as `load_detector` takes it, or one that is loaded; None where photos are crops that were aligned for
            the model before.
        gallery: address of a gallery, as `open_gallery` takes it, or an open one, which gets the model's contract if
            it was opened without; needed to enrol and to identify.
        calibration: of the model, as `load_calibration` takes it, such as `portraits` or `albums` of the starter; by
            default the file that lies beside the model.
        contract: of an ONNX file, as `load_model` takes it.
        face: what a photo with several faces means: `only` refuses it, `largest` takes the largest.
        provider: who computes files of ONNX and OpenVINO, as `load_model` takes `runtime`.
        device: to compute embeddings on; None for the best there is, which for ONNX files is the CPU.

    The model, which takes longest, is loaded last: what else is missing or wrong is told at once.

    Example:
        >>> recognizer = Recognizer(detector=None)
        >>> decision = recognizer.verify("ada.jpg", "grace.jpg", fmr=1e-3)
        >>> decision.fmr, decision.match == (decision.score >= decision.threshold)
        (0.001, True)
    """

    def __init__(
        self,
        model: str | Path | Embedder = "starter",
        *,
        detector: str | Path | Detector | None = "mtcnn",
        gallery: str | Path | Gallery | None = None,
        calibration: str | Path | Calibration | None = None,
        contract: str | Path | Contract | None = None,
        face: str = "only",
        device: str | None = "cpu",
        provider: str = "onnxruntime",
    ) -> None:
        self.face = check_choice("face", face, FACES)
        if contract is not None and isinstance(model, Embedder):
            raise ValueError("contract belongs to a model's file; one that is given loaded has its own")
        if isinstance(gallery, str | Path):
            check_gallery(gallery)
        self._gallery = gallery
        if not isinstance(model, Embedder):
            find_model(model)
        self.calibration = _calibration(model, calibration)
        if isinstance(detector, str | Path):
            options: dict[str, Any] = {} if provider == "onnxruntime" else {"provider": detector_provider(provider)}
            detector = load_detector(detector, **options)
        self.detector = detector
        self.model = (
            model if isinstance(model, Embedder) else load_model(model, contract, device=device, runtime=provider)
        )
        if detector is not None:
            self._target()
        try:
            self.calibration.check_contract(self.contract)
        except ValueError as error:
            where = calibration or model
            raise ValueError(f"{where}: {error}" if isinstance(where, str | Path) else str(error)) from None
        if isinstance(self._gallery, Gallery) and self._gallery.contract is None:
            self._gallery.use_contract(self.contract)

    def _target(self) -> AlignmentTarget:
        """What faces are warped to for the model."""
        if self.contract.target is not None:
            return self.contract.target
        word = self.contract.alignment
        named = f"the alignment target {word!r}, which is unknown" if word else "no alignment target"
        raise ValueError(
            f"{self.model.name or 'the model'}: its contract names {named}, so faces cannot be warped for it; state "
            "`alignment` or `points` in the contract, or give aligned crops (detector=None)"
        )

    @property
    def contract(self) -> Contract:
        """Of the model."""
        return self.model.contract

    @property
    def gallery(self) -> Gallery:
        """The gallery, opened when it is first used, and made if there is none."""
        return self._open_gallery(create=True)

    def _open_gallery(self, *, create: bool) -> Gallery:
        """The gallery; whoever searches or forgets in one that does not exist has mistaken its address."""
        if self._gallery is None:
            raise ValueError("gallery is missing: Recognizer(gallery='people.db') enrols and identifies")
        if isinstance(self._gallery, str | Path):
            self._gallery = open_gallery(str(self._gallery), contract=self.contract, create=create)
        return self._gallery

    def close(self) -> None:
        """Close the gallery, if it is open."""
        if self._gallery is not None and not isinstance(self._gallery, str | Path):
            self._gallery.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def faces(self, photo: Photo) -> list[Face]:
        """The faces that the detector finds on a photo."""
        if self.detector is None:
            raise ValueError("detector=None: photos are taken for aligned crops, and no face is looked for")
        return self.detector([_pixels(photo)])[0]

    def portraits(self, photo: Photo) -> list[Portrait]:
        """Every face of a photo, aligned and embedded."""
        pixels, name = _pixels(photo), _name(photo)
        found: Sequence[Face | None] = [None] if self.detector is None else self.detector([pixels])[0]
        return self.portraits_at(pixels, found, name)

    def portrait(self, photo: Photo) -> Portrait:
        """The one face of a photo, aligned and embedded.

        Raises:
            FaceCountError: there is none, or there are several and `face` is `only`.
            DegenerateLandmarks: its landmarks are no face's.
        """
        pixels, name = _pixels(photo), _name(photo)
        if self.detector is None:
            return self.portraits_at(pixels, [None], name)[0]
        found = self.detector([pixels])[0]
        if not found or (len(found) > 1 and self.face == "only"):
            raise FaceCountError(name, found, (pixels.shape[0], pixels.shape[1]))
        return self.portraits_at(pixels, [max(found, key=lambda face: face.area)], name)[0]

    def portraits_at(self, photo: Image, faces: Sequence[Face | None], name: str = "photo") -> list[Portrait]:
        """Faces that were found before, aligned and embedded.

        Args:
            photo: its pixels.
            faces: where they are; None says that the photo is an aligned crop.
            name: of the photo, for messages.
        """
        if not faces:
            return []
        crops = [self.crop(photo, face, name) for face in faces]
        units = self.model(np.stack(crops)).numpy()
        return [Portrait(name, photo, *each) for each in zip(faces, crops, units, strict=True)]

    def crop(self, photo: Image, face: Face | None, name: str = "photo") -> Image:
        """The aligned crop of a face, as the model takes it.

        Args:
            photo, face, name: as for `portraits_at`.
        """
        try:
            crop = photo if face is None else align_face(photo, face.landmarks, self._target())
        except DegenerateLandmarks as error:
            raise DegenerateLandmarks(f"{name}: {error}") from None
        height, width = self.contract.input_size
        if crop.shape[:2] != (height, width):
            raise ValueError(
                f"{name} is {crop.shape[1]} x {crop.shape[0]} pixels; an aligned crop for "
                f"{self.model.name or 'the model'} has {width} x {height}"
            )
        return crop

    def embed(self, photo: Photo) -> npt.NDArray[np.float32]:
        """The unit vector of the one face of a photo; `portrait` says when there is none."""
        return self.portrait(photo).unit

    def template(self, photos: Photo | Sequence[Photo]) -> npt.NDArray[np.float32]:
        """One vector of one or more photos of a person."""
        several = [photos] if isinstance(photos, str | Path | bytes | np.ndarray) else list(photos)
        if not several:
            raise ValueError("photos is empty: a template needs at least one")
        return pool_template(np.stack([self.embed(photo) for photo in several]))

    def verify(self, first: Photo, second: Photo, fmr: float = 1e-3) -> Decision:
        """Whether two photos show one person, at a false-match rate of at most `fmr`."""
        self.calibration.table.at(fmr)
        return self.decide(self.embed(first), self.embed(second), fmr)

    def decide(self, first: npt.NDArray[np.float32], second: npt.NDArray[np.float32], fmr: float = 1e-3) -> Decision:
        """`verify` of two embeddings."""
        return decide(float(first @ second), self.calibration, fmr)

    def enroll(self, name: str, photos: Photo | Sequence[Photo], **options: Any) -> str:
        """Add a template of one or more photos of a person to the gallery.

        Args:
            name: of the subject.
            photos: of that person, each with one face.
            options: of `Gallery.enroll`: `key`, `metadata`, `consent`, `expires`.

        Returns:
            the template's id.
        """
        stored = self.gallery.enroll(name, self.template(photos), **options)
        self.warn_of_size()
        return stored

    def warn_of_size(self, fpir: float = 1e-2) -> None:
        """Warn if the gallery has four fifths of the templates that the calibration supports at a rate of searches."""
        size, most = self.gallery.stored(), self.calibration.largest_gallery(fpir)
        if size >= 0.8 * most:
            warnings.warn(
                f"{self.gallery.address}: {size:,} templates; beyond {most:,} this calibration supports no search at "
                f"fpir={fpir:g}, the default: calibrate on more people, or search at a higher fpir",
                RuntimeWarning,
                stacklevel=3,
            )

    def identify(
        self, photo: Photo, fpir: float = 1e-2, *, where: dict[str, str] | None = None
    ) -> IdentificationDecision:
        """Who of the gallery is on a photo, at a false-positive identification rate of at most `fpir`.

        Args:
            photo: with one face.
            fpir: share of searches for people who are not enrolled that may return anybody.
            where: search only templates with this metadata; the rate is still that of the whole gallery.
        """
        return self.search(self.embed(photo), fpir, where=where)

    def search(
        self, unit: npt.NDArray[np.float32], fpir: float = 1e-2, *, where: dict[str, str] | None = None
    ) -> IdentificationDecision:
        """`identify` of an embedding."""
        gallery = self._open_gallery(create=False)
        size = gallery.size()
        found = gallery.search(unit[None], k=_CANDIDATES, where=where)[0] if size else []
        scores = [(each.subject, each.score) for each in found]
        return decide_search(scores, size, self.calibration, fpir, miss_rate=gallery.miss_rate())

    def forget(self, name: str) -> int:
        """Remove a subject from the gallery; returns how many templates are gone."""
        return self._open_gallery(create=False).forget(name)


def default_gallery() -> Path:
    """The gallery of commands that name none: `hypersphere/gallery.db` in the user's folder of data.

    That is `$XDG_DATA_HOME`, or `~/.local/share`.
    """
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "hypersphere" / "gallery.db"


def _calibration(model: str | Path | Embedder, calibration: str | Path | Calibration | None) -> Calibration:
    if isinstance(calibration, Calibration):
        return calibration
    place = model if calibration is None else calibration
    if isinstance(place, Embedder):
        raise ValueError("calibration is missing: a model that is given loaded does not say where its own lies")
    return load_calibration(place)


def _pixels(photo: Photo) -> Image:
    if not isinstance(photo, np.ndarray):
        return read_photo(photo)
    if photo.dtype != np.uint8 or photo.ndim != 3 or photo.shape[2] != 3:
        raise ValueError(f"photo is {photo.dtype} {photo.shape}; expected uint8 (H, W, 3) RGB")
    return photo


def _name(photo: Photo) -> str:
    return str(photo) if isinstance(photo, str | Path) else "photo"
