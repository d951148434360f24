"""A drawn face that detectors find, with the places of its landmarks."""

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter

LANDMARKS = ((-0.36, -0.2), (0.36, -0.2), (0.0, 0.25), (-0.3, 0.62), (0.3, 0.62))
"""In shares of the face's radius, from its centre."""
_WALL, _HAIR, _SKIN, _SHADE, _DARK, _LIPS = (
    (120, 140, 160), (60, 40, 30), (225, 180, 150), (205, 155, 125), (90, 40, 40), (170, 70, 70),
)  # fmt: skip


def drawn_photo(
    size: tuple[int, int] = (200, 200),
    faces: tuple[tuple[float, float, float], ...] = ((100, 100, 50),),
    turn: float = 0,
) -> npt.NDArray[np.uint8]:
    """A photo, uint8 (height, width, 3), with faces (x, y, radius), all turned by so many degrees to the left."""
    photo = Image.new("RGB", size[::-1], _WALL)
    for x, y, radius in faces:
        around = round(1.6 * radius)
        face = Image.new("RGB", (2 * around, 2 * around), _WALL)
        _draw(ImageDraw.Draw(face), around, radius)
        face = face.filter(ImageFilter.GaussianBlur(radius / 25)).rotate(
            turn, Image.Resampling.BICUBIC, fillcolor=_WALL
        )
        photo.paste(face, (round(x) - around, round(y) - around))
    return np.asarray(photo)


def drawn_landmarks(x: float, y: float, radius: float) -> npt.NDArray[np.float64]:
    """Where the landmarks of an upright drawn face are, (5, 2)."""
    return np.array(LANDMARKS) * radius + (x, y)


def _draw(draw: ImageDraw.ImageDraw, middle: float, radius: float) -> None:
    def ellipse(x: float, y: float, width: float, height: float, colour: tuple[int, int, int]) -> None:
        corners = (x - width, y - height, x + width, y + height)
        draw.ellipse(tuple(middle + radius * each for each in corners), fill=colour)

    ellipse(0, -0.25, 0.95, 1.2, _HAIR)
    ellipse(0, 0, 0.8, 1.1, _SKIN)
    for side in (-0.36, 0.36):
        ellipse(side, -0.2, 0.16, 0.07, (250, 250, 250))
        ellipse(side, -0.2, 0.075, 0.075, (40, 30, 30))
        ellipse(side, -0.4, 0.2, 0.04, _HAIR)
        ellipse(side / 4.5, 0.32, 0.05, 0.03, _DARK)
    ellipse(0, 0.2, 0.1, 0.18, _SHADE)
    ellipse(0, 0.62, 0.3, 0.09, _LIPS)
    ellipse(0, 0.62, 0.28, 0.02, _DARK)
