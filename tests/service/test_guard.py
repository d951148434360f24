"""Who may ask, how often and how much: token, origin, rate, lock-out, size."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from hypersphere.recognition import Recognizer
from hypersphere.service import ServiceSettings
from hypersphere.service.guard import HEADERS
from hypersphere.service.problems import Refusal
from hypersphere.service.shared_state import SharedState, client_of
from hypersphere.service.work import Work
from tests.service.conftest import Service
from tests.service.photos import huge, noise, painted
from tests.service.test_api import identify, verify

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
    compared: list[tuple[bytes, bytes]] = []
    compare = hmac.compare_digest

    def counted(a: bytes, b: bytes) -> bool:
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
    assert len(compared) == len(routes), "every token is compared in constant time"
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


def test_the_sixth_failed_verification_in_a_row_waits(service: Service) -> None:
    clock = Clock()
    client = service(state=SharedState(clock=clock))
    face, other = painted(0), noise()
    assert [verify(client, face, other).status_code for _ in range(5)] == [200] * 5
    sixth = verify(client, face, other)
    assert (sixth.status_code, sixth.json()["error"]) == (429, "locked_out")
    assert int(sixth.headers["retry-after"]) >= 30
    assert verify(client, face, face).status_code == 429, "not even a match is told"
    assert identify(client, face).status_code == 200
    clock.now += 31
    assert verify(client, face, other).status_code == 200
    assert int(verify(client, face, other).headers["retry-after"]) >= 60
    clock.now += 61
    assert verify(client, face, face).json()["decision"]["match"]
    assert [verify(client, face, other).status_code for _ in range(5)] == [200] * 5


def test_many_at_once_get_no_more_answers_than_one_after_another() -> None:
    state = SharedState(clock=Clock())
    assert [state.locked("a") for _ in range(8)] == [0] * 8
    waits = [state.judged("a", False, failures=5, seconds=30) for _ in range(8)]
    assert [wait > 0 for wait in waits] == [False] * 5 + [True] * 3
    assert state.judged("a", True, failures=5, seconds=30) > 0
    assert state.locked("b") == 0


def test_waits_are_doubled_up_to_an_hour() -> None:
    clock = Clock()
    state, waits = SharedState(clock=clock), []
    for _ in range(16):
        state.judged("a", False, failures=5, seconds=30)
        waits.append(state.locked("a"))
        clock.now += waits[-1]
    assert waits[:7] == [0, 0, 0, 0, 30, 60, 120]
    assert waits[-1] == 3600


def test_the_rate_of_a_client(service: Service) -> None:
    clock = Clock()
    client = service(state=SharedState(clock=clock), rate=2, burst=3)
    assert [client.get("/v1/report").status_code for _ in range(4)] == [200, 200, 200, 429]
    refused = client.get("/v1/report")
    assert (refused.json()["error"], refused.headers["retry-after"]) == ("rate", "1")
    assert client.get("/healthz").status_code == 200
    clock.now += 0.5
    assert [client.get("/v1/report").status_code for _ in range(2)] == [200, 429]
    clock.now += 100
    assert [client.get("/v1/report").status_code for _ in range(4)] == [200, 200, 200, 429]


def test_processes_share_counts(tmp_path: Any) -> None:
    one, two = (SharedState(str(tmp_path / "state.db")) for _ in range(2))
    for state in (one, two, one):
        state.judged("a", False, failures=3, seconds=30)
        state.count({("x", ""): 2})
    assert two.locked("a") > 29
    assert two.counts() == {("x", ""): 6}
    one.close()
    two.close()


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
