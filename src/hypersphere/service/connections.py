"""Connections that a server holds open: so many in all and of one address, each for so long."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypersphere.service.service_settings import ServiceSettings
from hypersphere.service.service_state import client_of

BACKLOG = 128
"""Connections that may wait to be accepted. asyncio accepts all of them before the first is counted."""
_OTHER_FILES = 64
_FLUSH_SECONDS = 5.0
_KEEP_ALIVE = 5


class Connections:
    """Counts open connections.

    Args:
        most: in all.
        most_of_address: of one address.
        proxy: an address that many clients share, which may have as many as there are.

    Example:
        >>> connections = Connections(most=3, most_of_address=1)
        >>> [connections.take(each) for each in ("192.0.2.1", "192.0.2.1", "192.0.2.2")]
        [True, False, True]
    """

    def __init__(self, *, most: int, most_of_address: int, proxy: str = "") -> None:
        self._most, self._most_of_address, self._proxy = most, most_of_address, proxy
        self._open: Counter[str] = Counter()

    def take(self, address: str) -> bool:
        """Count a new connection; return False where there are too many."""
        if self._open.total() >= self._most:
            return False
        if address != self._proxy and self._open[address] >= self._most_of_address:
            return False
        self._open[address] += 1
        return True

    def give_back(self, address: str) -> None:
        """Count a connection that was taken no longer."""
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]

    def total(self) -> int:
        """How many are open."""
        return self._open.total()


def most_connections(wanted: int) -> int:
    """How many connections the process can hold: fewer than it may open files, which are raised as far as allowed.

    A server without a file for the next connection neither accepts nor refuses it, and logs that without end.
    """
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + BACKLOG + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    if soft < 2 * (BACKLOG + _OTHER_FILES):
        raise ValueError(f"the process may open {soft} files only (ulimit -n); the service needs {needed}")
    return soft - BACKLOG - _OTHER_FILES


def bounded_protocol(settings: ServiceSettings, connections: Connections) -> type[asyncio.Protocol]:
    """uvicorn's protocol of HTTP/1.1, with an end to everything that a client can delay.

    A client has `header_seconds` to send the head of a request, from the connection or the first byte on; a request
    has `request_seconds` from its head to the last byte of its answer; an idle connection is closed after 5 s. uvicorn
    knows the last of these alone.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class BoundedProtocol(H11Protocol):
        _address: str | None = None
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            address = client_of((self.client or ("unknown",))[0])
            if not connections.take(address):
                self._refuse("503 Service Unavailable", retry=True)
                return
            self._address = address
            self._arm(settings.header_seconds, self._head_is_late)

        def connection_lost(self, exc: Exception | None) -> None:
            self._disarm()
            if self._address is not None:
                connections.give_back(self._address)
                self._address = None
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            before, idle = self.cycle, self._answered()
            super().data_received(data)
            if self.cycle is not before:
                self._arm(settings.request_seconds, self.transport.abort)
            elif idle and before is not None and self._timer_is_for_idling:
                self._arm(settings.header_seconds, self._head_is_late)

        def on_response_complete(self) -> None:
            before = self.cycle
            # uvicorn closes an idle connection, which ends only when the client has read what was sent
            self._arm(_KEEP_ALIVE + _FLUSH_SECONDS, self.transport.abort, for_idling=True)
            super().on_response_complete()
            if self.cycle is not before:  # a request that came with the last one
                self._arm(settings.request_seconds, self.transport.abort)

        _timer_is_for_idling = False

        def _answered(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _arm(self, seconds: float, then: Callable[[], None], *, for_idling: bool = False) -> None:
            self._disarm()
            self._timer_is_for_idling = for_idling
            self._timer = self.loop.call_later(seconds, then)

        def _disarm(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _head_is_late(self) -> None:
            self._refuse("408 Request Timeout")

        def _refuse(self, status: str, *, retry: bool = False) -> None:
            """Answer without a request, and close the connection whether or not the client reads that."""
            wait = "Retry-After: 1\r\n" if retry else ""
            self.transport.write(f"HTTP/1.1 {status}\r\n{wait}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
            self.transport.close()
            self._arm(_FLUSH_SECONDS, self.transport.abort)

    return BoundedProtocol
