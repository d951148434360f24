"""What a disk may hold after the power was lost, replayed from the calls of a process that strace recorded.

A file's bytes are durable when the file is synced, its name when its folder is. Everything later may be there or not,
in any order and cut at any sector.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

from tests.strace import texts_of

Picture = dict[str, bytes]
"""By name, the bytes of a file."""
_SECTOR = 512


class RecordedDisk:
    """The files of a folder while calls are replayed.

    Args:
        folder: whose files are watched.
        calls: as `tests.strace.record` returns them.
    """

    def __init__(self, folder: Path, calls: list[str]) -> None:
        self._folder = str(folder)
        self._calls = calls
        self._names: dict[str, int] = {}
        self._synced_names: dict[str, int] = {}
        self._synced: list[bytes] = []
        self._waiting: list[list[tuple[int, bytes | None]]] = []
        """Of each file, what was written since it was synced: bytes at a place, or None where it was cut."""

    def replay(self) -> Iterator[str]:
        """Make the calls, one after the other; yields what the process has told by `write`, or nothing."""
        for call in self._calls:
            if call.startswith(("+++", "---")) or " = -1 " in call:
                continue
            kind = call.partition("(")[0]
            texts = texts_of(call)
            if kind == "write" and not texts[0].startswith(os.fsencode(self._folder)):
                yield texts[1].decode()
                continue
            names = [os.fsdecode(text).removeprefix(f"{self._folder}/") for text in texts]
            self._make(kind, call, names, texts)
            yield ""

    def _make(self, kind: str, call: str, names: list[str], texts: list[bytes]) -> None:
        if kind == "openat":
            if "O_CREAT" in call and names[1] not in self._names and not names[1].startswith("/"):
                self._names[names[1]] = len(self._synced)
                self._synced.append(b"")
                self._waiting.append([])
        elif kind in ("link", "linkat"):
            old, new = names if kind == "link" else (names[1], names[3])
            self._names[new] = self._names[old]
        elif kind == "unlink":
            del self._names[names[0]]
        elif kind in ("fsync", "fdatasync"):
            if names[0] == self._folder:
                self._synced_names = dict(self._names)
            elif names[0] in self._names:
                number = self._names[names[0]]
                self._synced[number] = written(self._synced[number], self._waiting[number])
                self._waiting[number] = []
        elif kind == "pwrite64":
            self._waiting[self._names[names[0]]].append((_last_number(call), texts[1]))
        elif kind == "ftruncate":
            self._waiting[self._names[names[0]]].append((_last_number(call), None))
        else:
            raise AssertionError(f"a call that is not known here: {call:.200}")

    def synced(self, *, names: bool) -> Picture:
        """Only synced bytes, under names that were synced, or under those of the moment."""
        return {name: self._synced[number] for name, number in (self._names if names else self._synced_names).items()}

    def everything(self) -> Picture:
        """All that was written."""
        return {name: written(self._synced[number], self._waiting[number]) for name, number in self._names.items()}

    def torn(self, chance: random.Random) -> Picture:
        """Of what was not synced some sectors, drawn by chance."""
        names = chance.choice((self._names, self._synced_names))
        share = chance.choice((0.1, 0.5, 0.9))
        return {
            name: written(self._synced[number], list(_some(self._waiting[number], chance, share)))
            for name, number in names.items()
        }


def written(data: bytes, changes: list[tuple[int, bytes | None]]) -> bytes:
    """A file after writes and cuts."""
    now = bytearray(data)
    for place, new in changes:
        if new is None:
            now = now[:place].ljust(place, b"\0")
        else:
            now = now.ljust(place, b"\0")
            now[place : place + len(new)] = new
    return bytes(now)


def _some(
    changes: list[tuple[int, bytes | None]], chance: random.Random, share: float
) -> Iterator[tuple[int, bytes | None]]:
    for place, new in changes:
        if new is None:
            if chance.random() < share:
                yield place, None
            continue
        start = place
        while start < place + len(new):
            end = min(start - start % _SECTOR + _SECTOR, place + len(new))
            if chance.random() < share:
                yield start, new[start - place : end - place]
            start = end


def _last_number(call: str) -> int:
    return int(call.rpartition(")")[0].rpartition(",")[2])
