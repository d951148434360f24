"""Images that state or hide more work than they are worth, and damaged ones, of every kind."""

import os
import struct
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from PIL import Image

from hypersphere.data import UnreadableImage, decode, image_limits
from hypersphere.data.image_limits import MAX_PIXELS, check_scans, reserved
from tests.data.mutator import mutations, outcome
from tests.data.samples import picture, saved

KINDS = {
    "jpeg": saved(picture(1, 40, 30)),
    "progressive": saved(picture(1, 40, 30), progressive=True),
    "png": saved(picture(1, 40, 30), "PNG"),
    "png alpha": saved(Image.fromarray(picture(1, 40, 30)).convert("RGBA"), "PNG"),
    "webp": saved(picture(1, 40, 30), "WEBP"),
    "webp alpha": saved(Image.fromarray(picture(1, 40, 30)).convert("RGBA"), "WEBP", exact=True),
    "webp lossless": saved(picture(1, 40, 30), "WEBP", lossless=True),
    "gif": saved(picture(1, 40, 30), "GIF"),
    "bmp": saved(picture(1, 40, 30), "BMP"),
    "tiff": saved(picture(1, 40, 30), "TIFF", compression="tiff_lzw"),
    "ppm": saved(picture(1, 40, 30), "PPM"),
}


def with_scans(count: int, side: int = 64, *, empty: bool = False) -> bytes:
    """A progressive JPEG whose last scan is repeated, with its content or without."""
    whole = saved(picture(0, side, side), progressive=True)
    start = whole.rindex(b"\xff\xda")
    scan = whole[start:-2]
    if empty:
        scan = scan[: 2 + int.from_bytes(scan[2:4], "big")]
    return whole[:start] + scan * (count - whole.count(b"\xff\xda") + 1) + b"\xff\xd9"


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("decoder", ["pillow", ""])
def test_a_jpeg_of_too_many_scans_is_refused(monkeypatch: pytest.MonkeyPatch, empty: bool, decoder: str) -> None:
    monkeypatch.setenv("HYPERSPHERE_DECODER", decoder)
    with pytest.raises(UnreadableImage, match=r"^face\.jpg: 50,000 scans of 4,096 pixels, more than the 16,384 scans"):
        decode(with_scans(50_000, empty=empty), "face.jpg")
    monkeypatch.setattr(image_limits, "MAX_SCANNED_PIXELS", 20 * 300 * 300)
    assert decode(with_scans(20, 300, empty=empty)).shape == (300, 300, 3)
    with pytest.raises(UnreadableImage, match="21 scans of 90,000 pixels, more than the 20 scans"):
        decode(with_scans(21, 300, empty=empty))


def test_one_scan_of_the_largest_image_is_allowed() -> None:
    assert check_scans(saved(picture(0, 64, 64)), MAX_PIXELS) == 1
    with pytest.raises(ValueError, match="17 scans of 67,108,864 pixels, more than the 16 scans"):
        check_scans(with_scans(17), MAX_PIXELS)


def test_thumbnails_and_what_follows_an_image_are_no_scans() -> None:
    plain = saved(picture(0, 64, 64))
    comment = b"\xff\xfe" + struct.pack(">H", 60_002) + b"\xff\xda" * 30_000
    for data in (plain[:2] + comment + plain[2:], plain + b"\xff\xda" * 30_000, plain[:2] + comment * 20 + plain[2:]):
        assert check_scans(data, MAX_PIXELS) == 1
        np.testing.assert_array_equal(decode(data), decode(plain))


def webp(kind: str, width: int, height: int) -> bytes:
    """A WebP that states its size and has no pixels."""
    if kind == "VP8X":
        body = bytes([0x10, 0, 0, 0]) + struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    elif kind == "VP8L":
        body = b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14 | 1 << 28) + bytes(8)
    else:
        body = b"\x10\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height) + bytes(8)
    chunk = kind.encode() + struct.pack("<I", len(body)) + body + bytes(len(body) % 2)
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk


@pytest.mark.parametrize("kind", ["VP8X", "VP8L", "VP8 "])
@pytest.mark.parametrize(("side", "message"), [(16383, "pixels, more than the 67,108,864"), (7800, "bytes, more than")])
def test_a_webp_is_judged_before_it_is_opened(
    monkeypatch: pytest.MonkeyPatch, kind: str, side: int, message: str
) -> None:
    monkeypatch.setattr("hypersphere.data.images._plugin", lambda _: pytest.fail)
    with pytest.raises(UnreadableImage, match=rf"^x: {side}x{side} .*{message}"):
        decode(webp(kind, side, side), "x")


