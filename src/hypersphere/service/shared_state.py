"""What processes of one service share: how much each client asked for and failed at, and what was counted."""

from __future__ import annotations

import ipaddress
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

_TABLES = """
CREATE TABLE IF NOT EXISTS allowances (client TEXT PRIMARY KEY, left REAL NOT NULL, time REAL NOT NULL);
CREATE TABLE IF NOT EXISTS failures (client TEXT PRIMARY KEY, count INTEGER NOT NULL, until REAL NOT NULL);
CREATE TABLE IF NOT EXISTS counts (name TEXT, labels TEXT, value REAL NOT NULL, PRIMARY KEY (name, labels));
"""
_LONGEST_WAIT = 3600.0
_FORGOTTEN_AFTER = 24 * 3600.0


class SharedState:
    """Allowances, failures and counts in a SQLite database: in memory, or in a file that several processes open.

    Nothing here has to outlive the service, so nothing is synced.

    Args:
        path: the file, or `:memory:`.
        clock: seconds that only rise and that all processes of the machine share.

    Example:
        >>> state = SharedState()
        >>> [state.take("192.0.2.1", rate=1, burst=2) > 0 for _ in range(3)]
        [False, False, True]
    """

    def __init__(self, path: str = ":memory:", clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sql = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
        if path != ":memory:":
            self._sql.execute("PRAGMA journal_mode=WAL")
        self._sql.execute("PRAGMA synchronous=OFF")
        self._sql.executescript(_TABLES)

    def take(self, client: str, *, rate: float, burst: int) -> float:
        """Take one request from a client's allowance; return 0, or how many seconds to wait where it is used up.

        The allowance is a bucket of `burst` requests that fills up again at `rate` a second.
        """
        with self._transaction() as (sql, now):
            row = sql.execute("SELECT left, time FROM allowances WHERE client = ?", (client,)).fetchone()
            left = float(burst) if row is None else min(burst, row[0] + rate * (now - row[1]))
            if left < 1:
                return (1 - left) / rate
            if row is None:
                sql.execute("DELETE FROM allowances WHERE time < ?", (now - _FORGOTTEN_AFTER,))
            sql.execute("INSERT OR REPLACE INTO allowances VALUES (?, ?, ?)", (client, left - 1, now))
            return 0.0

    def locked(self, client: str) -> float:
        """How many seconds a client must wait until it may verify again."""
        with self._transaction() as (sql, now):
            row = sql.execute("SELECT until FROM failures WHERE client = ?", (client,)).fetchone()
            return 0.0 if row is None else max(0.0, float(row[0]) - now)

    def judged(self, client: str, match: bool, *, failures: int, seconds: float) -> float:
        """Record the outcome of a verification; return 0, or the seconds for which the client is locked out.

        A client that other requests have locked out meanwhile must not be told the outcome: many requests at once would
        get more answers than one after another.

        Args:
            client: who asked.
            match: a match ends a row of failures.
            failures: so many in a row lock the client out.
            seconds: for so long; twice as long for each further one.
        """
        with self._transaction() as (sql, now):
            row = sql.execute("SELECT count, until FROM failures WHERE client = ?", (client,)).fetchone()
            count, until = (0, 0.0) if row is None else (int(row[0]), float(row[1]))
            if until > now:
                return until - now
            if match:
                sql.execute("DELETE FROM failures WHERE client = ?", (client,))
                return 0.0
            if row is None:
                sql.execute("DELETE FROM failures WHERE until < ?", (now - _FORGOTTEN_AFTER,))
            count += 1
            wait = min(seconds * 2.0 ** min(count - failures, 32), _LONGEST_WAIT) if count >= failures else 0.0
            sql.execute("INSERT OR REPLACE INTO failures VALUES (?, ?, ?)", (client, count, now + wait))
            return 0.0

    def count(self, counts: Mapping[tuple[str, str], float]) -> None:
        """Add to counts, by name and labels."""
        with self._transaction() as (sql, _):
            sql.executemany(
                "INSERT INTO counts VALUES (?, ?, ?) "
                "ON CONFLICT (name, labels) DO UPDATE SET value = value + excluded.value",
                [(*key, by) for key, by in counts.items()],
            )

    def counts(self) -> dict[tuple[str, str], float]:
        """All counts, by name and labels."""
        with self._transaction() as (sql, _):
            rows = sql.execute("SELECT name, labels, value FROM counts").fetchall()
        return {(name, labels): value for name, labels, value in rows}

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._sql.close()

    @contextmanager
    def _transaction(self) -> Iterator[tuple[sqlite3.Connection, float]]:
        with self._lock:
            self._sql.execute("BEGIN IMMEDIATE")
            try:
                yield self._sql, self._clock()
            finally:
                self._sql.execute("COMMIT")


def client_of(address: str) -> str:
    """Whom an address stands for: itself, or the network of an IPv6 address, of which one client has all addresses."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
    return address
