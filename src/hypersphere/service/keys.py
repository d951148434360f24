"""Keys of clients: a name, what each may ask, how much of it, and the digest of its token in a file."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypersphere.core import build, check_choice, check_integer, check_positive, read_json, write_atomically
from hypersphere.service.request_log import log_line

ROLES = ("verify", "identify", "enroll", "administer", "scores")
"""What a key may ask. `scores` shows scores where there is no match: whoever sees them can climb towards a template."""
_FILE_LIMIT = 2**22
_LOOK_AGAIN = 1.0


@dataclass(frozen=True, kw_only=True)
class Key:
    """Who a client is, and what it may ask.

    Args:
        name: in logs and the audit trail.
        roles: of `ROLES`; `administer` may ask everything but for scores.
        digest: SHA-256 of the token, in hexadecimal digits.
        former: that of the token before, which is taken until `former_until`, in seconds since 1970.
        expires: from then on, in seconds since 1970, the key is refused.
        rate: requests a second; that of the service by default.
        quota: requests a day; 0 for any number.
        non_matches: decisions a day without a match; that of the service by default, 0 for any number.
    """

    name: str
    roles: tuple[str, ...]
    digest: str = ""
    former: str = ""
    former_until: float = 0.0
    expires: float | None = None
    rate: float | None = None
    quota: int = 0
    non_matches: int | None = None

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > 100 or not self.name.isprintable():
            raise ValueError(f"name={self.name!r} must have 1 to 100 printable characters")
        if not self.roles:
            raise ValueError(f"roles of the key {self.name!r} are missing: {', '.join(ROLES)}")
        for role in self.roles:
            check_choice("roles", role, ROLES)
        check_integer("quota", self.quota, 0)
        if self.non_matches is not None:
            check_integer("non_matches", self.non_matches, 0)
        if self.rate is not None:
            check_positive("rate", self.rate)

    def may(self, role: str) -> bool:
        """Whether the key has a role."""
        return role in self.roles or (role != "scores" and "administer" in self.roles)


class KeyFile:
    """Keys in a JSON file, which has digests of their tokens and no token.

    Args:
        path: the file; `add` makes it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def keys(self) -> tuple[Key, ...]:
        """All keys, by name."""
        document = read_json(self.path, limit=_FILE_LIMIT)
        if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
            raise ValueError(f"{self.path}: not a file of keys; `hypersphere keys add` makes one")
        try:
            keys = [build(Key, entry, "key") for entry in document["keys"]]
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None
        if len({key.name for key in keys}) < len(keys):
            raise ValueError(f"{self.path}: two keys have one name")
        return tuple(sorted(keys, key=lambda key: key.name))

    def add(self, name: str, roles: Sequence[str], **limits: Any) -> str:
        """Make a key; return its token, which is kept nowhere.

        Args:
            name: of the key, which no other has.
            roles: what it may ask.
            limits: the other fields of `Key`.
        """
        token = secrets.token_urlsafe(32)
        key = Key(name=name, roles=tuple(roles), digest=digest_of(token), **limits)
        keys = self.keys() if self.path.exists() else ()
        if name in {each.name for each in keys}:
            raise ValueError(f"{self.path}: has a key {name!r} already; `keys rotate` gives it a new token")
        self._write([*keys, key])
        return token

    def rotate(self, name: str, grace: float) -> str:
        """Give a key a new token and return it; the old one is taken for `grace` seconds more."""
        token = secrets.token_urlsafe(32)
        key = self._find(name)
        until = time.time() + check_positive("grace", grace) if grace else 0.0
        former = key.digest if grace else ""
        new = dataclasses.replace(key, digest=digest_of(token), former=former, former_until=until)
        self._write([new if key.name == name else key for key in self.keys()])
        return token

    def remove(self, name: str) -> None:
        """Remove a key: its token is refused from the next second on."""
        key = self._find(name)
        self._write([each for each in self.keys() if each != key])

    def _find(self, name: str) -> Key:
        for key in self.keys():
            if key.name == name:
                return key
        raise ValueError(f"{self.path}: has no key {name!r}")

    def _write(self, keys: Sequence[Key]) -> None:
        text = json.dumps({"keys": [dataclasses.asdict(key) for key in keys]}, indent=1)
        write_atomically(self.path, text.encode())


class Keyring:
    """The keys that a service takes, those of a file as they are now.

    Args:
        keys: that never change.
        path: of a file with keys.
    """

    def __init__(self, keys: Sequence[Key] = (), path: str = "") -> None:
        self._fixed = tuple(keys)
        self._file = KeyFile(path) if path else None
        self._state: tuple[int, int] | None = None
        self._looked = -_LOOK_AGAIN
        self._keys = (*self._fixed, *(self._file.keys() if self._file else ()))

    def find(self, token: str) -> Key | None:
        """The key of a token; None where there is none, or where it has expired."""
        self._look()
        digest, now, found = digest_of(token), time.time(), None
        for key in self._keys:  # all of them, so that the time says nothing
            for known, valid in ((key.digest, True), (key.former, now < key.former_until)):
                if hmac.compare_digest(known or "none", digest) and valid:
                    found = key
        return None if found is None or (found.expires is not None and found.expires <= now) else found

    def _look(self) -> None:
        """Read the file again if it has changed; a damaged one changes nothing."""
        if self._file is None or time.monotonic() - self._looked < _LOOK_AGAIN:
            return
        self._looked = time.monotonic()
        try:
            status = self._file.path.stat()
            state = (status.st_mtime_ns, status.st_ino)
            if state != self._state:
                self._keys = (*self._fixed, *self._file.keys())
                self._state = state
        except (OSError, ValueError) as error:
            log_line("keys_unreadable", kind=type(error).__name__)


def digest_of(token: str) -> str:
    """SHA-256 of a token: tokens are drawn with 256 bits, so that no slow digest is needed."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
