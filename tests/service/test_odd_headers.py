"""Headers that no browser sends: a refusal with a sentence, or an answer as without them, and never a fault."""

import asyncio
import encodings
import json
import pkgutil
from collections.abc import Sequence
from typing import Any

import pytest
from fastapi.testclient import TestClient
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from tests.service.conftest import Service
from tests.service.photos import painted

TOKEN = "a token of many characters"
FORM = b"multipart/form-data; boundary=x"
CODECS = sorted({module.name for module in pkgutil.iter_modules(encodings.__path__)} - {"aliases", "mbcs", "oem"})
ODD = (
    b"",
    b"[",
    b"]",
    b"[::1",
    b"\xff\xfe",
    b"%00",
    b"\xc2\xbd",
    b'"',
    b"a" * 10_000,
    b";",
    b"=",
    b",",
    b"bytes=",
    b"\\",
)


def ask(
    app: Any,
    path: str,
    headers: Sequence[tuple[bytes, bytes]],
    *,
    method: str = "GET",
    body: bytes = b"",
    query: bytes = b"",
) -> tuple[int, bytes]:
    """The status and body of the answer to a request as a server hands it on, whatever its headers hold."""
    given = {name for name, _ in headers}
    usual = [(b"host", b"127.0.0.1:8000"), (b"content-type", FORM)]
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": [*headers, *(each for each in usual if each[0] not in given)],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
        "scheme": "http",
        "http_version": "1.1",
        "root_path": "",
        "asgi": {"version": "3.0"},
    }
    sent: list[dict[str, Any]] = []
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return waiting.pop() if waiting else await asyncio.Future()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return int(sent[0]["status"]), b"".join(message.get("body", b"") for message in sent[1:])


def form(**fields: bytes) -> bytes:
    parts = [b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value)
             for name, value in fields.items()]  # fmt: skip
    photo = b'--x\r\nContent-Disposition: form-data; name="photos"; filename="p"\r\n\r\n' + painted(0) + b"\r\n"
    return b"".join(parts) + photo + b"--x--\r\n"


def enroll(client: TestClient, charset: str, name: bytes) -> tuple[int, bytes]:
    """A person enrolled by a form that names its charset."""
    kind = FORM + b"; charset=" + charset.encode()
    return ask(client.app, "/v1/enroll", [(b"content-type", kind)], method="POST", body=form(name=name, consent=b"yes"))


@pytest.mark.parametrize("charset", ["utf-8", "UTF8", '"utf-8"'])
def test_a_form_may_say_that_it_is_utf8(client: TestClient, charset: str) -> None:
    status, body = enroll(client, charset, "Zoë".encode())
    assert (status, json.loads(body)["subject"]) == (201, "Zoë")


def test_no_other_charset_chooses_a_codec(client: TestClient) -> None:
    """punycode alone takes 22 s for a field of 1 MB; idna and undefined end with errors that nobody expects."""
    assert {"punycode", "idna", "undefined", "utf_7", "zlib_codec"} <= set(CODECS)
    for charset in (*CODECS, "utf-8-sig", "no such codec", "", "utf-8\\x00", '"utf-8; x"'):
        status, body = enroll(client, charset, b"x" * 200)
        assert (status, json.loads(body)["error"]) == (415, "charset"), charset
        assert json.loads(body)["message"] == "the form must be in UTF-8"


@pytest.mark.parametrize("token", ["", TOKEN])
@pytest.mark.parametrize("host", [b"[", b"[::1", b"]", b"[" * 1000])
def test_a_host_that_is_none_is_400(service: Service, host: bytes, token: str) -> None:
    right = [(b"authorization", f"Bearer {token}".encode())]
    status, body = ask(service(token=token).app, "/v1/gallery", [(b"host", host), *right])
    assert (status, json.loads(body)["error"]) == (400, "host")


def test_an_origin_that_is_none_is_403(client: TestClient) -> None:
    status, body = ask(client.app, "/v1/gallery", [(b"origin", b"http://[")])
    assert (status, json.loads(body)["error"]) == (403, "origin")


HEADERS = (
    b"accept accept-encoding accept-language access-control-request-method authorization connection cookie expect "
    b"content-disposition content-encoding content-length content-type forwarded host idempotency-key if-match "
    b"if-modified-since if-none-match if-range origin range referer te transfer-encoding upgrade user-agent "
    b"x-forwarded-for x-forwarded-host x-forwarded-proto x-request-id"
).split()
VALUES = {
    b"content-type": (
        b"multipart/form-data", b"multipart/form-data; boundary=", b'multipart/form-data; boundary="',
        b"multipart/form-data; boundary=\xff", b"application/json", b"text/plain; x",
        b"application/x-www-form-urlencoded",
    ),
    b"content-length": (b"-1", b"\xb2", b"1e9", b"9" * 1000),
    b"range": (
        b"bytes=a-b", b"bytes=5-1", b"bytes=-0", b"bytes=0-" + b"9" * 5000, b"lines=1-2", b"bytes=" + b"0-1," * 2000,
    ),
    b"if-modified-since": (b"Thu, 99 Foo 9999999 99:99:99 GMT", b"0", b"Thu, 01 Jan 1970 00:00:00 +9999999999"),
    b"authorization": (b"Bearer", b"Bearer \xff", b"Basic \xff", b"Bearer " + b"x" * 5000),
    b"cookie": (b"a=\\303; \xff=\xff; =;;;", b"$Version=1; a=\"\\"),
    b"x-forwarded-for": (b"nobody", b"[::1", b"::1%eth0", b"1.2.3.4:99999999, x", b"\xff"),
    b"x-forwarded-proto": (b"gopher", b"ws"),
}  # fmt: skip


@pytest.mark.parametrize("token", ["", TOKEN])
def test_no_header_makes_a_fault(service: Service, token: str) -> None:
    app: Any = ProxyHeadersMiddleware(service(token=token).app, trusted_hosts="127.0.0.1")  # type: ignore[arg-type]
    right = [(b"authorization", f"Bearer {token}".encode())] if token else []
    asked = [("GET", "/"), ("GET", "/static/page.js"), ("GET", "/v1/gallery"), ("POST", "/v1/enroll")]
    for name in HEADERS:
        for value in (*ODD, *VALUES.get(name, ())):
            for method, path in asked:
                headers = [(name, value), *(each for each in right if each[0] != name)]
                status, body = ask(app, path, headers, method=method, body=form(name=b"Ada"))
                assert 200 <= status < 500, (name, value, path, body)


def test_no_path_and_no_query_makes_a_fault(client: TestClient) -> None:
    for path in (
        "/static/\0",
        "/static/" + "a" * 10_000,
        "/static/../x",
        "/v1/subjects/\udcff",
        "/v1/subjects/\0",
        "//[",
        "/\xff",
    ):
        for method in ("GET", "DELETE"):
            status, body = ask(client.app, path.encode("utf-8", "replace").decode(), [], method=method)
            assert 200 <= status < 500, (path, method, body)
    for query in (b"\xff", b"%ff", b"after=%00", b"limit=\xb2", b"limit=" + b"9" * 5000, b"&" * 5000):
        status, body = ask(client.app, "/v1/subjects", [], query=query)
        assert 200 <= status < 500, (query, body)
