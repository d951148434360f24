"""Damaged copies of a file, the same ones for a seed: what a bad disk, a bad cable or a bad person makes of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_HOSTILE = (b"", b"\0", b"\xff" * 8, b"9" * 400, b"-1", b"NaN", b"9223372036854775807", b"\r", b"[" * 2000, b"1e308")


def mutations(data: bytes, count: int, *, seed: int) -> Iterator[bytes]:
    """Yield `count` copies of `data` with bits flipped, bytes changed, cut out, doubled, put in, or the end lost.

    Args:
        data: of a good file.
        count: how many copies.
        seed: of the changes.
    """
    draw = random.Random(seed)
    for number in range(count):
        copy = bytearray(data)
        for _ in range(1 if number % 3 else draw.randint(1, 4)):
            _change(copy, draw)
        yield bytes(copy)


def _change(copy: bytearray, draw: random.Random) -> None:
    place = draw.randrange(len(copy) + 1)
    end = min(len(copy), place + draw.choice((1, 2, 4, 8, 64)))
    match draw.randrange(7):
        case 0 | 1 if place < len(copy):
            copy[place] ^= 1 << draw.randrange(8)
        case 2:
            copy[place:end] = draw.randbytes(end - place)
        case 3:
            del copy[place:end]
        case 4:
            copy[place:place] = copy[place:end]
        case 5:
            copy[place:end] = draw.choice(_HOSTILE)
        case _:
            del copy[place:]


def attempt(read: Callable[[Path], T], path: Path) -> T | None:
    """What a reader makes of a file; None where it refuses it with a ValueError, which must name it."""
    try:
        return read(path)
    except ValueError as error:
        if str(path) not in str(error):
            raise AssertionError(f"an error that does not name {path}: {error}") from error
    return None
