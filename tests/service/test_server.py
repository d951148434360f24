"""The service as a process that listens: its command, slow clients, bodies without end."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypersphere.cli import main
from hypersphere.data import encode
from hypersphere.recognition import Recognizer
from hypersphere.service import ServiceSettings
from hypersphere.service.server import _listen, warm_gallery
from tests.recognition.drawn import drawn_photo
from tests.service.photos import painted
from tests.service.served import connect

ROOT = Path(__file__).parents[2]
TOKEN = "a token of many characters"


@contextlib.contextmanager
def served(folder: Path, *options: str) -> Iterator[int]:
    """A service of the command, with MTCNN and a token of a file: its port."""
    (folder / "token").write_text(f"{TOKEN}\n")
    words = ["serve", "--gallery", "people.db", "--port", "0", "--token-file", "token", "--rate", "0", "-q", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "hypersphere", *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.endswith("/ (needs the token)\n"), process.stderr.read() if process.stderr else line
        yield int(line.split("/ ")[0].rpartition(":")[2])
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        assert {"request", "purge"} <= {each["event"] for each in events}
        assert "Traceback" not in said
        assert TOKEN not in said


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with served(tmp_path_factory.mktemp("served")) as port:
        yield port


def ask(port: int, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> tuple[int, str]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request(method, path, body, {"Authorization": f"Bearer {TOKEN}", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def form(**values: bytes | str) -> tuple[bytes, dict[str, str]]:
    """The body of a form and its headers: photos are bytes, fields text."""
    parts = [
        b'--x\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
        % (name.encode(), *((b"", value.encode()) if isinstance(value, str) else (b'; filename="p"', value)))
        for name, value in values.items()
    ]
    return b"".join(parts) + b"--x--\r\n", {"Content-Type": "multipart/form-data; boundary=x"}


def test_the_command_serves_drawn_faces(port: int) -> None:
    one, none = encode(drawn_photo()), encode(drawn_photo(faces=()))
    status, text = ask(port, "POST", "/v1/verify", *form(first=one, second=one))
    assert status == 200
    assert json.loads(text)["decision"]["match"]
    status, text = ask(port, "POST", "/v1/verify", *form(first=one, second=none))
    assert (status, json.loads(text)["faces"]) == (422, 0)
    assert ask(port, "GET", "/v1/gallery", headers={"Authorization": "Bearer wrong wrong wrong"})[0] == 403
    assert "<title>hypersphere" in ask(port, "GET", "/")[1]


def test_head_sends_no_body(port: int) -> None:
    """What came after it on the connection would be taken for the next answer."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        for method in ("HEAD", "GET", "HEAD", "GET"):
            connection.request(method, "/healthz")
            answer = connection.getresponse()
            assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
            assert bool(answer.read()) == (method == "GET")


def test_two_hundred_slow_clients_keep_nobody_waiting(port: int) -> None:
    begun = b"POST /v1/identify HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n"
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(port, f"127.0.2.{number % 5}")) for number in range(200)]
        for number, client in enumerate(slow):
            half = (
                b"Content-Length: 1000\r\nContent-Type: multipart/form-data; boundary=x\r\n\r\n--x"
                if number % 2
                else b""
            )
            client.sendall(begun + half)
        assert [ask(port, "GET", "/v1/gallery")[0] for _ in range(20)] == [200] * 20
        for client in slow:
            with contextlib.suppress(ConnectionError):
                client.sendall(b"X")
        assert ask(port, "GET", "/healthz")[0] == 200


def test_a_body_without_end_is_cut(port: int) -> None:
    sent = 0
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(
            b"POST /v1/identify HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nAuthorization: Bearer "
            + TOKEN.encode()
            + b"\r\nContent-Type: multipart/form-data; boundary=x\r\n\r\n"
        )
        start = b'--x\r\nContent-Disposition: form-data; name="photo"; filename="p"\r\n\r\n'
        client.sendall(b"%x\r\n%s\r\n" % (len(start), start))
        piece = b"10000\r\n" + b"\0" * 65_536 + b"\r\n"
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while sent < 40_000_000:
                client.sendall(piece)
                sent += 65_536
        assert sent < 40_000_000, "the service goes on reading"
    assert ask(port, "GET", "/healthz")[0] == 200


