"""Damage to files, the same for the same seed, and what a reader makes of it."""

import random
import struct
from collections.abc import Callable, Iterator
from typing import TypeVar

from hypersphere.data import UnreadableImage

T = TypeVar("T")
_SIZES = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)
_DIGITS = (
    b"9" * 19,
    b"9" * 25,
    b"9223372036854775807",
    b"-1",
    b"1e9",
    b"+1",
    b"1_0",
    "१".encode(),
    b"\xff",
    b"\r",
    b"\0",
)


def mutations(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """`count` damaged copies, none of them equal to the original."""
    rng = random.Random(seed)
    while count:
        damaged = rng.choice((_flip, _cut, _drop, _repeat, _overwrite, _extend, _resize, _digits))(bytearray(data), rng)
        if damaged != data:
            count -= 1
            yield bytes(damaged)


def outcome(read: Callable[[], T]) -> tuple[T | None, str]:
    """What reading gives, or the message of an error of ours; any other exception goes through."""
    try:
        return read(), ""
    except UnreadableImage as error:
        return None, str(error)
    except (ValueError, OSError) as error:
        if type(error) not in (ValueError, OSError, FileNotFoundError):
            raise
        return None, str(error)


def _range(data: bytearray, rng: random.Random) -> slice:
    start = rng.randrange(len(data))
    return slice(start, start + rng.choice((1, 2, 4, 8, 64, 512)))


def _flip(data: bytearray, rng: random.Random) -> bytearray:
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


def _cut(data: bytearray, rng: random.Random) -> bytearray:
    return data[: rng.randrange(len(data))]


def _drop(data: bytearray, rng: random.Random) -> bytearray:
    del data[_range(data, rng)]
    return data


def _repeat(data: bytearray, rng: random.Random) -> bytearray:
    part = _range(data, rng)
    data[part.start : part.start] = data[part] * rng.choice((1, 1, 50))
    return data


def _overwrite(data: bytearray, rng: random.Random) -> bytearray:
    part = _range(data, rng)
    length = len(data[part])
    data[part] = rng.choice((bytes(length), b"\xff" * length, rng.randbytes(length)))
    return data


def _extend(data: bytearray, rng: random.Random) -> bytearray:
    return data + rng.choice((b"\n", b"\0", b"\xff" * 9, rng.randbytes(100), bytes(data)))


def _resize(data: bytearray, rng: random.Random) -> bytearray:
    """Another number where one may stand: 1 to 8 bytes, either end first."""
    code, width = rng.choice((("B", 1), ("H", 2), ("I", 4), ("Q", 8)))
    start = rng.randrange(max(1, len(data) - width))
    number = rng.choice(_SIZES) & ((1 << 8 * width) - 1)
    data[start : start + width] = struct.pack(rng.choice("<>") + code, number)
    return data


def _digits(data: bytearray, rng: random.Random) -> bytearray:
    """Other digits where some stand, or anywhere."""
    places = [place for place, byte in enumerate(data) if 48 <= byte < 58] or list(range(len(data)))
    place = rng.choice(places)
    data[place : place + 1] = rng.choice(_DIGITS)
    return data
