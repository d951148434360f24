"""Photos of every kind, refused or read upright."""

import io
import struct
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hypersphere.data import UnreadableImage
from hypersphere.recognition import PhotoTooLarge, read_photo
from hypersphere.recognition.photo import MAX_PIXELS, MAX_SIDE
from tests.recognition.drawn import drawn_photo

PHOTO = drawn_photo((90, 70), ((35, 45, 25),))


def saved(picture: Image.Image, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG that states a size and ends there."""
    chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"IDAT" + zlib.compress(b"")
    parts = [struct.pack(">I", len(each) - 4) + each + struct.pack(">I", zlib.crc32(each)) for each in (chunk, data)]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_orientation_is_upright(orientation: int) -> None:
    turned = Image.fromarray(PHOTO)
    undo = {
        2: [Image.Transpose.FLIP_LEFT_RIGHT],
        3: [Image.Transpose.ROTATE_180],
        4: [Image.Transpose.FLIP_TOP_BOTTOM],
        5: [Image.Transpose.TRANSPOSE],
        6: [Image.Transpose.ROTATE_90],
        7: [Image.Transpose.TRANSVERSE],
        8: [Image.Transpose.ROTATE_270],
    }
    for step in undo.get(orientation, []):
        turned = turned.transpose(step)
    exif = Image.Exif()
    exif[0x0112] = orientation
    np.testing.assert_array_equal(read_photo(saved(turned, "PNG", exif=exif)), PHOTO)


def sixteen_bits() -> bytes:
    grey = np.asarray(Image.fromarray(PHOTO).convert("L")).astype(np.uint16) * 257
    return saved(Image.fromarray(grey), "PNG")


@pytest.mark.parametrize(
    ("name", "content", "grey"),
    [
        ("cmyk", lambda: saved(Image.fromarray(PHOTO).convert("CMYK"), "JPEG", quality=95), False),
        ("alpha", lambda: saved(Image.fromarray(PHOTO).convert("RGBA"), "PNG"), False),
        ("palette", lambda: saved(Image.fromarray(PHOTO).quantize(255), "PNG"), False),
        ("grey", lambda: saved(Image.fromarray(PHOTO).convert("L"), "PNG"), True),
        ("16 bits", sixteen_bits, True),
        ("webp", lambda: saved(Image.fromarray(PHOTO), "WEBP", quality=95), False),
    ],
)
def test_other_pixels_become_rgb(name: str, content: Any, grey: bool) -> None:
    read = read_photo(content(), describe=name)
    wanted = np.asarray(Image.fromarray(PHOTO).convert("L"))[:, :, None] if grey else PHOTO
    assert read.shape == PHOTO.shape
    assert read.dtype == np.uint8
    assert np.abs(read.astype(float) - wanted).mean() < 4


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP"])
def test_of_an_animation_one_frame_is_decoded(kind: str) -> None:
    """Frames that nobody looks at cost nothing: twelve take no more time of the processor than twice that of one."""
    frames = [Image.fromarray(np.random.default_rng(n).integers(0, 256, (200, 200), np.uint8)) for n in range(12)]
    options = {"lossless": True} if kind == "WEBP" else {}
    one = saved(frames[0], kind, **options)
    many = saved(frames[0], kind, save_all=True, append_images=frames[1:], duration=50, **options)
    assert len(many) > 8 * len(one)

    def taken(content: bytes) -> float:
        start = time.process_time()
        read_photo(content)
        return time.process_time() - start

    rounds = [(taken(one), taken(many)) for _ in range(7)]
    assert min(many for _, many in rounds) < 2 * min(one for one, _ in rounds) + 0.002


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP"])
def test_of_an_animation_the_first_frame_is_taken(kind: str) -> None:
    frames = [Image.fromarray(PHOTO), Image.new("RGB", (70, 90), "red")]
    options = {"lossless": True} if kind == "WEBP" else {}
    content = saved(frames[0], kind, save_all=True, append_images=frames[1:], duration=50, **options)
    assert np.abs(read_photo(content).astype(float) - PHOTO).mean() < 6


@pytest.mark.parametrize(("width", "height"), [(8000, 5001), (16_385, 1), (1, 16_385), (100_000, 100_000)])
def test_a_photo_too_large_is_refused_by_its_header(width: int, height: int) -> None:
    with pytest.raises(PhotoTooLarge, match=f"big.png: {width}x{height} pixels; a photo may have 40,000,000"):
        read_photo(png_header(width, height), describe="big.png")


@pytest.mark.parametrize("kind", ["JPEG", "GIF", "BMP", "TIFF", "PPM", "WEBP"])
def test_the_header_of_every_kind_is_read(kind: str) -> None:
    content = saved(Image.fromarray(PHOTO), kind)
    assert read_photo(content).shape == PHOTO.shape
    with pytest.raises(PhotoTooLarge, match="70x90 pixels; a photo may have 6,299 pixels"):
        read_photo(content, max_pixels=70 * 90 - 1)
    with pytest.raises(PhotoTooLarge, match="sides of 89"):
        read_photo(content, max_side=89)


def test_limits_are_those_of_the_documents() -> None:
    assert (MAX_PIXELS, MAX_SIDE) == (40_000_000, 16_384)
    with pytest.raises(ValueError, match="max_side"):
        read_photo(b"", max_side=0)


def test_a_path_is_read_and_named(tmp_path: Path) -> None:
    file = tmp_path / "ada.png"
    file.write_bytes(saved(Image.fromarray(PHOTO), "PNG"))
    np.testing.assert_array_equal(read_photo(file), PHOTO)
    np.testing.assert_array_equal(read_photo(str(file)), PHOTO)
    with pytest.raises(UnreadableImage, match=r"grace.png: No such file"):
        read_photo(tmp_path / "grace.png")
    with pytest.raises(UnreadableImage, match="not a regular file"):
        read_photo(tmp_path)


def damaged(count: int) -> list[bytes]:
    """Truncated JPEGs, random bytes, polyglots and empty files."""
    random = np.random.default_rng(0)
    whole = saved(Image.fromarray(PHOTO), "JPEG", quality=90)
    made = []
    for number in range(count):
        noise = random.bytes(int(random.integers(1, 2000)))
        truncated = whole[: int(random.integers(3, len(whole) // 2))]
        made.append(
            [truncated, noise, b"%PDF-1.4\n" + whole, b"", b"\xff\xd8\xff" + noise, b"GIF89a" + noise][number % 6]
        )
    return made


def test_damaged_files_are_refused_one_and_all() -> None:
    for data in damaged(120):
        with pytest.raises(UnreadableImage):
            read_photo(data)


@pytest.mark.slow
def test_a_thousand_damaged_files_are_refused() -> None:
    for data in damaged(1000):
        with pytest.raises(UnreadableImage):
            read_photo(data)
