"""Faults and abuse as the service answers them: models, landmarks and photos that are none, tokens of others."""

import io
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from PIL import Image

from hypersphere.recognition import Face, Recognizer
from hypersphere.service import ServiceSettings
from tests.limits import cost_of
from tests.recognition.test_photo import png_header
from tests.service.conftest import Service
from tests.service.photos import POINTS, ByWidth, painted
from tests.service.test_api import enroll, identify, verify

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_embedding_that_is_not_finite_is_422(
    client: TestClient, recognizer: Recognizer, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    monkeypatch.setattr(type(recognizer.model), "raw", lambda _, images: torch.full((len(images), 128), value))
    for answer in (
        enroll(client, "Ada", painted(2)),
        identify(client, painted(2)),
        verify(client, painted(2), painted(2)),
    ):
        assert (answer.status_code, answer.json()["error"]) == (422, "invalid")
        assert "not finite" in answer.json()["message"]
    assert client.get("/v1/gallery").json()["size"] == 0


@pytest.mark.parametrize(
    "points", [np.outer(np.arange(5) * 8 + 5, [1, 1]), POINTS * np.nan, POINTS + 1000, np.full((5, 2), 20.0)]
)
def test_landmarks_of_no_face_are_422(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, points: np.ndarray[Any, Any]
) -> None:
    face = Face((10.0, 12.0, 100.0, 110.0), 0.99, points.astype(np.float32))
    monkeypatch.setattr(ByWidth, "__call__", lambda _, images: [[face] for _ in images])
    for answer in (enroll(client, "Ada", painted(2)), identify(client, painted(2))):
        assert (answer.status_code, answer.json()["error"]) == (422, "landmarks")
    assert client.get("/v1/gallery").json()["size"] == 0


def small(kind: str, **options: Any) -> bytearray:
    stream = io.BytesIO()
    Image.new("RGB", (8, 8)).save(stream, kind, **options)
    return bytearray(stream.getvalue())


def stated(kind: str, width: int, height: int) -> bytes:
    """A small file whose header states a size."""
    if kind == "PNG":
        return png_header(width, height)
    if kind == "PPM":
        return f"P6 {width} {height} 255\n".encode() + bytes(100)
    data = small(kind)
    if kind == "TIFF":
        directory = struct.unpack_from("<I", data, 4)[0]
        for place in range(directory + 2, len(data) - 12, 12):
            tag = struct.unpack_from("<H", data, place)[0]
            if tag in (256, 257):
                struct.pack_into("<HII", data, place + 2, 4, 1, width if tag == 256 else height)
        return bytes(data)
    places = {"JPEG": (data.find(b"\xff\xc0") + 5, ">HH", (height, width)), "GIF": (6, "<HH", (width, height)),
              "BMP": (18, "<ii", (width, height)), "WEBP": (26, "<HH", (width, height))}  # fmt: skip
    place, form, sizes = places[kind]
    struct.pack_into(form, data, place, *sizes)
    return bytes(data)


def test_too_many_pixels_cost_next_to_nothing(client: TestClient) -> None:
    """413 within 50 ms of the processor and 50 MB, for every kind of file, from the request to the answer."""
    kinds = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "PPM", "WEBP")
    files = [(kind, stated(kind, 8000, 5001)) for kind in kinds]
    files += [(kind, stated(kind, 16_385, 16)) for kind in kinds if kind != "WEBP"]  # whose sides end at 16,383
    again = TestClient(client.app, base_url="http://127.0.0.1:8000")

    def asked(file: bytes) -> Callable[[], None]:
        def ask() -> None:
            answer = identify(again, file)
            assert (answer.status_code, answer.json()["error"]) == (413, "photo_too_large"), answer.text

        return ask

    for (kind, _), cost in zip(files, cost_of(*(asked(file) for _, file in files)), strict=True):
        assert cost.seconds <= 0.05, kind
        assert cost.mebibytes <= 50, kind


def test_one_service_knows_nothing_of_another(service: Service, starter: Any, tmp_path: Path) -> None:
    """Who has a service of their own has a token and a gallery of their own."""
    tokens = ["the token of the first", "the token of the second"]
    others = [
        Recognizer(starter, detector=ByWidth(), calibration="albums", gallery=str(tmp_path / f"{number}.db"))
        for number in range(2)
    ]
    one, two = (service(recognizer=each, token=token) for each, token in zip(others, tokens, strict=True))
    one.headers["Authorization"] = f"Bearer {tokens[0]}"
    two.headers["Authorization"] = f"Bearer {tokens[1]}"
    assert enroll(one, "Ada", painted(2)).status_code == 201
    assert enroll(two, "Bob", painted(3)).status_code == 201
    assert two.delete("/v1/subjects/Ada").status_code == 404
    assert two.get("/v1/subjects").json()["subjects"] == ["Bob"]
    assert two.get("/v1/subjects", headers={"Authorization": f"Bearer {tokens[0]}"}).status_code == 403
    assert one.get("/v1/subjects").json()["subjects"] == ["Ada"]
    for each in others:
        each.close()


def test_nobody_waits_for_a_gallery_for_two_seconds() -> None:
    assert ServiceSettings().gallery_seconds <= 1.5


ALONE = """
    import fcntl, http.client, json, re, socket, struct, subprocess, sys
    sys.path[:0] = [sys.argv[1]]
    from tests.service.test_server import ask, form, served
    from tests.recognition.drawn import drawn_photo
    from hypersphere.data import encode
    from pathlib import Path

    with socket.socket() as any:
        flags = struct.pack("16sh22x", b"lo", 1)
        fcntl.ioctl(any, 0x8914, flags)  # the loopback of the new network, up
    try:
        socket.create_connection(("192.0.2.1", 80), timeout=1)
        raise SystemExit("the network is not blocked")
    except OSError as error:
        assert "unreachable" in str(error), error
    photo = encode(drawn_photo())
    with served(Path(sys.argv[2])) as port:
        page = ask(port, "GET", "/")[1]
        for name in re.findall(r'(?:src|href)="(/static/[^"]+)"', page):
            assert ask(port, "GET", name)[0] == 200, name
        assert ask(port, "POST", "/v1/enroll", *form(name="Ada", consent="door", photos=photo))[0] == 201
        assert json.loads(ask(port, "POST", "/v1/identify", *form(photo=photo, fpir="0.1"))[1])["match"]
    print("served")
"""


@pytest.mark.slow
def test_it_serves_without_any_network(tmp_path: Path) -> None:
    """In a network of its own, of which only the loopback is up."""
    if subprocess.run(["unshare", "-rn", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no right to unshare the network")
    words = ["unshare", "-rn", sys.executable, "-c", dedent(ALONE), str(ROOT), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout == "served\n", done.stderr
