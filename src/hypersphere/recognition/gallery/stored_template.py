"""What a gallery stores for a template, its limits and its digest: the same for every engine."""

from __future__ import annotations

import hashlib
import json
import struct
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hypersphere.core import check_finite_number, parse_json

UNIT_TOLERANCE = 1e-3
"""How far from 1 the norm of a template or probe may be."""
MOST_METADATA = 32
_LENGTH, _DOUBLE = struct.Struct("<q").pack, struct.Struct("<d").pack
Text = bytes | bytearray
_NAME_LENGTH, _VALUE_LENGTH, _METADATA_LENGTH = 200, 1000, 8000


@dataclass(frozen=True, kw_only=True)
class Record:
    """A template as it is stored.

    Args:
        id: of the template, its idempotency key; unique in a gallery.
        subject: whose it is.
        vector: d little-endian float16 numbers. Rounding a unit vector to them moves an inner product with a unit
            probe by at most 2^-11 + d 2^-25, and by at most 5e-5 in practice at d = 512.
        metadata: names to words, as JSON with sorted keys.
        consent: what the person agreed to, in the caller's words.
        enrolled: when, in seconds since 1970 (UTC).
        expires: from when on it must not be used any more; None for never.
    """

    id: str
    subject: str
    vector: bytes
    metadata: str = "{}"
    consent: str = ""
    enrolled: float = 0.0
    expires: float | None = None

    @property
    def digest(self) -> bytes:
        """SHA-256 over all of it."""
        return hashlib.sha256(self.content).digest()

    @property
    def content(self) -> bytes:
        """All of it as bytes that no other template has."""
        words = (self.id, self.subject, self.metadata, self.consent)
        name, subject, metadata, consent = (text.encode("utf-8", "surrogateescape") for text in words)
        return template_bytes((name, subject, metadata, consent), self.vector, self.enrolled, self.expires)

    def same_template(self, other: Record) -> bool:
        """Whether both say the same of the same person; when they were enrolled does not count."""
        mine = (self.subject, self.vector, self.metadata, self.consent, self.expires)
        return mine == (other.subject, other.vector, other.metadata, other.consent, other.expires)


def template_bytes(
    words: tuple[Text, Text, Text, Text], vector: bytes, enrolled: float, expires: float | None
) -> bytes:
    """Return what digests of a template are taken of: each part with its length before it.

    Written out: every row of a file takes it. Files hold the digests: another form is a new format.
    """
    name, subject, metadata, consent = words
    end = b"" if expires is None else _DOUBLE(expires)
    return b"".join(
        (
            _LENGTH(len(name)), name, _LENGTH(len(subject)), subject, _LENGTH(len(metadata)), metadata,
            _LENGTH(len(consent)), consent, _LENGTH(len(vector)), vector, _LENGTH(8), _DOUBLE(enrolled),
            _LENGTH(len(end)), end,
        )
    )  # fmt: skip


def check_words(name: str, value: Any, *, longest: int = _NAME_LENGTH, least: int = 1) -> str:
    """`value` must be printable text of `least` to `longest` characters, and not of spaces alone; returns it as NFC.

    So a name is one name, whether a keyboard composes its accents (NFC) or a file system takes them apart (NFD).
    """
    if not isinstance(value, str) or not least <= len(value) <= longest or not value.isprintable():
        raise ValueError(f"{name}={value!r:.80} must be printable text of {least} to {longest} characters")
    if value.isspace():
        raise ValueError(f"{name}={value!r:.80} is blank")
    return unicodedata.normalize("NFC", value)


def spellings(name: str) -> list[str]:
    """A name as it is, with accents composed, and apart, as earlier versions stored it."""
    return sorted({name, *(unicodedata.normalize(form, name) for form in ("NFC", "NFD"))})


def check_metadata(name: str, values: Mapping[str, str] | None) -> dict[str, str]:
    """`values` must map identifiers to printable texts."""
    known = dict(values or {})
    if len(known) > MOST_METADATA:
        raise ValueError(f"{name} has {len(known)} entries; at most {MOST_METADATA} are stored")
    for key, value in known.items():
        if not isinstance(key, str) or not key.isidentifier() or not key.isascii() or len(key) > 64:
            raise ValueError(f"{name}: the key {key!r:.80} must be a word of ASCII letters, digits and _, at most 64")
        check_words(f"{name}[{key!r}]", value, longest=_VALUE_LENGTH, least=0)
    if len(as_json(known)) > _METADATA_LENGTH:
        raise ValueError(f"{name} has {len(as_json(known))} characters; at most {_METADATA_LENGTH} are stored")
    return known


def as_json(metadata: Mapping[str, str]) -> str:
    """Metadata as they are stored."""
    return json.dumps(metadata, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def metadata_of(record: Record) -> dict[str, str]:
    """The metadata of a record."""
    return dict(parse_json(record.metadata, f"template {record.id}: metadata"))


def check_vectors(name: str, vectors: Any, dim: int) -> NDArray[np.float32]:
    """`vectors` must be (n, dim) finite numbers with rows of norm 1 to `UNIT_TOLERANCE`; returns them as float32."""
    array = np.asarray(vectors)
    if array.dtype.kind != "f":
        raise ValueError(f"{name} has dtype {array.dtype}; expected floating-point numbers")
    if array.ndim != 2 or array.shape[1] != dim:
        shape = "x".join(map(str, array.shape)) or "one number"
        raise ValueError(f"{name} has shape {shape}; expected rows of {dim} numbers, the width of this gallery")
    wide = array.astype(np.float64)
    if not np.isfinite(wide).all():
        raise ValueError(f"{name} has values that are not finite")
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    off = np.abs(norms - 1)
    if off.size and off.max() > UNIT_TOLERANCE:
        raise ValueError(f"{name} has a row of norm {norms[off.argmax()].item():.6g}; expected unit vectors")
    unit: NDArray[np.float32] = (wide / norms).astype(np.float32)
    return unit


def packed(row: NDArray[np.float32]) -> bytes:
    """A unit row as it is stored."""
    return row.astype("<f2").tobytes()


def unpacked(vectors: list[bytes], dim: int) -> NDArray[np.float16]:
    """Stored vectors as rows."""
    return np.frombuffer(b"".join(vectors), "<f2").reshape(len(vectors), dim)


def check_time(name: str, value: float | None) -> float | None:
    """`value` must be a time in seconds since 1970, or None."""
    return None if value is None else check_finite_number(name, value)


def text_digest(text: str) -> bytes:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def audit_digest(*values: Any) -> bytes:
    """The digest of an audit entry's values."""
    return text_digest(repr(values))
