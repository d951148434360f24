"""Keyed digests of one gallery: of its templates with their numbers, its audit trail and its state."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

KEY_FILE = "HYPERSPHERE_GALLERY_KEY_FILE"
"""The environment variable that names the file with a gallery's key."""
_LEAST_KEY = 32
SEAL_BYTES = 32
MODULUS = 1 << 8 * SEAL_BYTES


def read_secret() -> bytes:
    """Return the key that the environment names, as 64 bytes; empty if it names none."""
    name = os.environ.get(KEY_FILE)
    if not name:
        return b""
    try:
        key = Path(name).read_bytes()
    except OSError as error:
        raise ValueError(f"{KEY_FILE}={name}: the key of galleries cannot be read ({error.strerror})") from error
    if len(key) < _LEAST_KEY:
        raise ValueError(f"{KEY_FILE}={name}: has {len(key)} bytes; a key of galleries needs at least {_LEAST_KEY}")
    return hashlib.blake2b(key, digest_size=64).digest()


def secret_name(secret: bytes) -> str:
    """Return a name of a key that does not tell it; empty without a key."""
    return hashlib.blake2b(b"name", key=secret, digest_size=8).hexdigest() if secret else ""


class Seals:
    """Digests that hold for one gallery only: their key is made of its settings, and of a secret if it has one.

    Without a secret they tell damage and mix-ups. With one, nobody who cannot read it can change, add or remove
    anything unnoticed, except put back the whole file as it once was.

    The sum of all templates' shares, modulo 2^256, stands for their set: it takes one addition to keep, in any order.
    Shares are the half of a template's digest that is not stored, and the sum is stored with a pad of its own for each
    state: otherwise somebody could look for other rows of the same sum.

    Args:
        document: the gallery's settings.
        secret: as `read_secret` returns it.
    """

    def __init__(self, document: str, secret: bytes) -> None:
        self._key = hashlib.blake2b(document.encode(), key=secret, digest_size=64).digest()

    def template(self, number: int, content: bytes) -> tuple[bytes, bytes]:
        """Return the seal of a template, which is stored beside it, and its share of the sum, which is not.

        Args:
            number: its sequence number.
            content: as `template_bytes` makes it.
        """
        both = self._digest(b"template", number.to_bytes(8, "little", signed=True) + content, 2 * SEAL_BYTES)
        return both[:SEAL_BYTES], both[SEAL_BYTES:]

    def entry(self, number: int, before: bytes, values: tuple[object, ...]) -> bytes:
        """Return the seal of an entry of the audit trail, which hangs on the seal of the entry before it."""
        return self._digest(b"entry", before + repr((number, *values)).encode("utf-8", "surrogateescape"))

    def state(self, values: tuple[object, ...]) -> bytes:
        """Return the seal of the values of a state."""
        return self._digest(b"state", repr(values).encode())

    def padded(self, total: int, changes: int) -> bytes:
        """Return a sum of shares as the state after so many changes stores it."""
        return ((total + self._pad(changes)) % MODULUS).to_bytes(SEAL_BYTES, "little")

    def unpadded(self, stored: bytes, changes: int) -> int:
        """Return the sum of shares that a state stores."""
        return (int.from_bytes(stored, "little") - self._pad(changes)) % MODULUS

    def _pad(self, changes: int) -> int:
        return int.from_bytes(self._digest(b"pad", repr(changes).encode()), "little")

    def _digest(self, purpose: bytes, data: bytes, size: int = SEAL_BYTES) -> bytes:
        return hashlib.blake2b(data, key=self._key, person=purpose, digest_size=size).digest()


def sum_of(shares: Iterable[bytes]) -> int:
    """Return the sum of shares, modulo 2^256."""
    return sum(int.from_bytes(share, "little") for share in shares) % MODULUS
