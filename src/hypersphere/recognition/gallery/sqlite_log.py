"""The write-ahead log that a killed process left: SQLite takes its sound beginning, and says nothing of the rest."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from hypersphere.recognition.gallery.driver import GalleryDamaged

_HEADER, _FRAME = 32, 24
_MAGIC = 0x377F0682
_ATTEMPTS, _PAUSE = 4, 0.05
"""Another process may be writing the log while it is read: only what stays is damage."""
Words = NDArray[np.uint32]


def check_log(path: Path) -> None:
    """Raise GalleryDamaged if SQLite would leave out acknowledged changes because a part of the log is damaged.

    The end of a log may be torn: what was not yet acknowledged when the power was lost. It is damaged if whole
    transactions follow, or if one flipped bit explains why its checksum does not hold.
    """
    log = path.with_name(f"{path.name}-wal")
    for _ in range(_ATTEMPTS):
        try:
            with log.open("rb") as file:
                if not _is_damaged(file):
                    return
        except FileNotFoundError:
            return
        time.sleep(_PAUSE)
    raise GalleryDamaged(
        f"{log}: what was written last is damaged; restore a backup, or remove this file to go on without it"
    )


def _is_damaged(log: BinaryIO) -> bool:
    header = log.read(_HEADER)
    if len(header) < _HEADER:
        return False
    if not _header_holds(header):
        return any(map(_header_holds, _one_bit_away(header)))
    magic, _, page, _, *rest = struct.unpack(">8I", header)
    order = ">u4" if magic & 1 else "<u4"
    salts, total = np.array(rest[:2], np.uint32), np.array(rest[2:], np.uint32)
    weights = _weights((8 + page) // 4)
    broken = committed = False
    while len(frame := log.read(_FRAME + page)) == _FRAME + page:
        # Page number, size of the file after a commit (0 in the middle of a transaction), two salts, two checksums.
        head = np.frombuffer(frame[:_FRAME], ">u4").astype(np.uint32)
        if not broken:
            summed = np.frombuffer(frame[:8] + frame[_FRAME:], order).astype(np.uint32)
            total = np.concatenate([summed, total]) @ weights
            off = np.concatenate([head[2:4] - salts, head[4:] - total])
            if not off.any():
                continue
            if _explained_by_one_bit(off, weights):
                return True
            broken = True
        if np.array_equal(head[2:4], salts):
            if committed:
                return True
            committed = bool(head[1])
    return False


@cache
def _weights(words: int) -> Words:
    """How much each word, and then each of the two sums before it, adds to the two checksums after it.

    For each pair of words x, y SQLite does `first += x + second; second += y + first`, all modulo 2^32.
    """
    rows: list[tuple[int, int]] = []
    x, y = (1, 1), (0, 1)
    for _ in range(words // 2):
        rows[:0] = (x, y)
        before = x, y
        x, y = (((a + b) % 2**32, (a + 2 * b) % 2**32) for a, b in (x, y))
    (a, b), (c, d) = before
    return np.array([*rows, (a, b), ((a + c) % 2**32, (b + d) % 2**32)], np.uint32)


def _explained_by_one_bit(off: Words, weights: Words) -> bool:
    """Whether one flipped bit makes a frame's salts and checksums differ by so much from those that are expected."""
    of_words = np.hstack([np.zeros_like(weights), weights])
    of_bits = np.vstack([of_words, np.eye(4, dtype=np.uint32)])[:, None] << np.arange(32, dtype=np.uint32)[:, None]
    return bool(((of_bits == off) | (of_bits == -off)).all(axis=2).any())


def _header_holds(header: bytes) -> bool:
    magic, *_, first, second = struct.unpack(">8I", header)
    words = np.frombuffer(header[:24], ">u4" if magic & 1 else "<u4").astype(np.uint32)
    total = np.concatenate([words, np.zeros(2, np.uint32)]) @ _weights(6)
    return magic & ~1 == _MAGIC and np.array_equal(total, np.array([first, second], np.uint32))


def _one_bit_away(data: bytes) -> Iterator[bytes]:
    for place in range(8 * len(data)):
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        yield bytes(changed)
