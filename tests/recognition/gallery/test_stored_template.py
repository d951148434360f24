"""What is stored of a template: float16 numbers and a digest."""

import hashlib
import struct

import numpy as np

from hypersphere.recognition.gallery.stored_template import Record, packed
from tests.recognition.gallery.people import units


def test_float16_moves_a_cosine_by_less_than_stated() -> None:
    rows, probes = units(500, dim=512).astype(np.float64), units(50, 1, dim=512).astype(np.float64)
    stored = np.stack([np.frombuffer(packed(row.astype(np.float32)), "<f2") for row in rows]).astype(np.float64)
    off = np.abs(probes @ stored.T - probes @ rows.T)
    assert 1e-6 < off.max() < 5e-5
    worst = np.linalg.norm(stored - rows, axis=1)
    assert (off <= worst).all()
    assert worst.max() < 2**-11 + 512 * 2**-25


def test_the_digest_of_a_row_is_part_of_the_format() -> None:
    record = Record(id="k", subject="Ada", vector=b"\0\x3c\0\0", consent="door", enrolled=1.5, expires=2.0)
    parts = [b"k", b"Ada", b"{}", b"door", record.vector, struct.pack("<d", 1.5), struct.pack("<d", 2.0)]
    plain = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    assert record.digest == hashlib.sha256(plain).digest()
