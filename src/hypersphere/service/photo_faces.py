"""From the photos of a request to the one face on each, one photo after another and no larger than is needed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hypersphere.data import Image
from hypersphere.recognition import Face, PhotoTooLarge, Recognizer
from hypersphere.recognition.photo import MAX_PIXELS, photo_pixels, read_reduced_photo
from hypersphere.service.problems import refusal_of

MOST_PIXELS = 2 * MAX_PIXELS
"""Pixels that the photos of one request may have together."""
NEEDED_PIXELS = 2**22
"""Pixels at which faces are looked for: a larger photo is reduced when it is decoded."""


@dataclass(frozen=True, eq=False)
class PhotoFace:
    """The one face of a photo that was sent.

    Args:
        width, height: of the photo, upright.
        face: where it is, in the photo's pixels; None of a crop that was aligned before.
        crop: the aligned face.
        unit: its embedding, a unit vector.
    """

    width: int
    height: int
    face: Face | None
    crop: Image
    unit: npt.NDArray[np.float32]


def photo_faces(
    recognizer: Recognizer, photos: Sequence[bytes], one_at_a_time: AbstractContextManager[object] | None = None
) -> list[PhotoFace]:
    """The one face of each photo; a refusal says which photo it is about.

    All headers are read before the first photo is decoded: one that is too large costs nothing.

    Args:
        recognizer: that looks.
        photos: contents of image files.
        one_at_a_time: entered while a photo that must be reduced is decoded.
    """
    pixels = [_judged(number, photo) for number, photo in enumerate(photos, start=1)]
    if sum(pixels) > MOST_PIXELS:
        problem = PhotoTooLarge(f"{sum(pixels):,} pixels in all; the photos of a request may have {MOST_PIXELS:,}")
        raise refusal_of(problem) or problem
    faces = []
    for number, (photo, size) in enumerate(zip(photos, pixels, strict=True), start=1):
        try:
            alone = one_at_a_time if one_at_a_time is not None and size > NEEDED_PIXELS else nullcontext()
            faces.append(_face(recognizer, photo, alone))
        except Exception as error:
            raise refusal_of(error, number) or error from None
    return faces


def _judged(number: int, photo: bytes) -> int:
    """The pixels of a photo by its header."""
    try:
        return photo_pixels(photo)
    except Exception as error:
        raise refusal_of(error, number) or error from None


def _face(recognizer: Recognizer, photo: bytes, alone: AbstractContextManager[object]) -> PhotoFace:
    with alone:
        pixels, factor = read_reduced_photo(photo, NEEDED_PIXELS)
    portrait = recognizer.portrait(pixels)
    height, width = pixels.shape[:2]
    face = portrait.face
    if face is not None and factor != 1:
        x0, y0, x1, y1 = ((edge + 0.5) * factor - 0.5 for edge in face.box)
        face = Face((x0, y0, x1, y1), face.score, (face.landmarks + 0.5) * factor - 0.5)
    return PhotoFace(round(width * factor), round(height * factor), face, portrait.crop, portrait.unit)