def tiled(side: int) -> bytes:
    """A TIFF of 16 x 16 grey pixels in one tile of `side` x `side`, which libtiff unpacks whole."""
    packed = zlib.compress(bytes(256))
    tags = {256: 16, 257: 16, 258: 8, 259: 8, 262: 1, 277: 1, 322: side, 323: side, 324: 8, 325: len(packed)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    start = 8 + len(packed) + len(packed) % 2
    head = (b"II*\0" + struct.pack("<I", start) + packed).ljust(start, b"\0")
    return head + struct.pack("<H", len(tags)) + entries + bytes(4)


def test_a_tile_counts_as_the_pixels_that_it_states() -> None:
    assert decode(tiled(16)).shape == (16, 16, 3)
    with pytest.raises(UnreadableImage, match="^x: 40000x40000 pixels take about 16,000,000,000 bytes, more than"):
        decode(tiled(40_000), "x")


def bombs() -> dict[str, bytes]:
    """Small files that state much."""
    side = 5000
    png = bytearray(saved(Image.new("L", (8, 8)), "PNG"))
    struct.pack_into(">II", png, 16, side, side)
    bmp = bytearray(KINDS["bmp"])
    struct.pack_into("<ii", bmp, 18, side, side)
    gif = bytearray(KINDS["gif"])
    struct.pack_into("<HH", gif, 6, 65535, 65535)
    return {
        "bmp": bytes(bmp),
        "gif": bytes(gif),
        "png": bytes(png),
        "ppm": b"P6 60000 60000 255\n" + bytes(100),
        "plain ppm": b"P3 5000 5000 255\n" + b"1 " * 100,
        "tiff": tiled(40_000),
        "webp": webp("VP8X", 16383, 16383),
        "webp lossless": webp("VP8L", 16383, 3000),
        "scans": with_scans(5_000, 512),
    }


def test_bombs_take_neither_memory_nor_time(tmp_path: Path) -> None:
    """In a process with 16 threads, all at once: each is refused or read, and the memory stays small."""
    for folder, files in (("bombs", bombs()), ("small", KINDS)):
        (tmp_path / folder).mkdir()
        for name, data in files.items():
            (tmp_path / folder / name).write_bytes(data)
    program = """
        import resource, sys
        from concurrent.futures import ThreadPoolExecutor
        from pathlib import Path
        from hypersphere.data import UnreadableImage, decode

        def read(path):
            try:
                decode(path.read_bytes(), path.name)
            except UnreadableImage as error:
                return str(error)
            return f"{path.name}: read"

        for kind in Path(sys.argv[2]).iterdir():
            read(kind)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with ThreadPoolExecutor(16) as pool:
            for line in pool.map(read, sorted(Path(sys.argv[1]).iterdir()) * 4):
                print(line)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(program), str(tmp_path / "bombs"), str(tmp_path / "small")],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    *lines, kilobytes = done.stdout.splitlines()
    assert len(lines) == 4 * len(bombs())
    assert all(line.split(":")[0] in bombs() for line in lines)
    refused = {line.split(":")[0] for line in lines if not line.endswith(": read")}
    assert refused == set(bombs())
    assert int(kilobytes) < 2**20


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_refused_by_name_or_gives_an_image(kind: str) -> None:
    right = decode(KINDS[kind])
    for damaged in mutations(KINDS[kind], 250, seed=9):
        image, message = outcome(lambda damaged=damaged: decode(damaged, "face"))  # type: ignore[misc]
        if image is None:
            assert message.startswith("face: ")
            assert len(message) > len("face: ")
        elif kind.startswith("png"):
            np.testing.assert_array_equal(image, right)


def test_every_flipped_bit_of_a_png_is_noticed() -> None:
    whole = saved(picture(3, 8, 8), "PNG")
    for place in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        with pytest.raises(UnreadableImage, match="face: "):
            decode(bytes(damaged), "face")
    for end in range(len(whole)):
        with pytest.raises(UnreadableImage, match="face: "):
            decode(whole[:end], "face")


def test_threads_share_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_limits, "SHARED_MEMORY", 2**26)
    lock, now, most = threading.Lock(), 0, 0

    def work(cost: int) -> None:
        nonlocal now, most
        for _ in range(20):
            with reserved(cost):
                with lock:
                    now += cost
                    most = max(most, now)
                time.sleep(0.0005)
                with lock:
                    now -= cost

    threads = [threading.Thread(target=work, args=(cost,)) for cost in [2**24] * 4 + [2**25] * 3 + [2**26, 2**27]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 2**25 < most <= 2**27, "one that needs more than all of it goes alone"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_does_not_wait_for_threads_that_it_has_not() -> None:
    with reserved(image_limits.SHARED_MEMORY):
        child = os.fork()
        if child == 0:
            with reserved(image_limits.SHARED_MEMORY):
                os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
