"""Faces of photos, kept between commands: another rate or another group of the same folder decodes no photo again."""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hypersphere.core import bytes_digest, digest, file_digest, write_atomically
from hypersphere.core.read_arrays import read_npz
from hypersphere.data import Image
from hypersphere.version import __version__

if TYPE_CHECKING:
    from hypersphere.recognition.recognizer import Recognizer

Box = tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class PhotoFaces:
    """The faces of one photo.

    Args:
        boxes: of each face; None of an aligned crop.
        unit: (faces, dim) embeddings.
        thumbnails: the aligned faces, small.
        why_none: why there is no face, or that of a further face without a crop; empty otherwise.
    """

    boxes: list[Box | None]
    unit: npt.NDArray[np.float32]
    thumbnails: list[Image]
    why_none: str


def default_cache() -> Path:
    """The folder of what is kept between commands: `hypersphere/faces` in `$XDG_CACHE_HOME` or `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hypersphere" / "faces"


class FaceCache:
    """The faces of a set of photos, by the content of each photo, in one file that only its owner can read.

    The file belongs to the paths, to the model's contract and to the detector with its settings. Photos that were
    changed are looked at again; those that are gone are dropped when it is saved.

    Args:
        paths: of the photos.
        recognizer: that finds and embeds their faces.
        folder: of the file.
    """

    def __init__(self, paths: Iterable[str | Path], recognizer: Recognizer, folder: str | Path | None = None) -> None:
        key = {
            "paths": [str(Path(path).resolve()) for path in paths],
            "contract": digest(recognizer.contract),
            "detector": _settings(recognizer.detector),
            "version": __version__,
        }
        self.path = Path(folder or default_cache()) / f"{bytes_digest(repr(key).encode())[:32]}.npz"
        self._known = self._read()
        self._used: dict[str, PhotoFaces] = {}

    def get(self, photo: str) -> PhotoFaces | None:
        """Return the faces of a photo, by the SHA-256 of its bytes, if they are known."""
        faces = self._known.get(photo)
        if faces is not None:
            self._used[photo] = faces
        return faces

    def put(self, photo: str, faces: PhotoFaces) -> None:
        """Keep the faces of a photo."""
        self._used[photo] = faces

    def save(self) -> bool:
        """Write the faces of all photos that were asked for; returns whether the file changed."""
        if self._used.keys() == self._known.keys():
            return False
        if not self._used:
            self.path.unlink()
            return True
        photos = sorted(self._used)
        faces = [self._used[photo] for photo in photos]
        boxes = [[np.nan] * 4 if box is None else list(box) for entry in faces for box in entry.boxes]
        stream = io.BytesIO()
        np.savez(
            stream,
            photos=np.array(photos),
            counts=np.array([len(entry.boxes) for entry in faces], np.int64),
            why_none=np.array([entry.why_none for entry in faces]),
            boxes=np.array(boxes, np.float64).reshape(-1, 4),
            unit=np.concatenate([entry.unit for entry in faces]),
            thumbnails=np.array([image for entry in faces for image in entry.thumbnails], np.uint8),
        )
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self.path, stream.getvalue())
        self.path.chmod(0o600)  # its folder is the owner's alone already
        return True

    def _read(self) -> dict[str, PhotoFaces]:
        """Return what the file has; nothing, with a warning, if it is damaged. Every array has a checksum."""
        if not self.path.is_file():
            return {}
        try:
            arrays = read_npz(self.path)
            ends = np.cumsum(arrays["counts"]).tolist()
            unit, boxes, thumbnails = (arrays[name] for name in ("unit", "boxes", "thumbnails"))
            if not len(unit) == len(boxes) == len(thumbnails) == (ends[-1] if ends else 0):
                raise ValueError(f"{self.path}: its arrays do not fit each other")
            known = {}
            for photo, why, count, end in zip(
                arrays["photos"].tolist(), arrays["why_none"].tolist(), arrays["counts"].tolist(), ends, strict=True
            ):
                rows = slice(end - count, end)
                known[photo] = PhotoFaces(
                    boxes=[None if np.isnan(box[0]) else tuple(box.tolist()) for box in boxes[rows]],
                    unit=unit[rows],
                    thumbnails=list(thumbnails[rows]),
                    why_none=why,
                )
            return known
        except (ValueError, KeyError) as error:
            warnings.warn(f"the faces kept in {self.path} are not used: {error}", RuntimeWarning, stacklevel=2)
            return {}


def photo_digest(data: bytes | Image) -> str:
    """Return the SHA-256 of a photo: of its file, or of its pixels where there is none."""
    return hashlib.sha256(data if isinstance(data, bytes) else np.ascontiguousarray(data).data).hexdigest()


def _settings(detector: Any) -> dict[str, Any]:
    """Return what a detector is, and the public settings that decide what it finds."""
    if detector is None:
        return {}
    plain = {name: value for name, value in vars(detector).items() if not name.startswith("_")}
    settings = {name: value for name, value in plain.items() if isinstance(value, str | int | float | tuple)}
    path = plain.get("path")
    return {
        "kind": type(detector).__name__,
        **settings,
        **({"file": file_digest(path)} if isinstance(path, Path) else {}),
    }
