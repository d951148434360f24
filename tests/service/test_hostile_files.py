"""Files that are no photos: always an answer of the 4xx kind, and the service goes on."""

import random
import struct
import zlib

import pytest
from fastapi.testclient import TestClient

from hypersphere.data import encode
from tests.data.samples import picture
from tests.service.photos import painted
from tests.service.test_api import identify, verify


def hostile(number: int) -> bytes:
    """A file that cannot be read, of one of eight kinds, drawn by its number."""
    rng = random.Random(number)
    jpeg, png = encode(picture(1, 48, 48), 90), painted(0)
    kinds = (
        lambda: b"",
        lambda: rng.randbytes(rng.randrange(1, 5000)),
        lambda: jpeg[: rng.randrange(1, len(jpeg) // 2)],
        lambda: png[: rng.randrange(1, len(png) - 20)],
        lambda: b"%PDF-1.7\n" + rng.randbytes(50) + jpeg,
        lambda: b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>" + rng.randbytes(9),
        lambda: png[:8] + _chunk(b"IHDR", struct.pack(">IIBBBBB", rng.getrandbits(31), 2**31 - 1, 8, 2, 0, 0, 0)),
        lambda: png[:40] + rng.randbytes(40) + png[80:],
    )
    return kinds[number % len(kinds)]()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def ask(client: TestClient, numbers: range) -> None:
    for number in numbers:
        file = hostile(number)
        answer = identify(client, file) if number % 3 else verify(client, painted(0), file)
        assert 400 <= answer.status_code < 500, (number, answer.text)
        assert answer.json()["error"] in ("unreadable_photo", "photo_too_large", "invalid"), number
    assert client.get("/healthz").status_code == 200


def test_sixty_hostile_files(client: TestClient) -> None:
    ask(client, range(60))


@pytest.mark.slow
def test_a_thousand_hostile_files(client: TestClient) -> None:
    ask(client, range(1000))
