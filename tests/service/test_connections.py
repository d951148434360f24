"""Connections that do nothing, begin and do not go on, or say two things: the service closes them and serves others."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypersphere.service.connections import Connections, most_connections
from tests.service.served import Served, connect, service, told
from tests.service.test_server import ask

TOKEN = "a token of many characters"
HEAD = b"Host: x\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n"
FORM = b"Content-Type: multipart/form-data; boundary=x\r\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with service(folder, "--workers", "1", HYPERSPHERE_TOKEN=TOKEN) as served:
        yield served


def test_what_does_not_go_on_is_closed(served: Served) -> None:
    """Nothing sent, half a head, a second head that never ends: each is told 408 within the time for heads."""
    with contextlib.ExitStack() as stack:
        silent, half, second = (stack.enter_context(connect(served.port, "127.0.0.3")) for _ in range(3))
        half.sendall(b"GET /healthz HTTP/1.1\r\nHost")
        second.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert second.recv(65_536).startswith(b"HTTP/1.1 200")
        second.sendall(b"GET /healthz HTTP/1.1\r\nHost")
        for client in (silent, half, second):
            assert told(client).endswith(
                b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )


def test_one_address_has_a_share_of_the_connections(served: Served) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(served.port, "127.0.0.4")) for _ in range(80)]
        refused = [told(client) for client in clients[64:]]
        assert {answer[:34] for answer in refused} <= {b"HTTP/1.1 503 Service Unavailable\r\n", b""}
        assert ask(served.port, "GET", "/v1/gallery")[0] == 200


@pytest.mark.parametrize("files", [900])
def test_a_thousand_idle_connections_take_nothing_down(tmp_path: Path, files: int) -> None:
    """More than the process may open files, from 20 addresses; they took a service down before."""
    with (
        service(tmp_path, "--workers", "1", files=files, HYPERSPHERE_TOKEN=TOKEN) as served,
        contextlib.ExitStack() as stack,
    ):
        for number in range(1100):
            stack.enter_context(connect(served.port, f"127.0.1.{number % 20}"))
        while ask(served.port, "GET", "/healthz")[0] != 200:  # the first ones are closed when they said nothing
            pass
    assert sum(map(len, served.lines)) < 1_000_000


def test_an_answer_before_the_body_closes(served: Served) -> None:
    for head, status in (
        (b"POST /v1/identify HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", b"401"),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", b"200"),
        (b"POST /nothing HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", b"404"),
        (b"POST /v1/identify HTTP/1.1\r\n" + HEAD + b"Content-Length: 99999999\r\n\r\n", b"413"),
    ):
        with connect(served.port) as client:
            client.sendall(head)
            answer = told(client)
        assert answer.startswith(b"HTTP/1.1 " + status), answer
        assert b"\r\nconnection: close\r\n" in answer.lower()


def test_two_lengths_are_refused(served: Served) -> None:
    """What a proxy before us takes for one request, we could take for two."""
    both = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with connect(served.port) as client:
        client.sendall(b"POST /v1/identify HTTP/1.1\r\n" + HEAD + FORM + both)
        answer = told(client)
    assert answer.startswith(b"HTTP/1.1 400")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"] == "length"


def test_no_http_is_400_and_a_line_of_json(tmp_path: Path) -> None:
    with service(tmp_path, "--workers", "1", HYPERSPHERE_TOKEN=TOKEN) as served, connect(served.port) as client:
        client.sendall(b"\x16\x03\x01 no HTTP at all\r\n\r\n")
        assert told(client).startswith(b"HTTP/1.1 400")
    assert any(json.loads(line).get("message") == "Invalid HTTP request received." for line in served.lines)


def test_a_proxy_may_have_all_connections() -> None:
    connections = Connections(most=5, most_of_address=2, proxy="10.0.0.1")
    assert [connections.take("10.0.0.1") for _ in range(4)] == [True] * 4
    assert connections.take("10.0.0.2")
    assert not connections.take("10.0.0.3")
    connections.give_back("10.0.0.2")
    assert connections.total() == 4
    assert connections.take("10.0.0.3")


def test_fewer_connections_than_files(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    limits = {"now": (1024, 1024)}
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: limits.update(now=both))
    assert most_connections(5000) == 1024 - 128 - 64
    limits["now"] = (256, 4096)
    assert most_connections(512) == 512
    assert limits["now"][0] == 512 + 128 + 64
    limits["now"] = (64, 64)
    with pytest.raises(ValueError, match="may open 64 files only"):
        most_connections(512)
