"""The rows of a gallery in Milvus. Texts are compared by their digests: no name can be taken for an expression."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from hypersphere.core import parse_json
from hypersphere.recognition.gallery.driver import AuditEntry
from hypersphere.recognition.gallery.stored_template import Record, audit_digest, metadata_of, packed

NEVER = 1e300
"""When a template expires that does not."""


def text_key(text: str) -> str:
    """A text as a key that is a plain word in any expression."""
    return hashlib.sha256(text.encode()).hexdigest()


def tag_key(key: str, value: str) -> str:
    """A key and its value of metadata as one word."""
    return text_key(json.dumps([key, value]))


def trail_row(name: str, document: str) -> dict[str, Any]:
    """A row of the audit trail's collection, with the vector that Milvus insists on."""
    return {"id": name, "vector": [0.0, 1.0], "document": document}


def as_row(record: Record) -> dict[str, Any]:
    """The row of a record; its vector has float16's numbers in float32, which every server takes."""
    words = ("id", "subject", "metadata", "consent", "enrolled", "expires")
    document = {**{word: getattr(record, word) for word in words}, "digest": record.digest.hex()}
    return {
        "id": text_key(record.id),
        "vector": np.frombuffer(record.vector, "<f2").astype(np.float32),
        "document": json.dumps(document, ensure_ascii=False),
        "subject": text_key(record.subject),
        "tags": [tag_key(key, value) for key, value in metadata_of(record).items()],
        "expires": NEVER if record.expires is None else record.expires,
        "damaged": False,
    }


def as_record(row: Mapping[str, Any]) -> Record | None:
    """The record of a row; None if it is damaged."""
    try:
        document = parse_json(row["document"], "a template")
        digest = bytes.fromhex(document.pop("digest"))
        record = Record(vector=packed(np.asarray(row["vector"], np.float32)), **document)
        return record if record.digest == digest else None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def as_entry(row: Mapping[str, Any]) -> AuditEntry | None:
    """The audit entry of a row; None if it is damaged."""
    try:
        *values, digest = parse_json(row["document"], "an audit entry")
        return AuditEntry(*values) if audit_digest(*values).hex() == digest else None
    except (TypeError, ValueError):
        return None
