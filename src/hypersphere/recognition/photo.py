"""Photos as they come: decoded upright to 8-bit RGB, or refused by their header."""

from __future__ import annotations

from pathlib import Path

from hypersphere.core import check_integer
from hypersphere.data import Image, ImageFiles, UnreadableImage, decode, image_size

MAX_PIXELS = 40_000_000
MAX_SIDE = 16_384


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
    width, height = image_size(data, where)
    if width * height > max_pixels or max(width, height) > max_side:
        raise PhotoTooLarge(
            f"{where}: {width}x{height} pixels; a photo may have {max_pixels:,} pixels and sides of {max_side:,}: make "
            "it smaller"
        )
    return decode(data, where)
