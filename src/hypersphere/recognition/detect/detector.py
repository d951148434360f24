"""What a detector is, and how one is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from hypersphere.core import nearest
from hypersphere.data import Image
from hypersphere.recognition.detect.mtcnn import Mtcnn
from hypersphere.recognition.face import Face


class Detector(Protocol):
    """Finds faces with five landmarks in photos."""

    name: str

    def __call__(self, images: Sequence[Image]) -> list[list[Face]]:
        """Return the faces of every photo, uint8 (H, W, 3) RGB of any sizes, the best score first."""
        ...


def load_detector(source: str | Path = "mtcnn", **options: Any) -> Detector:
    """Return a detector of faces.

    Args:
        source: `mtcnn`.
        options: of the detector: see `Mtcnn`.

    Example:
        >>> detector = load_detector("mtcnn", min_face=40)
        >>> [len(faces) for faces in detector([photo])]
        [1]
    """
    if str(source) == "mtcnn":
        return Mtcnn(**options)
    raise ValueError(f"detector {str(source)!r} is unknown; {nearest(str(source), ['mtcnn'])}")
