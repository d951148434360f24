"""Images of every kind become 8-bit RGB; what cannot be read says which and why."""

import io
import struct
import sys
import types
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hypersphere.data import UnreadableImage, decode, encode
from hypersphere.data import images as module
from tests.data.samples import picture, saved


@pytest.fixture(autouse=True, params=["pillow", "auto"])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "pillow":
        monkeypatch.setenv("HYPERSPHERE_DECODER", "Pillow")
    else:
        monkeypatch.delenv("HYPERSPHERE_DECODER", raising=False)


def png(width: int, height: int, depth: int, colour: int, rows: bytes) -> bytes:
    """A PNG by hand."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_lossless_kinds_keep_every_pixel(kind: str) -> None:
    image = decode(saved(picture(1), kind))
    assert image.dtype == np.uint8
    assert image.flags.writeable
    np.testing.assert_array_equal(image, picture(1))


@pytest.mark.parametrize(("kind", "options"), [("JPEG", {"quality": 95}), ("WEBP", {"quality": 95}), ("GIF", {})])
def test_lossy_kinds_come_close(kind: str, options: dict[str, Any]) -> None:
    image = decode(saved(picture(1, 32, 24), kind, **options)).astype(int)
    assert image.shape == (32, 24, 3)
    assert np.abs(image - picture(1, 32, 24)).mean() < 12


def test_progressive_and_grey_jpeg() -> None:
    plain = decode(saved(picture(2), quality=90))
    np.testing.assert_array_equal(decode(saved(picture(2), quality=90, progressive=True)), plain)
    grey = Image.fromarray(picture(2)).convert("L")
    image = decode(saved(grey, quality=100))
    assert image.shape == (12, 10, 3)
    assert (image == image[:, :, :1]).all()
    assert np.abs(image[:, :, 0].astype(int) - np.asarray(grey)).max() <= 3


TURNS = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: np.rot90(a, 1),
}


@pytest.mark.parametrize("orientation", list(TURNS))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_exif_orientation_is_applied(kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    plain = decode(saved(picture(3), kind))
    np.testing.assert_array_equal(decode(saved(picture(3), kind, exif=exif)), TURNS[orientation](plain))


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data:UserWarning")
def test_a_damaged_exif_block_is_no_reason_to_lose_the_picture() -> None:
    data = saved(picture(3), exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    assert decode(data).shape == (12, 10, 3)


def flat(mode: str, colour: tuple[int, ...]) -> Image.Image:
    return Image.new(mode, (16, 16), colour)


def test_cmyk_jpeg() -> None:
    for cmyk, rgb in [((0, 0, 0, 0), (255, 255, 255)), ((0, 255, 255, 0), (255, 0, 0)), ((0, 0, 0, 255), (0, 0, 0))]:
        image = decode(saved(flat("CMYK", cmyk), quality=100))
        assert np.abs(image.astype(int) - np.array(rgb)).max() <= 3


def test_ycck_jpeg() -> None:
    stored = (120, 90, 200, 180)  # as they stand in the file, where Adobe inverts
    cmyk = saved(flat("CMYK", tuple(255 - value for value in stored)), quality=100)
    adobe = cmyk.index(b"Adobe")
    assert cmyk[adobe + 11] == 0
    ycck = cmyk[: adobe + 11] + b"\x02" + cmyk[adobe + 12 :]
    y, cb, cr, k = stored
    rgb = [y + 1.402 * (cr - 128), y - 0.344136 * (cb - 128) - 0.714136 * (cr - 128), y + 1.772 * (cb - 128)]
    expected = flat("CMYK", (*(round(value) for value in rgb), 255 - k)).convert("RGB")
    assert np.abs(decode(ycck).astype(int) - np.asarray(expected)).max() <= 4


def test_palette_bilevel_and_alpha() -> None:
    palette = Image.fromarray(picture(4)).quantize(16)
    np.testing.assert_array_equal(decode(saved(palette, "PNG")), np.asarray(palette.convert("RGB")))
    bits = Image.fromarray(picture(4)).convert("1")
    np.testing.assert_array_equal(decode(saved(bits, "PNG")), np.asarray(bits.convert("RGB")))
    for mode, half in [("RGBA", (200, 100, 0, 128)), ("LA", (100, 128))]:
        image = decode(saved(flat(mode, half), "PNG"))
        colour = np.array(half[:-1]) * 128 / 255 + 127
        assert np.abs(image[0, 0] - np.resize(colour, 3)).max() <= 1
        clear = decode(saved(flat(mode, (*half[:-1], 0)), "PNG"))
        assert (clear == 255).all()


def test_a_transparent_palette_colour_becomes_white() -> None:
    palette = Image.fromarray(np.array([[0, 1]], dtype=np.uint8), "P")
    palette.putpalette([10, 20, 30, 40, 50, 60])
    image = decode(saved(palette, "PNG", transparency=1))
    np.testing.assert_array_equal(image, [[[10, 20, 30], [255, 255, 255]]])


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bit_grey_is_scaled_and_not_clipped(kind: str) -> None:
    samples = np.array([[0, 257, 0x1234, 40000, 65535]], dtype=np.uint16)
    image = decode(saved(Image.fromarray(samples), kind))
    np.testing.assert_array_equal(image[0, :, 0], [0, 1, 18, 156, 255])
    assert (image == image[:, :, :1]).all()


def test_sixteen_bit_colour() -> None:
    row = struct.pack(">6H", 0, 0x1234, 0xFFFF, 0x8000, 0x00FF, 0xABCD)
    image = decode(png(2, 1, 16, 2, b"\0" + row))
    assert np.abs(image.astype(int) - [[[0, 0x12, 255], [0x80, 0, 0xAB]]]).max() <= 1


def test_samples_of_unknown_range_are_refused() -> None:
    with pytest.raises(UnreadableImage, match=r"a\.tif: 32-bit samples"):
        decode(saved(Image.fromarray(np.ones((2, 2), dtype=np.float32)), "TIFF"), "a.tif")


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_of_an_animation_the_first_frame_is_taken(kind: str) -> None:
    frames = [flat("RGB", colour) for colour in [(255, 0, 0), (0, 255, 0), (0, 0, 255)]]
    options = {"lossless": True} if kind == "WEBP" else {}
    data = saved(frames[0], kind, save_all=True, append_images=frames[1:], **options)
    np.testing.assert_array_equal(decode(data), np.asarray(frames[0]))


@pytest.mark.parametrize("mode", ["RGB", "L", "1", "P", "RGBA", "LA", "I;16", "CMYK"])
@pytest.mark.parametrize("factor", [2, 8])
def test_a_reduced_image_is_that_of_averaged_squares(mode: str, factor: int) -> None:
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (530, 300, 3), dtype=np.uint8))
    if mode == "I;16":
        picture = Image.fromarray(np.asarray(picture.convert("L")).astype(np.uint16) * 257)
    else:
        picture = picture.convert(mode)
    if mode == "RGBA":
        picture.putalpha(picture.getchannel(0))
    content = saved(picture, "TIFF" if mode == "CMYK" else "PNG")
    np.testing.assert_array_equal(decode(content, reduce=factor), Image.fromarray(decode(content)).reduce(factor))


@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_a_reduced_jpeg_is_upright_and_decoded_at_its_size(orientation: int, monkeypatch: pytest.MonkeyPatch) -> None:
    grey = np.linspace(0, 255, 640, dtype=np.uint8)[None].repeat(400, 0)
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = saved(Image.fromarray(grey), "JPEG", quality=95, exif=exif)
    whole = Image.fromarray(decode(content)).reduce(4)
    monkeypatch.setattr(Image.Image, "reduce", lambda *_: pytest.fail("the decoder did not reduce it"))
    assert np.abs(np.asarray(whole).astype(int) - decode(content, reduce=4)).max() <= 3


def test_a_factor_is_1_2_4_or_8() -> None:
    with pytest.raises(ValueError, match="reduce=3 must be 1, 2, 4 or 8"):
        decode(b"", reduce=3)


def test_empty_and_foreign_bytes() -> None:
    with pytest.raises(UnreadableImage, match=r"^x/1\.jpg: empty \(0 bytes\)$"):
        decode(b"", "x/1.jpg")
    with pytest.raises(UnreadableImage, match=r"^x/1\.jpg: begins with b'<htm'"):
        decode(b"<html>404</html>", "x/1.jpg")
    with pytest.raises(UnreadableImage, match="begins with b'RIFF'"):
        decode(b"RIFF\x10\0\0\0WAVEfmt ", "sound")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "TIFF"])
def test_a_truncated_image_is_refused_wherever_it_ends(kind: str) -> None:
    data = saved(picture(5, 40, 40), kind)
    for share in (0.05, 0.3, 0.6, 0.9):
        with pytest.raises(UnreadableImage, match=r"^shard: photo: ."):
            decode(data[: int(share * len(data))], "shard: photo")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF", "PPM"])
def test_damaged_bytes_give_an_image_or_the_one_error(kind: str) -> None:
    rng = np.random.default_rng(0)
    data = np.frombuffer(saved(picture(6, 16, 16), kind), dtype=np.uint8)
    refused = 0
    for _ in range(60):
        damaged = data.copy()
        where = rng.integers(0, len(damaged), 6)
        damaged[where] = rng.integers(0, 256, 6)
        try:
            image = decode(damaged.tobytes(), "it")
        except UnreadableImage as error:
            refused += 1
            assert str(error).startswith("it: ")  # noqa: PT017
        else:
            assert image.dtype == np.uint8
            assert image.shape[2] == 3
    assert refused or kind in ("BMP", "PPM")


@pytest.mark.parametrize("side", [9_000, 16_000])
def test_a_decompression_bomb_is_refused_before_it_is_decoded(side: int) -> None:
    with pytest.raises(UnreadableImage, match=rf"bomb\.png: {side}x{side} pixels, more than the 67,108,864 allowed"):
        decode(png(side, side, 8, 2, b"\0"), "bomb.png")
    jpeg = bytearray(saved(picture(1, 8, 8)))
    frame = jpeg.index(b"\xff\xc0")
    jpeg[frame + 5 : frame + 9] = struct.pack(">HH", side, side)
    with pytest.raises(UnreadableImage, match=rf"bomb\.jpg: {side}x{side} pixels"):
        decode(bytes(jpeg), "bomb.jpg")


def test_encode() -> None:
    np.testing.assert_array_equal(decode(encode(picture(7))), picture(7))
    grey = picture(7)[:, :, :1]
    np.testing.assert_array_equal(decode(encode(grey)), np.repeat(grey, 3, axis=2))
    jpeg = encode(picture(7, 32, 32), quality=95)
    assert jpeg.startswith(b"\xff\xd8\xff")
    assert np.abs(decode(jpeg).astype(int) - picture(7, 32, 32)).max() <= 8
    with pytest.raises(ValueError, match="quality=0 must be between 1 and 100"):
        encode(picture(7), quality=0)
    with pytest.raises(ValueError, match=r"float64 \(2, 2\); expected uint8"):
        encode(np.zeros((2, 2)))  # type: ignore[arg-type]


def test_without_pillow_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    image = picture(1)
    for name in [name for name in sys.modules if name == "PIL" or name.startswith("PIL.")]:
        monkeypatch.setitem(sys.modules, name, None)
    module._plugin.cache_clear()
    for call in (lambda: decode(b"\x89PNG\r\n\x1a\n", "a.png"), lambda: encode(image)):
        with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[images\]'"):
            call()


class Recorder(types.SimpleNamespace):
    """In place of simplejpeg: notes that it was asked."""

    def __init__(self, colours: str = "YCbCr", failure: Exception | None = None) -> None:
        super().__init__(colours=colours, failure=failure, decoded=0)

    def decode_jpeg_header(self, data: bytes) -> tuple[int, int, str, str]:
        if self.failure:
            raise self.failure
        with Image.open(io.BytesIO(data)) as image:
            return image.height, image.width, self.colours, "420"

    def decode_jpeg(self, data: bytes, colorspace: str) -> Any:
        assert colorspace == "RGB"
        self.decoded += 1
        return np.zeros((1, 1, 3), dtype=np.uint8)


def test_simplejpeg_decodes_plain_jpegs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HYPERSPHERE_DECODER", raising=False)
    fast = Recorder()
    monkeypatch.setattr(module, "_simplejpeg", lambda: fast)
    assert decode(saved(picture(1))).shape == (1, 1, 3)
    exif = Image.Exif()
    exif[0x0112] = 6
    assert decode(saved(picture(1), exif=exif)).shape == (10, 12, 3)
    assert decode(saved(picture(1), "PNG")).shape == (12, 10, 3)
    assert fast.decoded == 1
    fast.colours = "CMYK"
    assert decode(saved(picture(1))).shape == (12, 10, 3)
    fast.colours, fast.failure = "YCbCr", ValueError("corrupt")
    assert decode(saved(picture(1))).shape == (12, 10, 3), "Pillow judges what simplejpeg refuses"
    fast.failure = None
    monkeypatch.setenv("HYPERSPHERE_DECODER", "pillow")
    assert decode(saved(picture(1))).shape == (12, 10, 3)
    assert fast.decoded == 1


def test_simplejpeg_and_pillow_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("simplejpeg")
    data = saved(picture(8, 64, 48), quality=90)
    monkeypatch.setenv("HYPERSPHERE_DECODER", "pillow")
    slow = decode(data).astype(int)
    monkeypatch.delenv("HYPERSPHERE_DECODER")
    assert np.abs(decode(data) - slow).max() <= 2
