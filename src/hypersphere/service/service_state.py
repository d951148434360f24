"""What a service remembers of its clients: how much each may still ask, and what was counted."""

from __future__ import annotations

import ipaddress
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from hypersphere.core import read_json, write_atomically
from hypersphere.service.request_log import log_line

DAY = 24 * 3600.0
_MANY = 10_000
_FILE_LIMIT = 2**24


class ServiceState:
    """Allowances and counts. An allowance of `burst` fills up again at a rate; it is kept as the time when it is full.

    Args:
        path: a file that keeps what was used of daily allowances over a restart; nothing is kept by default.
        clock: seconds since 1970.

    Example:
        >>> state = ServiceState()
        >>> [state.take("192.0.2.1", rate=1, burst=2) > 0 for _ in range(3)]
        [False, False, True]
    """

    def __init__(self, path: str = "", clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = Path(path) if path else None, clock
        self._lock = threading.Lock()
        self._full: dict[str, float] = {}
        self._daily: dict[str, float] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        if self._path is not None and self._path.exists():
            document = read_json(self._path, limit=_FILE_LIMIT)
            if not isinstance(document, dict) or not all(isinstance(value, float) for value in document.values()):
                raise ValueError(f"{self._path}: not what a service remembers of its keys; remove it to begin anew")
            self._daily = document

    def take(self, client: str, *, rate: float, burst: float) -> float:
        """Take one request of a client's allowance; return 0, or how many seconds to wait where it is used up."""
        with self._lock:
            return self._take(self._full, client, rate, burst)

    def take_daily(self, client: str, number: int) -> float:
        """`take` of an allowance of so many a day, at once or one after another."""
        with self._lock:
            return self._take(self._daily, client, number / DAY, number)

    def left(self, client: str, number: int) -> float:
        """0 if something is left of a daily allowance, or how many seconds to wait."""
        with self._lock:
            return self._wait(self._daily, client, number / DAY, number)

    def judged(self, client: str, match: bool, number: int) -> float:
        """Take one of a daily allowance for a decision without a match; return how many seconds to wait for the answer.

        Where nothing is left a match is not told either: otherwise a refusal would be the answer.
        """
        with self._lock:
            wait = self._wait(self._daily, client, number / DAY, number)
            if not wait and not match:
                self._take(self._daily, client, number / DAY, number)
            return wait

    def count(self, counts: Mapping[tuple[str, str], float]) -> None:
        """Add to counts, by name and labels."""
        with self._lock:
            for key, by in counts.items():
                self._counts[key] += by  # type: ignore[assignment]

    def counts(self) -> dict[tuple[str, str], float]:
        """All counts, by name and labels."""
        with self._lock:
            return dict(self._counts)

    def save(self) -> None:
        """Write what was used of daily allowances; a full disk is logged, and memory serves until there is space."""
        if self._path is None:
            return
        with self._lock:
            now = self._clock()
            text = json.dumps({client: full for client, full in self._daily.items() if full > now})
        try:
            write_atomically(self._path, text.encode())
        except OSError as error:
            log_line("state_not_saved", kind=type(error).__name__)

    def _wait(self, full: dict[str, float], client: str, rate: float, burst: float) -> float:
        now = self._clock()
        return max(0.0, max(full.get(client, now), now) + (1 - burst) / rate - now)

    def _take(self, full: dict[str, float], client: str, rate: float, burst: float) -> float:
        wait, now = self._wait(full, client, rate, burst), self._clock()
        if wait > 1e-9:
            return wait
        if len(full) >= _MANY and client not in full:
            for each in [each for each, time_of in full.items() if time_of <= now]:
                del full[each]
        full[client] = max(full.get(client, now), now) + 1 / rate
        return 0.0


def client_of(address: str) -> str:
    """Whom an address stands for: itself, or the network of an IPv6 address, of which one client has all addresses."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
    return address
