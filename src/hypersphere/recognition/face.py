"""A face that a detector found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Landmarks = npt.NDArray[np.float32]
"""(5, 2): x and y of the eye on the left of the picture, the one on the right, the nose, and the corners of the mouth
on the left and on the right. The centre of the left upper pixel is (0, 0)."""


@dataclass(frozen=True, eq=False)
class Face:
    """Where a face is in a photo.

    Args:
        box: x0, y0, x1, y1 in pixels; the centre of the left upper pixel is (0, 0). A box may reach out of the photo.
        score: of the detector, from 0 to 1; not a probability, and not comparable between detectors.
        landmarks: float32 (5, 2), see `Landmarks`.

    Example:
        >>> face = Face((10.0, 20.0, 110.0, 140.0), 0.99, np.zeros((5, 2), np.float32))
        >>> face.size
        120.0
    """

    box: tuple[float, float, float, float]
    score: float
    landmarks: Landmarks

    @property
    def size(self) -> float:
        """The longer side of the box."""
        x0, y0, x1, y1 = self.box
        return max(x1 - x0, y1 - y0)

    @property
    def area(self) -> float:
        """The area of the box in pixels: by it faces of one photo are compared."""
        x0, y0, x1, y1 = self.box
        return max(x1 - x0, 0.0) * max(y1 - y0, 0.0)