@pytest.mark.slow
def test_several_processes_are_one_service(tmp_path: Path) -> None:
    """Whichever process answers: one gallery, one row of failures, one count."""
    one, none = encode(drawn_photo()), encode(drawn_photo(faces=()))
    with served(tmp_path, "--workers", "3") as port:
        assert ask(port, "POST", "/v1/enroll", *form(name="Ada", consent="door", photos=one))[0] == 201
        told = [ask(port, "GET", "/v1/subjects") for _ in range(12)]
        assert {json.loads(text)["subjects"][0] for _, text in told} == {"Ada"}
        assert [ask(port, "POST", "/v1/verify", *form(first=one, second=none))[0] for _ in range(7)] == [422] * 7
        counted = ask(port, "GET", "/metrics")[1].splitlines()
    assert 'hypersphere_requests_total{route="/v1/subjects",method="GET",status="200"} 12' in counted
    assert 'hypersphere_requests_total{route="/v1/verify",method="POST",status="422"} 7' in counted


def test_answers_are_sent_at_once() -> None:
    """Without TCP_NODELAY the second packet of an answer waits 40 ms for the first to be acknowledged."""
    with _listen(ServiceSettings(port=0)) as listening, socket.create_connection(listening.getsockname()) as client:
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert client.fileno() > 0


def test_the_gallery_is_in_memory_before_the_first_request(recognizer: Recognizer) -> None:
    recognizer.enroll("Ada", painted(2), consent="door")
    warm_gallery(recognizer)
    assert recognizer.gallery._memory._size == 1  # type: ignore[attr-defined]


def test_the_command_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HYPERSPHERE_TOKEN", raising=False)
    gallery = str(tmp_path / "people.db")
    assert main(["serve", "--host", "0.0.0.0", "--gallery", gallery]) == 2
    assert "a token is needed: set HYPERSPHERE_TOKEN, or give --token-file or --keys" in capsys.readouterr().err
    (tmp_path / "empty").write_text("\n")
    assert main(["serve", "--token-file", str(tmp_path / "empty")]) == 2
    assert "holds no token" in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", "--port", port, "--gallery", gallery]) == 1
    assert f"127.0.0.1:{port}: Address already in use" in capsys.readouterr().err


@pytest.mark.slow
def test_photos_import_nothing_after_warming_up(tmp_path: Path) -> None:
    code = """
import io, sys
from PIL import Image
from hypersphere.service.server import ServeOptions, load_recognizer, warm_up
recognizer = load_recognizer(ServeOptions(gallery="people.db"))
stream = io.BytesIO()
Image.new("RGB", (112, 112), (90, 140, 200)).save(stream, "JPEG")
warm_up(recognizer)
before = set(sys.modules)
recognizer.portraits(stream.getvalue())
recognizer.model(recognizer.crop(__import__("numpy").zeros((112, 112, 3), "uint8"), None)[None])
print(sorted(set(sys.modules) - before))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", code]
    assert subprocess.check_output(words, env=environment, cwd=tmp_path, text=True, timeout=120) == "[]\n"


def test_the_service_decides_by_the_calibration_that_is_named(tmp_path: Path) -> None:
    from hypersphere.recognition import load_calibration
    from hypersphere.service.server import ServeOptions, load_recognizer

    for named, used in (("", "portraits"), ("albums", "albums")):
        options = ServeOptions(gallery=str(tmp_path / "people.db"), detector="", calibration=named)
        with load_recognizer(options) as recognizer:
            assert recognizer.calibration == load_calibration(used)
