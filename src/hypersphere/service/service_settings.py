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
        token: what a client must send as `Authorization: Bearer TOKEN`, a key of all roles but `scores`. It or `keys`
            is needed unless the host is this machine itself.
        keys: a file of keys, as `hypersphere keys` makes it.
        scores: whether the token, or everybody where there is none, sees scores as keys of the role `scores` do.
        connections, address_connections: that are open at the same time, in all and of one address.
        header_seconds: how long a client may take to send the head of a request.
        body_seconds: how long it may take to send the body.
        request_seconds: how long all of a request may take, until its answer is read.
        max_body: bytes that a request may have.
        body_memory: bytes that the bodies of all requests may have together.
        rate, burst: requests a second that a key (without keys: an address) may send in the long run, and at once; a
            rate of 0 sets no limit.
        non_matches: verifications and searches without a match that a key may ask for in a day; 0 sets no limit.
        workers: processes that look at photos; the number of cores by default.
        work_seconds: of a processor that the photos of one request may take.
        waiting: requests that may wait for that; more are told to come again.
        queue_seconds: how long they may wait.
        gallery_seconds: how long the gallery may take to answer: of 2 s the default leaves half a second for the photo.
        state: a file that keeps over a restart what keys used of their daily allowances.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str = field(default="", repr=False)
    keys: str = ""
    scores: bool = False
    connections: int = 512
    address_connections: int = 64
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    request_seconds: float = 180.0
    max_body: int = 10_000_000
    body_memory: int = 48_000_000
    rate: float = 20.0
    burst: int = 60
    non_matches: int = 200
    workers: int = field(default_factory=lambda: os.cpu_count() or 1)
    work_seconds: float = 20.0
    waiting: int = 64
    queue_seconds: float = 20.0
    gallery_seconds: float = 1.5
    state: str = ""

    def __post_init__(self) -> None:
        for name in _COUNTS:
            check_integer(name, getattr(self, name), 1)
        for name in _SECONDS:
            check_positive(name, getattr(self, name))
        check_integer("non_matches", self.non_matches, 0)
        if check_integer("port", self.port, 0) > _MOST_PORT:
            raise ValueError(f"port={self.port} must be at most {_MOST_PORT}")
        if self.rate:
            check_positive("rate", self.rate)
        if self.token and (len(self.token) < MIN_TOKEN or not self.token.isascii() or not self.token.isprintable()):
            raise ValueError(f"the token must have at least {MIN_TOKEN} printable ASCII characters")
        if not self.token and not self.keys and not is_loopback(self.host):
            raise ValueError(
                f"host={self.host!r} can be reached from other machines, so a token is needed: set HYPERSPHERE_TOKEN, "
                "or give --token-file or --keys"
            )

    @property
    def open_to_all(self) -> bool:
        """Whether whoever reaches the service may ask everything: so it is on this machine alone."""
        return not self.token and not self.keys


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, reachable by nobody else."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
