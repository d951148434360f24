"""What every request passes before any work: origin, rate, token, size; and what every answer carries."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from hypersphere.service.keys import ROLES, Key, Keyring, digest_of
from hypersphere.service.problems import Refusal, refused
from hypersphere.service.request_log import log_error, log_line
from hypersphere.service.service_metrics import label_text, request_counts
from hypersphere.service.service_settings import ServiceSettings, is_loopback
from hypersphere.service.service_state import ServiceState, client_of
from hypersphere.service.work import Work

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

DECISIONS = ("/v1/verify", "/v1/identify")
_ROLES_OF = {
    "/v1/verify": ("verify",),
    "/v1/identify": ("identify",),
    "/v1/enroll": ("enroll",),
    "/v1/gallery": ("identify", "enroll"),
    "/v1/report": ROLES,
}
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_ENCODED = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


class Body:
    """The body of a request.

    Args:
        scope: of the request.
        receive: what it comes from.
    """

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        self.content = bytearray()
        self.size = 0
        self.read_to_end = False
        self._replayed = False
        length = header_of(scope, b"content-length")
        self.arrived = header_of(scope, b"transfer-encoding") is None and (length or "0").strip("0") == ""

    async def read(self) -> int:
        """Take the next piece; return how many bytes it has."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise refused(400, "disconnected", "the client went away")
        piece = message.get("body", b"")
        self.content += piece
        self.size += len(piece)
        self.arrived = self.read_to_end = not message.get("more_body", False)
        return len(piece)

    async def replayed(self) -> Message:
        """The body at once, and then what comes after it; it is kept no longer."""
        if self._replayed:
            return await self._receive()
        self._replayed = True
        content, self.content = bytes(self.content), bytearray()
        return {"type": "http.request", "body": content, "more_body": False}


