"""What a service is told when it starts."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field

from hypersphere.core import check_integer, check_positive

_MOST_PORT = 65535
_COUNTS = ("connections", "address_connections", "max_body", "body_memory", "burst", "workers", "waiting")
_SECONDS = (
    "header_seconds",
    "body_seconds",
    "request_seconds",
    "lockout_seconds",
    "work_seconds",
    "queue_seconds",
    "gallery_seconds",
)
MIN_TOKEN = 16
"""Characters that a token needs at least: shorter ones can be guessed."""


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """Who may ask for what, and how much.

    Args:
        host, port: where to listen.
        token: what a client must send as `Authorization: Bearer TOKEN`; needed unless the host is this machine itself.
        connections, address_connections: that are open at the same time, in all and of one address.
        header_seconds: how long a client may take to send the head of a request.
        body_seconds: how long it may take to send the body.
        request_seconds: how long all of a request may take, until its answer is read.
        max_body: bytes that a request may have.
        body_memory: bytes that the bodies of all requests may have together.
        rate, burst: requests a second that a client may send in the long run, and at once; a rate of 0 sets no limit.
        failures: verifications in a row that may fail until a client must wait; 0 sets no limit.
        lockout_seconds: how long it must wait then; each further failure doubles it, up to an hour.
        workers: processes that look at photos; the number of cores by default.
        work_seconds: of a processor that the photos of one request may take.
        waiting: requests that may wait for that; more are told to come again.
        queue_seconds: how long they may wait.
        gallery_seconds: how long the gallery may take to answer: of 2 s the default leaves half a second for the photo.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str = field(default="", repr=False)
    connections: int = 512
    address_connections: int = 64
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    request_seconds: float = 180.0
    max_body: int = 10_000_000
    body_memory: int = 48_000_000
    rate: float = 20.0
    burst: int = 60
    failures: int = 5
    lockout_seconds: float = 30.0
    workers: int = field(default_factory=lambda: os.cpu_count() or 1)
    work_seconds: float = 20.0
    waiting: int = 64
    queue_seconds: float = 20.0
    gallery_seconds: float = 1.5

    def __post_init__(self) -> None:
        for name in _COUNTS:
            check_integer(name, getattr(self, name), 1)
        for name in _SECONDS:
            check_positive(name, getattr(self, name))
        check_integer("failures", self.failures, 0)
        if check_integer("port", self.port, 0) > _MOST_PORT:
            raise ValueError(f"port={self.port} must be at most {_MOST_PORT}")
        if self.rate:
            check_positive("rate", self.rate)
        if self.token and (len(self.token) < MIN_TOKEN or not self.token.isascii() or not self.token.isprintable()):
            raise ValueError(f"the token must have at least {MIN_TOKEN} printable ASCII characters")
        if not self.token and not is_loopback(self.host):
            raise ValueError(
                f"host={self.host!r} can be reached from other machines, so a token is needed: set HYPERSPHERE_TOKEN, "
                "or give --token-file"
            )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, reachable by nobody else."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
