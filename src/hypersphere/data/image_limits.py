"""What decoding an image may cost, judged by its header and its markers before a decoder sees it.

A few hundred bytes can state 67 million pixels, and a JPEG of 362 KB can pass over them ten thousand times. A decoder
is native code that a thread cannot interrupt, so its work is bounded beforehand: pixels, passes over them and memory of
one image, and the memory of all threads of a process together.
"""

from __future__ import annotations

import os
import re
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MAX_BYTES = 2**30
"""Bytes of an encoded image."""
MAX_PIXELS = 2**26
"""Pixels of an image (67 megapixels)."""
MAX_SCANNED_PIXELS = 2**30
"""Scans of a JPEG times its pixels, of which at least 2^16 are counted: some seconds of work. Encoders write about ten
scans, of the largest image sixteen are allowed."""
MAX_MEMORY = 2**30
"""Bytes that decoding one image takes, about: 10 a pixel, 14 of more than 8 bits or CMYK, 21 with transparency, 6 more
for several scans and 8 more for WebP, HEIC and AVIF."""
SHARED_MEMORY = 2**29
"""Bytes that the threads of one process take together; a thread waits for its share."""
_LEAST_PIXELS, _LEAST_SCAN = 2**16, 10
_SMALL = 2**24
"""Bytes that a thread takes without asking."""

_PNG_START = 8
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]", re.DOTALL)
_START_OF_SCAN, _END_OF_IMAGE, _WITHOUT_LENGTH = 0xDA, 0xD9, (0x01, 0xD8)
_PLAIN = ("RGB", "L", "P", "1", "RGBX")


def check_content(kind: str, data: bytes) -> None:
    """ValueError where a file is damaged in a way that its decoder does not notice."""
    if kind == "Png":
        _check_png(data)


def cost_before_opening(kind: str, data: bytes) -> int:
    """Bytes that decoding will take where opening takes them already, as WebP's reader does; otherwise 0."""
    if kind != "WebP":
        return 0
    width, height, alpha = webp_header(data)
    _check_pixels(width, height)
    return _checked_cost(width, height, (21 if alpha else 10) + 8)


def cost_of(kind: str, data: bytes, picture: Any) -> int:
    """Bytes that loading an opened picture will take; ValueError beyond the limits."""
    width, height = picture.size
    _check_pixels(width, height)
    if kind == "WebP":
        return 0
    each = 21 if is_transparent(picture) else 10 if picture.mode in _PLAIN else 14
    if kind in ("Heif", "Avif"):
        each += 8
    if kind == "Jpeg" and check_scans(data, width * height) > 1:
        each += 6
    if kind == "Tiff":
        width, height = max(width, _tag(picture, 322)), max(height, _tag(picture, 323))
    return _checked_cost(width, height, each)


def is_transparent(picture: Any) -> bool:
    """Whether a picture has pixels that what lies below shines through."""
    return picture.mode in ("RGBA", "RGBa", "LA", "La", "PA") or "transparency" in picture.info


def check_scans(data: bytes, pixels: int) -> int:
    """The scans of a JPEG, or more; ValueError where they are too many for its pixels.

    They are counted only where they could be too many: a scan has ten bytes at least.
    """
    allowed = MAX_SCANNED_PIXELS // max(pixels, _LEAST_PIXELS)
    scans = len(data) // _LEAST_SCAN
    for count in (_count_quickly, _count_scans):
        if scans <= allowed:
            return scans
        scans = count(data)
    if scans > allowed:
        raise ValueError(f"{scans:,} scans of {pixels:,} pixels, more than the {allowed:,} scans allowed for that size")
    return scans


def webp_header(data: bytes) -> tuple[int, int, bool]:
    """Width, height, and whether there is transparency."""
    kind = data[12:16]
    if kind == b"VP8X" and len(data) >= 30:
        width, height = (1 + int.from_bytes(data[start : start + 3], "little") for start in (24, 27))
        return width, height, bool(data[20] & 0x10)
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a" and len(data) >= 30:
        width, height = (number & 0x3FFF for number in struct.unpack_from("<HH", data, 26))
        return width, height, False
    if kind == b"VP8L" and data[20:21] == b"\x2f" and len(data) >= 25:
        (bits,) = struct.unpack_from("<I", data, 21)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF), bool(bits >> 28 & 1)
    raise ValueError("no WebP header, or a truncated one")


@contextmanager
def reserved(cost: int) -> Iterator[None]:
    """Take a share of the threads' memory; wait while others have too much of it."""
    if cost < _SMALL:
        yield
        return
    with _Shared.free:
        _Shared.free.wait_for(lambda: _Shared.taken == 0 or _Shared.taken + cost <= SHARED_MEMORY)
        _Shared.taken += cost
    try:
        yield
    finally:
        with _Shared.free:
            _Shared.taken -= cost
            _Shared.free.notify_all()


class _Shared:
    """The memory that decoding threads of this process have taken."""

    free = threading.Condition()
    taken = 0

    @classmethod
    def reset(cls) -> None:
        """Begin anew in a forked process, whose parent's threads do not exist."""
        cls.free, cls.taken = threading.Condition(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Shared.reset)


def _check_pixels(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise ValueError(f"{width}x{height} pixels, more than the {MAX_PIXELS:,} allowed")


def _checked_cost(width: int, height: int, each: int) -> int:
    cost = width * height * each
    if cost > MAX_MEMORY:
        raise ValueError(f"{width}x{height} pixels take about {cost:,} bytes, more than the {MAX_MEMORY:,} allowed")
    return cost


def _count_quickly(data: bytes) -> int:
    """At least the number of scans."""
    return data.count(b"\xff\xda")


def _count_scans(data: bytes) -> int:
    """Walk from marker to marker as a decoder does: thumbnails in segments and what follows the image do not count."""
    scans, position = 0, 2
    while (found := _MARKER.search(data, position)) is not None:
        marker = data[found.end() - 1]
        position = found.end()
        if marker == _END_OF_IMAGE:
            break
        if marker in _WITHOUT_LENGTH:
            continue
        scans += marker == _START_OF_SCAN
        position += int.from_bytes(data[position : position + 2], "big")
    return scans


def _check_png(data: bytes) -> None:
    """Every chunk's checksum, which Pillow skips for the pixels, up to the end mark."""
    view, position = memoryview(data), _PNG_START
    while position + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, position)
        end = position + 8 + length
        if end + 4 > len(data):
            break
        kind = bytes(view[position + 4 : position + 8])
        if zlib.crc32(view[position + 4 : end]) != struct.unpack_from(">I", data, end)[0]:
            raise ValueError(f"wrong checksum of the {kind.decode('latin1')} chunk at byte {position}; it is damaged")
        if kind == b"IEND":
            return
        position = end + 4
    raise ValueError("ends without its end mark (IEND); it is truncated")


def _tag(picture: Any, number: int) -> int:
    """A whole number among the tags of a TIFF, 0 where it is not there."""
    value = picture.tag_v2.get(number, 0)
    return value if isinstance(value, int) else MAX_PIXELS + 1
