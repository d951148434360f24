"""Photos to groups of faces, and the page that shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hypersphere.core import Reporter, counted
from hypersphere.data import EncodedSource, Image, ImageSource, UnreadableImage
from hypersphere.models import Threshold
from hypersphere.models.align import DegenerateLandmarks
from hypersphere.plots import Page
from hypersphere.recognition.cluster import Ints, members_of
from hypersphere.recognition.face import Face
from hypersphere.recognition.photo import read_photo
from hypersphere.recognition.recognizer import Recognizer

_BATCH = 16
_THUMBNAIL = 64
_GROUPS, _FACES = 300, 40
"""How many a page shows, and how many of each."""


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
    boxes: list[tuple[float, float, float, float] | None]
    unit: npt.NDArray[np.float32]
    thumbnails: list[Image]
    left_out: dict[int, str]


def find_faces(recognizer: Recognizer, source: ImageSource, progress: Reporter | None = None) -> FoundFaces:
    """All faces of all photos; photos are detected some at a time, and none of them is kept.

    Args:
        recognizer: with a detector, or with None where the photos are aligned crops.
        source: the photos, as `open_every_image` opens them.
        progress: called as `progress(done, total)`.
    """
    photos: list[int] = []
    units: list[npt.NDArray[np.float32]] = []
    boxes: list[tuple[float, float, float, float] | None] = []
    thumbnails: list[Image] = []
    left_out: dict[int, str] = {}
    for start in range(0, len(source), _BATCH):
        numbers = range(start, min(start + _BATCH, len(source)))
        found = list(_crops(recognizer, source, dict(_readable(source, numbers, left_out)), left_out))
        for number, face, crop in found:
            photos.append(number)
            boxes.append(None if face is None else face.box)
            thumbnails.append(_small(crop))
        if found:
            units.append(recognizer.model(np.stack([crop for _, _, crop in found])).numpy())
        if progress is not None:
            progress(numbers.stop, len(source))
    if not units:
        raise ValueError(
            f"no face was found on any of {counted(len(source), 'photo')}; {next(iter(left_out.values()), '')}"
        )
    return FoundFaces(photos, boxes, np.concatenate(units), thumbnails, left_out)


def _readable(source: ImageSource, numbers: Sequence[int], left_out: dict[int, str]) -> Iterator[tuple[int, Image]]:
    for number in numbers:
        try:
            if isinstance(source, EncodedSource):
                yield number, read_photo(source.encoded(number), describe=source.describe(number))
            else:
                yield number, source.read(number)
        except UnreadableImage as error:
            left_out[number] = str(error)


def _crops(
    recognizer: Recognizer, source: ImageSource, pixels: dict[int, Image], left_out: dict[int, str]
) -> Iterator[tuple[int, Face | None, Image]]:
    detector = recognizer.detector
    faces: list[list[Face | None]] = [[None]] * len(pixels)
    if detector is not None and pixels:
        faces = [list(found) for found in detector(list(pixels.values()))]
    for (number, photo), found in zip(pixels.items(), faces, strict=True):
        name = source.describe(number)
        if not found:
            left_out[number] = f"{name}: no face was found"
        for face in found:
            try:
                yield number, face, recognizer.crop(photo, face, name)
            except DegenerateLandmarks as error:
                left_out[number] = str(error)


def _small(crop: Image) -> Image:
    """The crop with whole blocks of pixels averaged, so that it is about `_THUMBNAIL` wide."""
    factor = max(1, round(crop.shape[1] / _THUMBNAIL))
    rows, columns = (side // factor for side in crop.shape[:2])
    blocks = crop[: rows * factor, : columns * factor].reshape(rows, factor, columns, factor, -1)
    small: Image = blocks.mean(axis=(1, 3)).round().astype(np.uint8)
    return small


def write_cluster_page(
    path: str | Path, faces: FoundFaces, groups: Ints, names: Sequence[str], row: Threshold, *, about: str
) -> Path:
    """Write the groups as one offline page, the largest first.

    Args:
        path: the new `.html`.
        faces: of the photos.
        groups: (faces,) of `cluster_faces`.
        names: of the photos.
        row: the threshold with its false-match rate.
        about: how the groups were made, in a sentence.
    """
    members = members_of(groups)
    several = [group for group in members if len(group) > 1]
    page = Page(
        f"{counted(len(faces.photos), 'face')}: {counted(len(several), 'group')}, {len(members) - len(several):,} on "
        "their own",
        f"{about} Threshold {row.threshold:.3f}: false-match rate {row.fmr:.0e} [{row.fmr_low:.1e}, "
        f"{row.fmr_high:.1e}] of one pair; a group of many faces is right less often than one pair.",
    )
    page.heading("Groups")
    for number, group in enumerate(several[:_GROUPS], start=1):
        page.sheet(_shown(faces, group[:_FACES], names), _caption(number, group), quality=85)
    if len(several) > _GROUPS:
        page.text(f"Not shown: {counted(len(several) - _GROUPS, 'smaller group')}.")
    single = [group[0] for group in members if len(group) == 1]
    if single:
        page.heading("Faces on their own")
        shown = single[: 5 * _FACES]
        caption = f"{len(shown):,} of {counted(len(single), 'face')} that no other is like."
        page.sheet(_shown(faces, shown, names), caption, quality=85)
    if faces.left_out:
        page.heading("Photos left out")
        page.table(["photo", "why"], [[names[k], why] for k, why in faces.left_out.items()], text=True)
    return page.save(path)


def _shown(faces: FoundFaces, group: Sequence[int], names: Sequence[str]) -> list[tuple[Image, str]]:
    return [(faces.thumbnails[face], names[faces.photos[face]]) for face in group]


def _caption(number: int, group: Sequence[int]) -> str:
    some = f", {_FACES} of them shown" if len(group) > _FACES else ""
    return f"Group {number}: {len(group):,} faces{some}."
