"""Connections to PostgreSQL that threads borrow: a bounded number, and none in the middle of a transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypersphere.recognition.gallery.driver import GalleryUnavailable


class ConnectionPool:
    """Lends connections, each to one thread at a time, and opens them when they are needed.

    Args:
        connect: opens one.
        broken: the error of one that the server has closed.
        most: how many there are at once.
        seconds: how long to wait for one.
        address: for messages.
    """

    def __init__(
        self, connect: Callable[[], Any], broken: type[Exception], *, most: int, seconds: float, address: str
    ) -> None:
        self._connect, self._broken, self._address, self._seconds = connect, broken, address, seconds
        self._lock, self._slots = threading.Lock(), threading.BoundedSemaphore(most)
        self._idle: list[Any] = []

    @contextmanager
    def borrowed(self) -> Iterator[Any]:
        """Lend a connection that answers.

        Raises:
            GalleryUnavailable: all are lent, and none came back in time.
        """
        if not self._slots.acquire(timeout=self._seconds):
            raise GalleryUnavailable(f"{self._address}: too many questions wait for PostgreSQL; ask again later")
        try:
            connection = self._answering()
            try:
                yield connection
            finally:
                self._give_back(connection)
        finally:
            self._slots.release()

    def close(self) -> None:
        """Close those that nobody has borrowed."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _answering(self) -> Any:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._connect()
            try:
                connection.execute("SELECT 1")
            except self._broken:
                connection.close()
            else:
                return connection

    def _give_back(self, connection: Any) -> None:
        """Keep a connection for the next one, unless something interrupted it within a transaction."""
        if connection.closed or connection.info.transaction_status.name != "IDLE":
            connection.close()
            return
        with self._lock:
            self._idle.append(connection)
