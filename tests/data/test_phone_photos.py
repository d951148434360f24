"""HEIC and AVIF, the photos of phones: read with the extra `heif`, and named as unreadable without it."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersphere.core import extras
from hypersphere.data import UnreadableImage, decode, image_size, images, is_image_name, open_every_image
from hypersphere.data.images import suffix_of

heif = pytest.importorskip("pillow_heif", reason="needs the package pillow-heif")
from PIL import Image as Pillow  # noqa: E402

PIXELS = np.zeros((48, 64, 3), np.uint8)
PIXELS[:24] = (200, 60, 40)
PIXELS[24:] = (40, 80, 220)


def phone_photo(kind: str, orientation: int = 1) -> bytes:
    """The bytes of a photo, red above blue as it is stored, with an EXIF orientation."""
    picture, stream = Pillow.fromarray(PIXELS), io.BytesIO()
    exif = Pillow.Exif()
    exif[0x0112] = orientation
    if kind == "heic":
        heif.from_pillow(picture).save(stream, quality=95, exif=exif.tobytes())
    else:
        picture.save(stream, "AVIF", quality=95, exif=exif.tobytes())
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["heic", "avif"])
def test_a_phone_photo_is_read_upright(kind: str) -> None:
    data = phone_photo(kind)
    assert image_size(data) == (64, 48)
    assert suffix_of(data) == f".{kind}"
    assert is_image_name(f"IMG_1.{kind.upper()}")
    image = decode(data)
    assert image.shape == (48, 64, 3)
    assert image.dtype == np.uint8
    assert np.abs(image.astype(int) - PIXELS)[4:20].max() < 20
    half_turn = decode(phone_photo(kind, 3)).astype(int)
    assert np.abs(half_turn - PIXELS[::-1])[4:20].max() < 20


@pytest.mark.parametrize("kind", ["heic", "avif"])
def test_a_damaged_one_is_unreadable(kind: str) -> None:
    data = phone_photo(kind)
    for damaged in (data[:40], data[: len(data) // 2], data[:60] + bytes(len(data) - 60)):
        with pytest.raises(UnreadableImage, match=r"^a: "):
            decode(damaged, "a")


@pytest.mark.parametrize("kind", ["heic", "avif"])
def test_without_the_extra_it_is_named(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str, purpose: str) -> Any:
        raise ModuleNotFoundError(extras.install_hint("pillow_heif", purpose))

    (tmp_path / f"1.{kind}").write_bytes(phone_photo(kind))
    images._plugin.cache_clear()
    monkeypatch.setattr(images, "import_extra", missing)
    monkeypatch.setattr(images, "_pillow", lambda module: missing(module, "reading or writing an image"))
    source, names = open_every_image(tmp_path)
    assert names == [f"1.{kind}"]
    message = rf"1\.{kind}: reading {kind.upper()} needs pillow-heif: in a checkout .* pip install '\.\[heif\]'"
    with pytest.raises(UnreadableImage, match=message):
        source.read(0)
    with pytest.raises(UnreadableImage, match=message):
        image_size(phone_photo(kind), f"1.{kind}")
