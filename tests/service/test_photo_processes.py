"""Photos that never end, a service that is killed, and what a hundred requests take: the work has an end."""

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from hypersphere.data import encode
from hypersphere.recognition.photo import read_reduced_photo
from tests.recognition.drawn import drawn_photo
from tests.service.photos import huge, painted
from tests.service.served import ROOT, Served, most_memory, service
from tests.service.test_api import enroll, verify
from tests.service.test_server import ask, form

TOKEN = "a token of many characters"
MOST_MEBIBYTES = 1430  # 1.5 GB
ENDLESS = """
    import sys, time
    sys.path[:0] = [sys.argv[1]]
    import numpy as np
    from hypersphere.recognition import Portrait
    from hypersphere.service.photo_processes import Nursery
    from tests.service.photos import painted, noise

    class Recognizer:
        "Works for ever at the second photo."
        def portrait(self, pixels):
            while pixels.shape[1] == 113:
                pass
            return Portrait("photo", pixels, None, pixels, np.ones(4, np.float32))

    nursery = Nursery(Recognizer(), 0.5)
    worker = nursery.worker()
    (face,) = worker.look([painted(0)], 60)
    print(face.width, face.height, face.face, face.crop.shape, face.unit.tolist())
    try:
        worker.look([painted(0), noise(width=113)], 60)
    except (EOFError, OSError):
        print("ended")
    (face,) = nursery.worker().look([painted(0)], 60)
    print(face.crop.shape)
    nursery.close()
"""


def test_a_photo_that_never_ends_is_ended() -> None:
    words = [sys.executable, "-c", dedent(ENDLESS), str(ROOT)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert done.stdout.splitlines() == ["112 112 None (112, 112, 3) [1.0, 1.0, 1.0, 1.0]", "ended", "(112, 112, 3)"], (
        done.stderr
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with service(tmp_path_factory.mktemp("served"), "--workers", "2", "--rate", "0", HYPERSPHERE_TOKEN=TOKEN) as served:
        yield served


def tiled(pixels: int = 6000) -> bytes:
    """A large photo of nothing but faces, as JPEG."""
    face = np.asarray(Image.fromarray(drawn_photo()[30:170, 30:170]).resize((120, 120)))
    count = pixels // 120
    photo = np.tile(face, (count, count, 1)).astype(np.int16)
    photo += np.random.default_rng(0).integers(-9, 10, photo.shape[:2], dtype=np.int16)[:, :, None]
    stream = io.BytesIO()
    Image.fromarray(photo.clip(0, 255).astype(np.uint8)).save(stream, "JPEG", quality=75)
    return stream.getvalue()


def processor_seconds(served: Served) -> float:
    ticks = 0
    for pid in served.processes():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def test_a_photo_tiled_with_faces_has_an_end(served: Served) -> None:
    photo = tiled()
    assert 3_000_000 < len(photo) < 10_000_000
    before = processor_seconds(served)
    status, text = ask(served.port, "POST", "/v1/identify", *form(photo=photo))
    assert (status, json.loads(text)["error"]) == (422, "face_count")
    assert json.loads(text)["faces"] > 1000
    assert processor_seconds(served) - before < 20


def test_pixels_of_a_request_are_bounded(client: TestClient) -> None:
    answer = enroll(client, "Ada", *[huge(8000, 5000)] * 3)
    assert (answer.status_code, answer.json()["error"]) == (413, "photo_too_large")
    assert "120,000,000 pixels in all" in answer.json()["message"]


def test_faces_of_a_reduced_photo_are_where_they_are_in_the_photo(client: TestClient) -> None:
    large = encode(np.repeat(np.repeat(np.asarray(Image.open(io.BytesIO(painted(0)))), 20, 0), 20, 1))
    pixels, factor = read_reduced_photo(large, 2**22)
    assert (pixels.shape, factor) == ((1120, 1120, 3), 2)
    (told, _) = verify(client, large, painted(0)).json()["photos"]
    assert (told["width"], told["height"]) == (2240, 2240)
    assert told["box"] == [20.5, 24.5, 200.5, 220.5]  # the fake detector's box, in pixels of the reduced photo


def test_nothing_outlives_a_killed_service(tmp_path: Path) -> None:
    """No process keeps the port, and none works on."""
    with service(tmp_path, "--workers", "2", HYPERSPHERE_TOKEN=TOKEN) as served:
        assert ask(served.port, "POST", "/v1/verify", *form(first=encode(drawn_photo()), second=painted(0)))[0] == 422
        others = served.processes()[1:]
        assert len(others) >= 2
        assert ask(served.port, "GET", "/readyz")[0] == 200
        served.kill()
        end = time.monotonic() + 60
        while any(Path(f"/proc/{pid}").exists() for pid in others):
            assert time.monotonic() < end, "processes of a killed service go on"
            time.sleep(0.05)
        socket.create_server(("127.0.0.1", served.port)).close()


def test_without_the_nursery_it_is_not_ready(tmp_path: Path) -> None:
    with service(tmp_path, "--workers", "1", HYPERSPHERE_TOKEN=TOKEN) as served:
        os.kill(served.processes()[1], signal.SIGKILL)
        while ask(served.port, "GET", "/readyz")[0] == 200:
            pass
        status, text = ask(served.port, "POST", "/v1/identify", *form(photo=painted(0)))
        assert (status, json.loads(text)["error"]) == (503, "no_worker")
        assert ask(served.port, "GET", "/healthz")[0] == 200


def test_no_environment_has_the_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    with service(tmp_path, "--workers", "2", "--token-file", "token") as served:
        assert ask(served.port, "GET", "/v1/gallery")[0] == 200
        for pid in served.processes():
            assert TOKEN.encode() not in Path(f"/proc/{pid}/environ").read_bytes()


def flat(width: int, height: int, mode: str = "RGBA") -> bytes:
    """A small PNG of many pixels that must be decoded in whole."""
    stream = io.BytesIO()
    Image.new(mode, (width, height), 7).save(stream, "PNG")
    return stream.getvalue()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_hundred_requests_of_any_kind_stay_below_1500_megabytes(served: Served) -> None:
    """At once: large photos of the kinds that take most, ten in a request, bodies of 10 MB that arrive in part."""
    photo, padding = encode(drawn_photo()), os.urandom(9_000_000)
    kinds = [
        form(photo=flat(8000, 5000)),
        form(photo=flat(8000, 5000, "I;16")),
        form(photo=tiled()),
        form(photo=photo, padding=padding),
        form(photo=photo),
    ]
    partial = (
        b"POST /v1/identify HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\nContent-Length: "
        b"9999999\r\nContent-Type: multipart/form-data; boundary=x\r\n\r\n" + padding
    )
    statuses: list[int] = []

    def send(number: int) -> None:
        if number % 6 == 5:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", served.port)) as client:
                client.sendall(partial)
                client.settimeout(5)
                client.recv(1000)
            return
        with contextlib.suppress(OSError):
            statuses.append(ask(served.port, "POST", "/v1/identify", *kinds[number % 6])[0])

    with most_memory(served) as most, ThreadPoolExecutor(50) as pool:
        list(pool.map(send, range(100)))
    assert most[-1] < MOST_MEBIBYTES
    assert set(statuses) == {200, 422, 503}
    assert ask(served.port, "GET", "/v1/gallery")[0] == 200
