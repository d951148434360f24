"""All faces of a set of photos, with their embeddings: what groups, searches and tables of photos begin with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hypersphere.core import Reporter, counted
from hypersphere.data import (
    EncodedSource,
    Image,
    ImageFiles,
    ImageSource,
    UnreadableImage,
    open_every_image,
)
from hypersphere.models.align import DegenerateLandmarks
from hypersphere.recognition.face import Face
from hypersphere.recognition.face_cache import Box, FaceCache, PhotoFaces, photo_digest
from hypersphere.recognition.photo import read_photo
from hypersphere.recognition.recognizer import Recognizer

_BATCH = 16
_THUMBNAIL = 64


@dataclass(frozen=True, eq=False)
class FoundFaces:
    """The faces of a set of photos.

    Args:
        photos: for each face the number of its photo.
        boxes: for each face its box in the photo; None of an aligned crop.
        unit: (faces, dim) their embeddings.
        thumbnails: the crops, small.
        left_out: by the photo's number, why it gave no face: unreadable, or none found.
    """

    photos: list[int]
    boxes: list[Box | None]
    unit: npt.NDArray[np.float32]
    thumbnails: list[Image]
    left_out: dict[int, str]


def open_photos(paths: Sequence[str | Path]) -> tuple[ImageSource, list[str]]:
    """Open photos and folders of photos as one set.

    Args:
        paths: one of anything that `open_every_image` takes, or several photos and folders.

    Returns:
        the photos and the name of each: within the one folder or archive, or its path where there are several paths.
    """
    if len(paths) == 1:
        return open_every_image(paths[0])
    files: list[str] = []
    for path in map(Path, paths):
        if path.is_dir():
            _, names = open_every_image(path, "folder")
            files += [str(path / name) for name in names]
        else:
            files.append(str(path))
    return ImageFiles(files), files


def find_faces(
    recognizer: Recognizer,
    source: ImageSource,
    progress: Reporter | None = None,
    *,
    cache: FaceCache | None = None,
) -> FoundFaces:
    """Return all faces of all photos; photos are detected some at a time, and none of them is kept.

    Args:
        recognizer: with a detector, or with None where the photos are aligned crops.
        source: the photos, as `open_photos` opens them.
        progress: called as `progress(done, total)`.
        cache: faces that are known already, and where new ones are kept.
    """
    faces: dict[int, PhotoFaces] = {}
    left_out: dict[int, str] = {}
    for start in range(0, len(source), _BATCH):
        numbers = range(start, min(start + _BATCH, len(source)))
        faces |= _faces_of(recognizer, source, numbers, left_out, cache)
        if progress is not None:
            progress(numbers.stop, len(source))
    if cache is not None:
        cache.save()
    left_out |= {number: entry.why_none for number, entry in faces.items() if entry.why_none}
    photos = [number for number, entry in sorted(faces.items()) for _ in entry.boxes]
    if not photos:
        first = next(iter(sorted(left_out.items())), None)
        why = "" if first is None else f"; {source.describe(first[0])}: {first[1]}"
        raise ValueError(f"no face was found on any of {counted(len(source), 'photo')}{why}")
    known = [entry for _, entry in sorted(faces.items()) if entry.boxes]
    return FoundFaces(
        photos,
        [box for entry in known for box in entry.boxes],
        np.concatenate([entry.unit for entry in known]),
        [image for entry in known for image in entry.thumbnails],
        dict(sorted(left_out.items())),
    )


def _faces_of(
    recognizer: Recognizer,
    source: ImageSource,
    numbers: Sequence[int],
    left_out: dict[int, str],
    cache: FaceCache | None,
) -> dict[int, PhotoFaces]:
    """Return the faces of some photos: those that are known, and those of one pass of detector and network."""
    faces: dict[int, PhotoFaces] = {}
    digests: dict[int, str] = {}
    pixels: dict[int, Image] = {}
    for number in numbers:
        try:
            data = source.encoded(number) if isinstance(source, EncodedSource) else None
            if cache is not None:
                digests[number] = photo_digest(source.read(number) if data is None else data)
                known = cache.get(digests[number])
                if known is not None:
                    faces[number] = known
                    continue
            described = source.describe(number)
            pixels[number] = source.read(number) if data is None else read_photo(data, describe=described)
        except UnreadableImage as error:
            left_out[number] = _without_name(error, source.describe(number))
    new = _detected(recognizer, source, pixels)
    if cache is not None:
        for number, entry in new.items():
            cache.put(digests[number], entry)
    return faces | new


def _detected(recognizer: Recognizer, source: ImageSource, pixels: dict[int, Image]) -> dict[int, PhotoFaces]:
    """Return the faces of decoded photos, all embedded together."""
    why = dict.fromkeys(pixels, "")
    crops = list(_crops(recognizer, source, pixels, why))
    unit = np.empty((0, recognizer.contract.width), np.float32)
    if crops:
        unit = recognizer.model(np.stack([crop for _, _, crop in crops])).numpy()
    faces = {}
    for number in pixels:
        rows = [row for row, (photo, _, _) in enumerate(crops) if photo == number]
        boxes = [None if (face := crops[row][1]) is None else face.box for row in rows]
        faces[number] = PhotoFaces(boxes, unit[rows], [_small(crops[row][2]) for row in rows], why[number])
    return faces


def _crops(
    recognizer: Recognizer, source: ImageSource, pixels: dict[int, Image], why: dict[int, str]
) -> Iterator[tuple[int, Face | None, Image]]:
    detector = recognizer.detector
    faces: list[list[Face | None]] = [[None]] * len(pixels)
    if detector is not None and pixels:
        faces = [list(detected) for detected in detector(list(pixels.values()))]
    for (number, photo), detected in zip(pixels.items(), faces, strict=True):
        name = source.describe(number)
        if not detected:
            why[number] = "no face was found"
        for face in detected:
            try:
                yield number, face, recognizer.crop(photo, face, name)
            except DegenerateLandmarks as error:
                why[number] = _without_name(error, name)


def _without_name(error: Exception, name: str) -> str:
    """Return what an error says, without the photo's name before it: tables name it in a column of its own."""
    return str(error).removeprefix(f"{name}: ")


def _small(crop: Image) -> Image:
    """Return the crop with whole blocks of pixels averaged, so that it is about `_THUMBNAIL` wide."""
    factor = max(1, round(crop.shape[1] / _THUMBNAIL))
    rows, columns = (side // factor for side in crop.shape[:2])
    blocks = crop[: rows * factor, : columns * factor].reshape(rows, factor, columns, factor, -1)
    small: Image = blocks.mean(axis=(1, 3)).round().astype(np.uint8)
    return small
