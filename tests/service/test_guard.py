"""Who may ask, how often and how much: token, origin, rate, lock-out, size."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from hypersphere.recognition import Recognizer
from hypersphere.service import ServiceSettings
from hypersphere.service.guard import HEADERS
from hypersphere.service.problems import Refusal
from hypersphere.service.service_state import ServiceState, client_of
from hypersphere.service.work import Work
from tests.service.conftest import Service
from tests.service.photos import huge, noise, painted
from tests.service.test_api import enroll, identify, verify

TOKEN = "a token of many characters"


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::", "example.org", ""])
def test_beyond_this_machine_a_token_is_needed(host: str) -> None:
    with pytest.raises(ValueError, match="a token is needed: set HYPERSPHERE_TOKEN"):
        ServiceSettings(host=host)
    assert ServiceSettings(host=host, token=TOKEN).host == host


def test_this_machine_needs_none() -> None:
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        assert ServiceSettings(host=host).token == ""
    with pytest.raises(ValueError, match="at least 16 printable ASCII characters"):
        ServiceSettings(token="short")
    assert TOKEN not in repr(ServiceSettings(token=TOKEN))


def test_no_token_and_a_wrong_one(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[str, str]] = []
    compare = hmac.compare_digest

    def counted(a: str, b: str) -> bool:
        compared.append((a, b))
        return compare(a, b)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    client = service(token=TOKEN)
    routes = ["/v1/subjects", "/v1/gallery", "/v1/report", "/v1/projection", "/metrics", "/v1/nothing"]
    for route in routes:
        answer = client.get(route)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), route
        assert client.get(route, headers={"Authorization": "Basic x"}).status_code == 401
        assert client.get(route, headers={"Authorization": f"Bearer {TOKEN}x"}).status_code == 403
    assert len(compared) == 2 * len(routes), "every token is compared in constant time, and a former one"
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert [client.get(route, headers=right).status_code for route in routes] == [200] * 5 + [404]
    for post in ("/v1/verify", "/v1/enroll", "/v1/identify"):
        assert client.post(post).status_code == 401
    assert client.delete("/v1/subjects/Ada").status_code == 401
    assert [client.get(route).status_code for route in ("/healthz", "/", "/openapi.json")] == [200] * 3


def test_pages_of_other_sites_cannot_ask(client: TestClient) -> None:
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9"},
        {"Host": "evil.example"},
        {"Host": "evil.example:8000", "Origin": "http://evil.example:8000"},
    ):
        answer = client.post("/v1/identify", files={"photo": painted(0)}, headers=headers)
        assert answer.status_code == 403, headers
    for headers in ({"Origin": "http://127.0.0.1:8000"}, {"Host": "localhost:8000"}, {"Host": "[::1]:8000"}):
        assert client.get("/v1/gallery", headers=headers).status_code == 200, headers


def test_with_a_token_any_name_of_the_service_will_do(service: Service) -> None:
    right = {"Authorization": f"Bearer {TOKEN}", "Host": "faces.example"}
    assert service(token=TOKEN).get("/v1/gallery", headers=right).status_code == 200


def test_every_answer_has_the_headers(client: TestClient) -> None:
    for answer in (client.get("/"), client.get("/v1/gallery"), client.get("/nothing"), client.post("/v1/verify")):
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    policy = HEADERS["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_head_is_get_without_its_body(client: TestClient) -> None:
    for path in ("/", "/healthz", "/v1/gallery", "/v1/report", "/metrics", "/openapi.json", "/static/page.js"):
        head, get = client.head(path), client.get(path)
        assert (head.status_code, head.content) == (200, b""), path
        assert head.headers["content-type"] == get.headers["content-type"]
        if path != "/metrics":
            assert head.headers["content-length"] == get.headers["content-length"] == str(len(get.content))
    assert client.head("/v1/verify").status_code == 405
    assert client.head("/nothing").status_code == 404
    assert 'route="/v1/gallery",method="HEAD",status="200"} 1' in client.get("/metrics").text


def test_head_needs_the_token_too(service: Service) -> None:
    client = service(token=TOKEN)
    assert client.head("/v1/gallery").status_code == 401
    assert client.head("/v1/gallery").content == b""


def body_of(size: int, piece: int = 65_536) -> Iterator[bytes]:
    """A form whose one file is so large, in pieces: sent without Content-Length."""
    yield b'--x\r\nContent-Disposition: form-data; name="photo"; filename="p"\r\n\r\n'
    for _ in range(size // piece):
        yield b"\0" * piece
    yield b"\r\n--x--\r\n"


@pytest.mark.parametrize("known", [True, False])
def test_a_body_above_the_limit_is_413(client: TestClient, known: bool) -> None:
    pieces = body_of(11_000_000)
    answer = client.post(
        "/v1/identify",
        content=b"".join(pieces) if known else pieces,
        headers={"Content-Type": "multipart/form-data; boundary=x"},
    )
    assert (answer.status_code, answer.json()["error"]) == (413, "body_too_large")


def status_of(client: TestClient, receive: Callable[[], Awaitable[dict[str, Any]]]) -> int:
    """The status of a form that comes piece by piece."""
    headers = [(b"host", b"127.0.0.1:8000"), (b"content-type", b"multipart/form-data; boundary=x")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/identify",
        "raw_path": b"/v1/identify",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
        "scheme": "http",
        "http_version": "1.1",
        "root_path": "",
        "asgi": {"version": "3.0"},
    }
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(client.app(scope, receive, send))  # type: ignore[arg-type]
    return int(sent[0]["status"])


def test_what_is_left_of_a_large_body_is_not_read(client: TestClient) -> None:
    pieces, taken = body_of(10**9), 0

    async def receive() -> dict[str, Any]:
        nonlocal taken
        piece = next(pieces)
        taken += len(piece)
        return {"type": "http.request", "body": piece, "more_body": True}

    assert status_of(client, receive) == 413
    assert taken <= 10_000_000 + 65_536


def test_a_slow_body_is_408(service: Service) -> None:
    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b"", "more_body": True}

    assert status_of(service(body_seconds=0.05), receive) == 408


def test_too_many_pixels_are_413_by_the_header(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypersphere.recognition.photo.decode", lambda *_: pytest.fail("decoded"))
    for width, height in ((9000, 9000), (17_000, 10), (10, 17_000)):
        answer = identify(client, huge(width, height))
        assert (answer.status_code, answer.json()["error"]) == (413, "photo_too_large")


def test_what_does_not_match_is_counted_by_the_day(service: Service) -> None:
    """A match gives nothing back, and where nothing is left a match is not told either."""
    clock = Clock()
    client = service(state=ServiceState(clock=clock), non_matches=4)
    face, other = painted(0), noise()
    assert enroll(client, "Ada", face).status_code == 201
    for _ in range(2):
        assert verify(client, face, other).status_code == 200
        assert verify(client, face, face).json()["decision"]["match"]
        assert identify(client, other).status_code == 200
    for answer in (verify(client, face, other), verify(client, face, face), identify(client, face)):
        assert (answer.status_code, answer.json()["error"]) == (429, "non_matches")
        assert int(answer.headers["retry-after"]) == 6 * 3600
    assert client.get("/v1/gallery").status_code == 200
    clock.now += 6 * 3600 + 1
    assert [verify(client, face, other).status_code for _ in range(2)] == [200, 429]
    clock.now += 3 * 24 * 3600
    assert [verify(client, face, other).status_code for _ in range(5)] == [200] * 4 + [429]


def test_many_at_once_get_no_more_answers_than_one_after_another() -> None:
    state = ServiceState(clock=Clock())
    assert [state.left("a", 5) for _ in range(8)] == [0] * 8
    assert [state.judged("a", False, 5) > 0 for _ in range(8)] == [False] * 5 + [True] * 3
    assert state.judged("a", True, 5) > 0
    assert state.left("b", 5) == 0


def test_what_was_used_survives_a_restart_and_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, clock = str(tmp_path / "used.json"), Clock()
    state = ServiceState(path, clock)
    assert [state.judged("a", False, 3) for _ in range(3)] == [0] * 3
    state.save()
    assert ServiceState(path, clock).left("a", 3) == state.left("a", 3) == 8 * 3600
    with monkeypatch.context() as full:
        full.setattr("hypersphere.service.service_state.write_atomically", disk_is_full)
        state.save()
    clock.now += 24 * 3600
    assert ServiceState(path, clock).left("a", 3) == 0
    Path(path).write_text("[1]")
    with pytest.raises(ValueError, match=r"used\.json: not what a service remembers"):
        ServiceState(path)


def disk_is_full(*_: Any) -> None:
    raise OSError(28, "No space left on device")


def test_clients_that_came_once_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypersphere.service.service_state._MANY", 10)
    clock = Clock()
    state = ServiceState(clock=clock)
    for number in range(200):
        clock.now += 1
        assert state.take(str(number), rate=1, burst=3) == 0
    assert len(state._full) <= 11


def test_the_rate_of_a_client(service: Service) -> None:
    clock = Clock()
    client = service(state=ServiceState(clock=clock), rate=2, burst=3)
    assert [client.get("/v1/report").status_code for _ in range(4)] == [200, 200, 200, 429]
    refused = client.get("/v1/report")
    assert (refused.json()["error"], refused.headers["retry-after"]) == ("rate", "1")
    assert client.get("/healthz").status_code == 200
    clock.now += 0.5
    assert [client.get("/v1/report").status_code for _ in range(2)] == [200, 429]
    clock.now += 100
    assert [client.get("/v1/report").status_code for _ in range(4)] == [200, 200, 200, 429]


def test_a_client_has_a_whole_network_of_ipv6() -> None:
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff:1") == "2001:db8::/64"
    assert client_of("2001:db8:0:1::1") != client_of("2001:db8::1")
    assert client_of("::ffff:192.0.2.1") == client_of("192.0.2.1") == "192.0.2.1"
    assert client_of("unknown") == "unknown"


def test_too_many_waiting_requests_are_told_so(recognizer: Recognizer) -> None:
    work = Work(recognizer, ServiceSettings(workers=1, waiting=1))

    async def third() -> None:
        async with work.admitted(), work.admitted(), work.admitted():
            pytest.fail("a third request was admitted")

    with pytest.raises(Refusal, match="too many requests wait") as refusal:
        asyncio.run(third())
    assert refusal.value.status == 503
