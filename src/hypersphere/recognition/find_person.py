"""On which of many photos somebody is: every face compared with one photo of that person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.core import Reporter, counted
from hypersphere.data import Image
from hypersphere.models import Threshold
from hypersphere.plots import Page
from hypersphere.recognition.calibration import Calibration
from hypersphere.recognition.decision import NO_LIVENESS, one_in
from hypersphere.recognition.face_cache import FaceCache
from hypersphere.recognition.find_faces import FoundFaces, find_faces, open_photos
from hypersphere.recognition.recognizer import Photo, Portrait, Recognizer

_SHOWN, _BELOW = 200, 12
"""Faces on a page: of the person, and the nearest of those that are not accepted."""


@dataclass(frozen=True, eq=False)
class PersonSearch:
    """The faces of many photos, compared with one photo of a person.

    Args:
        person: whose photos were searched for.
        names: of the photos that were searched.
        faces: on them.
        scores: (faces,) cosines with the person's face.
        threshold: the row of the calibration that decides.
        calibration: of the model.
    """

    person: Portrait
    names: list[str]
    faces: FoundFaces
    scores: npt.NDArray[np.float32]
    threshold: Threshold
    calibration: Calibration

    @property
    def order(self) -> list[int]:
        """The numbers of the faces, the best score first."""
        return [int(face) for face in np.argsort(-self.scores, kind="stable")]

    @property
    def matches(self) -> list[int]:
        """The numbers of the faces that are accepted, the best score first."""
        return [face for face in self.order if self.scores[face] >= self.threshold.threshold]

    @property
    def photos(self) -> list[str]:
        """The photos with an accepted face, the best first."""
        return list(dict.fromkeys(self.names[self.faces.photos[face]] for face in self.matches))

    @property
    def verdict(self) -> str:
        """The answer in a few words."""
        return f"Probably on {len(self.photos) or 'none'} of {counted(len(self.names), 'photo')}"

    @property
    def setting(self) -> str:
        """How often the answers of this setting are wrong, in one sentence."""
        return (
            "At this setting "
            f"{one_in(self.threshold.fmr, 'face of a stranger', 'faces of strangers')} would pass for this person, and "
            f"{one_in(self.threshold.fnmr, 'face of the person', 'faces of the person')} would be missed."
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for every face, the best first, as `pandas.DataFrame` and JSON take them."""
        return [
            {
                "photo": self.names[self.faces.photos[face]],
                "box": self.faces.boxes[face],
                "score": float(self.scores[face]),
                "llr": self.calibration.llr.at(float(self.scores[face])),
                "match": bool(self.scores[face] >= self.threshold.threshold),
            }
            for face in self.order
        ]


def find_person(
    recognizer: Recognizer,
    person: Photo,
    photos: str | Path | Sequence[str | Path],
    fmr: float = 1e-3,
    *,
    cache: FaceCache | None = None,
    progress: Reporter | None = None,
) -> PersonSearch:
    """Compare every face of many photos with one photo of a person.

    Args:
        recognizer: with a detector, or with None where all photos are aligned crops.
        person: a photo with the person's face.
        photos: a folder, an archive, or several photos and folders.
        fmr: share of the faces of strangers that may be accepted.
        cache: faces that are known already.
        progress: called as `progress(done, total)`.

    Example:
        >>> search = find_person(Recognizer(), "ada-1.jpg", "album")
        >>> search.photos == [row["photo"] for row in search.rows() if row["match"]]
        True
    """
    threshold = recognizer.calibration.table.at(fmr)
    source, names = open_photos([photos] if isinstance(photos, str | Path) else photos)
    portrait = recognizer.portrait(person)
    faces = find_faces(recognizer, source, progress, cache=cache)
    return PersonSearch(portrait, names, faces, faces.unit @ portrait.unit, threshold, recognizer.calibration)


def write_find_page(path: str | Path, search: PersonSearch) -> Path:
    """Write who was searched for and on which photos they are as one offline page.

    Args:
        path: the new `.html`.
        search: of `find_person`.
    """
    row, matches = search.threshold, search.matches
    page = Page(search.verdict, search.setting)
    page.text(f"{NO_LIVENESS[0].upper()}{NO_LIVENESS[1:]}.")
    page.heading("Searched for")
    page.sheet([(search.person.crop, search.person.name)], "", quality=90)
    page.heading("Accepted")
    if len(matches) > _SHOWN:
        page.text(f"The best {_SHOWN:,} of {len(matches):,} faces.")
    page.sheet(_shown(search, matches[:_SHOWN]), "Faces that are accepted, the best first, with score.", quality=85)
    below = search.order[len(matches) :][:_BELOW]
    page.heading("Not accepted")
    page.sheet(_shown(search, below), f"The nearest faces below the threshold of {row.threshold:.3f}.", quality=85)
    if search.faces.left_out:
        page.heading("Photos left out")
        rows = [[search.names[number], why] for number, why in search.faces.left_out.items()]
        page.table(["photo", "why"], rows, text=True)
    page.heading("What it rests on")
    table = search.calibration.table
    page.options(
        {
            "false-match rate of a face": f"{row.fmr:.0e}, 95 % interval {row.fmr_low:.1e} to {row.fmr_high:.1e}",
            "false-non-match rate": f"{row.fnmr:.1%}, 95 % interval {row.fnmr_low:.1%} to {row.fnmr_high:.1%}",
            "calibration set": f"{table.people}; {table.images:,} images, SHA-256 {table.digest}",
            "model": f"weights {table.model}, contract {search.calibration.contract}",
        }
    )
    return page.save(path)


def _shown(search: PersonSearch, faces: Sequence[int]) -> list[tuple[Image, str]]:
    return [
        (search.faces.thumbnails[face], f"{search.names[search.faces.photos[face]]}: {search.scores[face]:.3f}")
        for face in faces
    ]