class Guard:
    """Middleware around the application.

    Args:
        app: what answers the requests that pass.
        settings: of the service.
        state: what is remembered of clients.
        work: whose queue a request joins when its body is there, before it is parsed.
    """

    def __init__(self, app: Asgi, settings: ServiceSettings, state: ServiceState, work: Work) -> None:
        self.app = app
        self.settings = settings
        self.state = state
        self.work = work
        self._bodies = 0
        shared = (*(role for role in ROLES if role != "scores"), *(("scores",) if settings.scores else ()))
        self._everybody = Key(name="everybody", roles=shared)
        fixed = [Key(name="token", roles=shared, digest=digest_of(settings.token))] if settings.token else []
        self._keys = Keyring(fixed, settings.keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; HEAD is answered as GET, without the body."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, request, status = time.perf_counter(), secrets.token_hex(8), 0
        body = Body(scope, receive)
        asked = scope["method"]
        if asked == "HEAD":
            scope = {**scope, "method": "GET"}
        scope["client_key"] = client_of((scope.get("client") or ("unknown",))[0])

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                there = {name for name, _ in message.get("headers", ())}
                extra = [*_ENCODED, (b"x-request-id", request.encode())]
                if not body.arrived:  # the server would take what is still to come of it for the next request
                    extra.append((b"connection", b"close"))
                extra = [each for each in extra if each[0] not in there]
                message = {**message, "headers": [*message.get("headers", ()), *extra]}
            elif asked == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        try:
            self._check(scope)
            if scope["method"] == "POST" and scope["path"].startswith("/v1/"):
                await self._answer_to_body(scope, body, sending)
            else:
                await self.app(scope, receive, sending)
        except Refusal as refusal:
            await _answer(refusal, sending)
        except Exception as error:
            log_error(error, request=request)
            if status:
                raise
            await _answer(refused(500, "failure", f"something went wrong; the log names it {request}"), sending)
        finally:
            seconds = time.perf_counter() - started
            route = getattr(scope.get("route"), "path", "other")
            method = asked if asked in METHODS else "other"
            self.state.count(request_counts(route, method, status, seconds))
            log_line(
                "request",
                request=request,
                client=scope["client_key"],
                key=scope["key"].name if "key" in scope else None,
                method=method,
                route=route,
                status=status,
                milliseconds=round(1000 * seconds, 1),
            )

    def _check(self, scope: Scope) -> None:
        """Refuse what may not be asked, by the headers alone."""
        try:
            self._check_origin(scope)
            path = scope["path"]
            if not (path.startswith("/v1/") or path == "/metrics"):
                return
            settings = self.settings
            key = scope["key"] = self._key(scope)
            self._check_role(key, path)
            self._check_allowances(key, scope["client_key"], path)
            length = header_of(scope, b"content-length")
            if length is not None and header_of(scope, b"transfer-encoding") is not None:
                raise refused(400, "length", "Content-Length and Transfer-Encoding contradict each other: send one")
            if length is not None and length.isdecimal() and int(length[:20]) > settings.max_body:
                raise self._too_large()
            _check_charset(header_of(scope, b"content-type"))
        except Refusal as refusal:
            self.state.count({("hypersphere_refused_total", label_text(reason=refusal.problem.error)): 1})
            raise

    def _check_origin(self, scope: Scope) -> None:
        """Refuse what a page of another site makes a browser send.

        Without a token only this machine may ask, and any page in its browser could: so the address that the browser
        was told must be this machine's, and that of the page must be the same.
        """
        host = header_of(scope, b"host") or ""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            raise refused(400, "host", "the header Host is not a host, nor a host and a port") from None
        if self.settings.open_to_all and not is_loopback(name):
            raise refused(403, "host", "without a token the service answers to localhost and 127.0.0.1 alone")
        origin = header_of(scope, b"origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise refused(403, "origin", "the request comes from a page of another site")

    def _key(self, scope: Scope) -> Key:
        """Whose request it is."""
        if self.settings.open_to_all:
            return self._everybody
        kind, _, token = (header_of(scope, b"authorization") or "").partition(" ")
        if kind.lower() != "bearer" or not token:
            raise refused(401, "token", "a token is needed: Authorization: Bearer TOKEN")
        key = self._keys.find(token.strip())
        if key is None:
            raise refused(403, "token", "the token is wrong, or it has expired")
        return key

    def _check_role(self, key: Key, path: str) -> None:
        roles = _ROLES_OF.get(path, ("administer",))
        if not any(key.may(role) for role in roles):
            raise refused(403, "role", f"the key has not the role {' or '.join(roles)}")

    def _check_allowances(self, key: Key, client: str, path: str) -> None:
        """Refuse what is beyond the key's rate, its requests of a day, or its decisions without a match."""
        settings, state = self.settings, self.state
        rate = settings.rate if key.rate is None else key.rate
        who = client if key is self._everybody or key.name == "token" else f"key {key.name}"
        if rate and (wait := state.take(who, rate=rate, burst=max(settings.burst, rate))):
            raise refused(429, "rate", f"more than {rate:g} requests a second", wait=max(1.0, wait))
        if key.quota and (wait := state.take_daily(f"requests of {key.name}", key.quota)):
            raise refused(429, "quota", f"more than {key.quota:,} requests in a day", wait=wait)
        most = non_matches_of(key, settings)
        if path in DECISIONS and most and (wait := state.left(f"non-matches of {key.name}", most)):
            raise used_up(most, wait)

    async def _answer_to_body(self, scope: Scope, body: Body, send: Send) -> None:
        """Answer a request when all of its body is there, whatever its headers say of it; photos wait in a queue."""
        try:
            try:
                async with asyncio.timeout(self.settings.body_seconds):
                    while not body.read_to_end:
                        self._bodies += await body.read()
                        if len(body.content) > self.settings.max_body:
                            raise self._too_large()
                        if self._bodies > self.settings.body_memory:
                            raise refused(503, "busy", "too many requests send photos at the same time", wait=1)
            except TimeoutError:
                slow = f"the body did not arrive within {self.settings.body_seconds:g} s"
                raise refused(408, "slow", slow) from None
            async with self.work.admitted():
                await self.app(scope, body.replayed, send)
        finally:
            self._bodies -= body.size

    def _too_large(self) -> Refusal:
        return refused(413, "body_too_large", f"the request has more than {self.settings.max_body:,} bytes")


def non_matches_of(key: Key, settings: ServiceSettings) -> int:
    """Decisions without a match that a key may ask for in a day; 0 for any number."""
    return settings.non_matches if key.non_matches is None else key.non_matches


def used_up(most: int, wait: float) -> Refusal:
    """Too many decisions without a match."""
    return refused(
        429, "non_matches", f"{most:,} faces that did not match in a day are all this key may try", wait=wait
    )


def header_of(scope: Scope, name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), None)


def _check_charset(content_type: str | None) -> None:
    """Refuse a form in another charset: its parser takes any codec of Python, of which some need minutes for 1 MB."""
    from python_multipart.multipart import parse_options_header

    kind, options = parse_options_header(content_type)
    if kind == b"multipart/form-data" and options.get(b"charset", b"utf-8").lower() not in (b"utf-8", b"utf8"):
        raise refused(415, "charset", "the form must be in UTF-8")


async def _answer(refusal: Refusal, send: Send) -> None:
    """Answer without the application, and close the connection: the body was not read."""
    body = json.dumps(dataclasses.asdict(refusal.problem)).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), "Connection": "close"}
    encoded = [(name.lower().encode(), value.encode()) for name, value in (headers | dict(refusal.headers)).items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
