"""Files of named models from a server on this machine: cut off, wrong, slow, moved, or not there at all."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hypersphere.models import CatalogueEntry, CatalogueFile, NotFetched, fetch

CONTENT = bytes(range(256)) * 1000


class Server:
    """Serves `CONTENT` as a test wants it, and remembers the ranges it was asked for."""

    def __init__(self) -> None:
        self.ranges: list[str | None] = []
        self.answer: Callable[[BaseHTTPRequestHandler, int], None] = send_whole
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = self.headers.get("Range")
                server.ranges.append(asked)
                server.answer(self, int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_port}"
        self.released = threading.Event()
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()


def send_whole(handler: BaseHTTPRequestHandler, start: int, end: int | None = None, content: bytes = CONTENT) -> None:
    handler.send_response(206 if start else 200)
    if start:
        handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    handler.send_header("Content-Length", str(len(content) - start))
    handler.end_headers()
    handler.wfile.write(content[start:end])


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.released.set()
    running.http.shutdown()
    running.http.server_close()
    running.thread.join()


@pytest.fixture
def entry(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CatalogueEntry:
    monkeypatch.setenv("HYPERSPHERE_HOME", str(tmp_path))
    monkeypatch.delenv("HYPERSPHERE_OFFLINE", raising=False)
    file = CatalogueFile(
        name="net.onnx",
        url=f"{server.address}/net.onnx",
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        bytes=len(CONTENT),
    )
    return CatalogueEntry(
        kind="recognizer",
        about="a test",
        licence="a test",
        use="any",
        data="a test",
        source="a test",
        name="small",
        files=(file,),
    )


def left_in(entry: CatalogueEntry) -> list[str]:
    return sorted(path.name for path in entry.folder.iterdir() if path.name != ".lock")


def test_a_file_is_fetched_once(server: Server, entry: CatalogueEntry) -> None:
    seen: list[tuple[int, int]] = []
    path = fetch(entry, progress=lambda done, total: seen.append((done, total)))
    assert path is not None
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert left_in(entry) == ["net.onnx"]
    assert fetch(entry) == path
    assert server.ranges == [None]


def test_a_connection_that_is_cut_goes_on_where_it_ended(server: Server, entry: CatalogueEntry) -> None:
    server.answer = lambda handler, start: send_whole(handler, start, start + 100_000)
    path = fetch(entry)
    assert path is not None
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=100000-", "bytes=200000-"]


def test_what_came_is_kept_for_the_next_call(server: Server, entry: CatalogueEntry) -> None:
    server.answer = lambda handler, start: send_whole(handler, start, max(start, 100_000))
    with pytest.raises(NotFetched, match=r"ended after 100,000 of 256,000 bytes; 100,000 .* are kept") as e:
        fetch(entry)
    assert f"put it at {entry.folder / 'net.onnx'}" in str(e.value)
    assert left_in(entry) == ["net.onnx.part"]
    server.answer, server.ranges = send_whole, []
    assert fetch(entry) is not None
    assert server.ranges == ["bytes=100000-"]


def test_a_server_without_ranges_sends_all_again(server: Server, entry: CatalogueEntry) -> None:
    entry.folder.mkdir(parents=True)
    (entry.folder / "net.onnx.part").write_bytes(b"x" * 1000)
    server.answer = lambda handler, start: send_whole(handler, 0)
    path = fetch(entry)
    assert path is not None
    assert path.read_bytes() == CONTENT


def test_another_file_is_thrown_away(server: Server, entry: CatalogueEntry) -> None:
    server.answer = lambda handler, start: send_whole(handler, 0, content=CONTENT[::-1])
    with pytest.raises(NotFetched, match=r"gave a file with SHA-256 [0-9a-f]{64}, which is thrown away"):
        fetch(entry)
    assert left_in(entry) == []
    server.answer = lambda handler, start: send_whole(handler, 0, content=CONTENT * 2)
    with pytest.raises(NotFetched, match="sent more than the 256,000 bytes"):
        fetch(entry)
    assert left_in(entry) == []


def test_a_part_that_was_damaged_is_noticed(server: Server, entry: CatalogueEntry) -> None:
    entry.folder.mkdir(parents=True)
    (entry.folder / "net.onnx.part").write_bytes(b"x" * 1000)
    with pytest.raises(NotFetched, match="which is thrown away"):
        fetch(entry)
    assert fetch(entry) is not None, "the next call begins anew"


def test_a_slow_server_is_given_up(server: Server, entry: CatalogueEntry) -> None:
    def stall(handler: BaseHTTPRequestHandler, start: int) -> None:
        send_whole(handler, start, start + 10)
        server.released.wait()

    server.answer = stall
    with pytest.raises(NotFetched, match=r"nothing came for 0\.2 s; .* bytes are kept"):
        fetch(entry, timeout=0.2)


def test_a_file_that_has_moved(server: Server, entry: CatalogueEntry) -> None:
    def moved(handler: BaseHTTPRequestHandler, start: int) -> None:
        if handler.path == "/net.onnx":
            handler.send_response(302)
            handler.send_header("Location", "/elsewhere")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        else:
            send_whole(handler, start)

    server.answer = moved
    assert fetch(entry) is not None


def test_no_network_and_no_file(server: Server, entry: CatalogueEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(handler: BaseHTTPRequestHandler, start: int) -> None:
        handler.send_error(404)

    server.answer = gone
    with pytest.raises(NotFetched, match="the server answered 404 Not Found. By hand: fetch http://127"):
        fetch(entry)
    monkeypatch.setenv("HYPERSPHERE_OFFLINE", "1")
    server.ranges = []
    with pytest.raises(NotFetched, match=r"small: net\.onnx is not here and was not fetched: fetching is switched off"):
        fetch(entry)
    assert server.ranges == []
    (entry.folder / "net.onnx").write_bytes(CONTENT)
    assert fetch(entry) == entry.folder / "net.onnx", "put there by hand"


def test_nobody_listens(server: Server, entry: CatalogueEntry) -> None:
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(NotFetched, match="ConnectionRefusedError"):
        fetch(entry)
    assert left_in(entry) == []


def test_two_at_once(server: Server, entry: CatalogueEntry) -> None:
    from hypersphere.core import Failure, hold_folder

    with hold_folder(entry.folder), pytest.raises(Failure, match="is in use by process"):
        fetch(entry)
