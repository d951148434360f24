"""From the bytes of an image to 8-bit RGB and back: Pillow by default, simplejpeg for plain JPEGs when installed."""

from __future__ import annotations

import importlib
import io
import os
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hypersphere.core import import_extra, install_hint
from hypersphere.data.image_limits import (
    MAX_PIXELS,
    check_content,
    check_scans,
    cost_before_opening,
    cost_of,
    is_transparent,
    reserved,
    webp_header,
)

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

Image = npt.NDArray[np.uint8]

# Kind, suffix, and the bytes a file of that kind begins with.
_KINDS: tuple[tuple[str, str, tuple[bytes, ...]], ...] = (
    ("Jpeg", ".jpg", (b"\xff\xd8\xff",)),
    ("Png", ".png", (b"\x89PNG\r\n\x1a\n",)),
    ("WebP", ".webp", (b"RIFF",)),
    ("Gif", ".gif", (b"GIF87a", b"GIF89a")),
    ("Bmp", ".bmp", (b"BM",)),
    ("Tiff", ".tiff", (b"II*\0", b"MM\0*")),
    ("Ppm", ".ppm", (b"P6", b"P5", b"P3", b"P2")),
    ("Heif", ".heic", ()),
    ("Avif", ".avif", ()),
)
_BRANDS = {"Avif": {b"avif", b"avis"}, "Heif": {b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1"}}
"""Kinds of ISO media files by the brands that a file names after `ftyp`; an AVIF may name those of HEIF, too."""
_ORIENTATION = 0x0112
_STRIP = 256


class UnreadableImage(ValueError):
    """An image that cannot be read: which one, and why."""


def decode(data: bytes, describe: str = "image", *, reduce: int = 1) -> Image:
    """The image in `data` as uint8 (H, W, 3) RGB, upright.

    EXIF orientation is applied; CMYK, palette and 16-bit samples are converted; transparent pixels are laid on white;
    of an animation the first frame is taken. JPEG, PNG, WebP, GIF, BMP, TIFF and PPM are known. simplejpeg decodes
    plain JPEGs when it is installed, unless the environment has HYPERSPHERE_DECODER=pillow. What an image may cost is
    bounded by `image_limits`: pixels, scans of a JPEG, memory of one image and of all threads together.

    Args:
        data: the file's content.
        describe: which image this is, for the message.
        reduce: 1, 2, 4 or 8; squares of so many pixels a side become one. It is done before pixels are converted, so
            that a large image takes less memory; of a JPEG only the reduced one is computed.

    Raises:
        UnreadableImage: empty, truncated, corrupt, beyond the limits, or of another kind.

    Example:
        >>> decode(Path("face.jpg").read_bytes(), "face.jpg").shape
        (112, 112, 3)
    """
    if reduce not in (1, 2, 4, 8):
        raise ValueError(f"reduce={reduce} must be 1, 2, 4 or 8")
    kind = _known_kind(data, describe)
    if kind == "Jpeg" and reduce == 1:
        image = _decode_fast(data)
        if image is not None:
            return image
    plugin = _reader(kind, describe)
    try:
        check_content(kind, data)
        with (
            reserved(cost_before_opening(kind, data)),
            plugin(io.BytesIO(data)) as picture,
            reserved(cost_of(kind, data, picture)),
        ):
            if kind == "Jpeg" and reduce > 1:
                picture.draft(None, (max(1, picture.width // reduce), max(1, picture.height // reduce)))
                reduce //= picture.decoderconfig[0] if picture.decoderconfig else 1
            picture.load()
            orientation = _orientation(picture)  # Pillow turns a TIFF itself when it loads it
            return _to_rgb(_upright(_reduced(picture, kind, reduce), orientation), kind)
    except Exception as error:  # decoders raise anything at all on damaged files
        raise UnreadableImage(f"{describe}: {str(error) or type(error).__name__}") from error


def image_size(data: bytes, describe: str = "image") -> tuple[int, int]:
    """Width and height of the image in `data` as its header states them, before any EXIF orientation.

    No pixel is decoded, and no limit applies: who asks judges the size.

    Args:
        data: the file's content.
        describe: which image this is, for the message.

    Raises:
        UnreadableImage: no image of a known kind, or a damaged header.
    """
    kind = _known_kind(data, describe)
    reader = None if kind == "WebP" else _reader(kind, describe)
    try:
        if reader is None:
            return webp_header(data)[:2]
        with reader(io.BytesIO(data)) as picture:
            width, height = picture.size
            return int(width), int(height)
    except Exception as error:  # as in `decode`
        raise UnreadableImage(f"{describe}: {str(error) or type(error).__name__}") from error


def encode(image: Image, quality: int | None = None) -> bytes:
    """An image as PNG, without loss, or as JPEG of the given quality.

    Args:
        image: uint8 (H, W, 3) RGB or (H, W, 1) grey.
        quality: None for PNG; 1 to 100 for JPEG (colour at full resolution).
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in (1, 3):
        raise ValueError(f"image is {image.dtype} {image.shape}; expected uint8 (H, W, 1 or 3)")
    if quality is not None and not 1 <= quality <= 100:
        raise ValueError(f"quality={quality} must be between 1 and 100, or None for PNG")
    picture = _pillow("PIL.Image").fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
    stream = io.BytesIO()
    if quality is None:
        picture.save(stream, format="PNG")
    else:
        picture.save(stream, format="JPEG", quality=quality, subsampling=0)
    return stream.getvalue()


def suffix_of(data: bytes, describe: str = "image") -> str:
    """The file suffix for the bytes of an image, such as `.jpg`."""
    kind = _kind(data)
    for name, suffix, _ in _KINDS:
        if name == kind:
            return suffix
    raise UnreadableImage(f"{describe}: {'empty (0 bytes)' if not data else 'no image of a known kind'}")


def _kind(data: bytes) -> str | None:
    for name, _, beginnings in _KINDS:
        if data.startswith(beginnings):
            return name if name != "WebP" or data[8:12] == b"WEBP" else None
    if data[4:8] == b"ftyp":
        end = min(int.from_bytes(data[:4], "big"), len(data), 256)
        brands = {data[start : start + 4] for start in (8, *range(16, end - 3, 4))}
        return next((name for name, own in _BRANDS.items() if own & brands), None)
    return None


def _known_kind(data: bytes, describe: str) -> str:
    if not data:
        raise UnreadableImage(f"{describe}: empty (0 bytes)")
    kind = _kind(data)
    if kind is None:
        known = ", ".join(name for name, _, _ in _KINDS)
        raise UnreadableImage(f"{describe}: begins with {data[:4]!r}, which is none of {known}")
    return kind


def _decode_fast(data: bytes) -> Image | None:
    """A plain JPEG by simplejpeg; None where Pillow has to judge: no simplejpeg, EXIF, CMYK, huge, damaged."""
    if os.environ.get("HYPERSPHERE_DECODER", "").lower() == "pillow" or b"Exif\0\0" in data:
        return None
    simplejpeg = _simplejpeg()
    if simplejpeg is None:
        return None
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
        if colours in ("CMYK", "YCCK") or height * width > MAX_PIXELS:
            return None
        with reserved(10 * height * width if check_scans(data, height * width) > 1 else 3 * height * width):
            image: Image = simplejpeg.decode_jpeg(data, colorspace="RGB")
    except ValueError:
        return None
    return image


@cache
def _simplejpeg() -> Any:
    try:
        return importlib.import_module("simplejpeg")
    except ImportError:
        return None


def _pillow(module: str) -> Any:
    return import_extra(module, "reading or writing an image")


@cache
def _plugin(kind: str) -> Any:
    """Pillow's reader of one kind. Taken directly, not through Image.open: no other kind is tried, and the pixels are
    counted here and not by a warning."""
    if kind == "Heif":
        return import_extra("pillow_heif", "reading HEIC").HeifImageFile
    return getattr(_pillow(f"PIL.{kind}ImagePlugin"), f"{kind}ImageFile")


def _reader(kind: str, describe: str) -> Any:
    """Pillow's reader; without the extra for phone photos they are unreadable as damaged ones are, each by its name."""
    if kind not in _BRANDS:
        return _plugin(kind)
    try:
        return _plugin(kind)
    except ModuleNotFoundError as error:
        hint = install_hint("pillow_heif", f"reading {'HEIC' if kind == 'Heif' else 'AVIF'}")
        raise UnreadableImage(f"{describe}: {hint}") from error


def _orientation(picture: PillowImage) -> int:
    """How the photo is turned, by its EXIF block; a damaged one does not make the picture unreadable."""
    try:
        return int(picture.getexif().get(_ORIENTATION, 1))
    except Exception:
        return 1


def _upright(picture: PillowImage, orientation: int) -> PillowImage:
    """The picture turned and mirrored as an EXIF orientation from 2 to 8 says."""
    turn = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE"}
    turn |= {6: "ROTATE_270", 7: "TRANSVERSE", 8: "ROTATE_90"}
    if orientation not in turn:
        return picture
    return picture.transpose(getattr(_pillow("PIL.Image").Transpose, turn[orientation]))


def _reduced(picture: PillowImage, kind: str, factor: int) -> PillowImage:
    """A picture whose squares of `factor` pixels a side are averaged, in RGB."""
    if factor == 1:
        return picture
    pillow = _pillow("PIL.Image")
    strips = []  # converted one by one: the whole picture in other modes takes several times its memory
    for top in range(0, picture.height, _STRIP):
        strip = picture.crop((0, top, picture.width, min(top + _STRIP, picture.height)))
        strips.append(np.asarray(pillow.fromarray(_to_rgb(strip, kind)).reduce(factor)))
    whole: PillowImage = pillow.fromarray(np.concatenate(strips))
    return whole


def _to_rgb(picture: PillowImage, kind: str) -> Image:
    transparent = is_transparent(picture)
    if picture.mode == "RGB" and not transparent:
        return np.array(picture)
    if picture.mode.startswith("I;16") or (picture.mode == "I" and kind in ("Png", "Ppm")):
        samples = np.asarray(picture).astype(np.uint32)
        grey = ((samples * 255 + 32767) // 65535).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
    if picture.mode in ("I", "F"):
        raise ValueError("32-bit samples, whose range is not known; expected 8 or 16 bits")
    if transparent:
        picture = picture.convert("RGBA")
        white = _pillow("PIL.Image").new("RGBA", picture.size, "white")
        white.alpha_composite(picture)
        picture = white
    return np.array(picture.convert("RGB"))
