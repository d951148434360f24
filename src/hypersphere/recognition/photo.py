"""Photos as they come: decoded upright to 8-bit RGB, or refused by their header."""

from __future__ import annotations

from pathlib import Path

from hypersphere.core import check_integer
from hypersphere.data import Image, ImageFiles, UnreadableImage, decode, image_size

MAX_PIXELS = 40_000_000
MAX_SIDE = 16_384
_LARGEST_FACTOR = 8


class PhotoTooLarge(UnreadableImage):
    """A photo with more pixels, or a longer side, than is allowed."""


def read_photo(
    photo: str | Path | bytes,
    *,
    describe: str | None = None,
    max_pixels: int = MAX_PIXELS,
    max_side: int = MAX_SIDE,
) -> Image:
    """Return a photo as uint8 (H, W, 3) RGB, upright.

    It is read as `data.decode` reads every image: EXIF orientation is applied; CMYK, palette and 16-bit samples are
    converted; transparent pixels are laid on white; of an animation the first frame is taken. The size is read from the
    header first, so that a photo that is too large costs nothing.

    Args:
        photo: a path, or the content of a file.
        describe: which photo this is, for messages; the path by default.
        max_pixels: width times height that is allowed.
        max_side: width and height that are allowed.

    Raises:
        PhotoTooLarge: beyond `max_pixels` or `max_side`.
        UnreadableImage: missing, empty, truncated, corrupt, or no image of a known kind.

    Example:
        >>> read_photo("ada.jpg").shape
        (112, 112, 3)
    """
    check_integer("max_pixels", max_pixels, 1)
    check_integer("max_side", max_side, 1)
    where = describe or ("photo" if isinstance(photo, bytes) else str(photo))
    data = photo if isinstance(photo, bytes) else ImageFiles([photo]).encoded(0)
    _check_size(*image_size(data, where), where, max_pixels, max_side)
    return decode(data, where)


def read_reduced_photo(photo: bytes, needed_pixels: int, *, describe: str = "photo") -> tuple[Image, int]:
    """Return a photo as `read_photo` does, but reduced, and by which factor: 1, 2, 4 or 8.

    Its sides are halved while it has more than `needed_pixels`. That takes a fraction of the time and memory.

    Args:
        photo: the content of a file.
        needed_pixels: a photo with more is reduced.
        describe: which photo this is, for messages.

    Raises:
        PhotoTooLarge, UnreadableImage: as `read_photo`.
    """
    width, height = image_size(photo, describe)
    _check_size(width, height, describe, MAX_PIXELS, MAX_SIDE)
    factor = 1
    while width * height > factor**2 * check_integer("needed_pixels", needed_pixels, 1) and factor < _LARGEST_FACTOR:
        factor *= 2
    return decode(photo, describe, reduce=factor), factor


def photo_pixels(photo: bytes, describe: str = "photo") -> int:
    """The pixels of a photo by its header; those of `read_photo`'s errors that the header shows."""
    width, height = image_size(photo, describe)
    _check_size(width, height, describe, MAX_PIXELS, MAX_SIDE)
    return width * height


def _check_size(width: int, height: int, where: str, max_pixels: int, max_side: int) -> None:
    if width * height > max_pixels or max(width, height) > max_side:
        raise PhotoTooLarge(
            f"{where}: {width}x{height} pixels; a photo may have {max_pixels:,} pixels and sides of {max_side:,}: make "
            "it smaller"
        )
