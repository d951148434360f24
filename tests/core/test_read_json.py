"""The reader of JSON: the same value or a ValueError that names the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hypersphere.core import parse_json, read_json
from hypersphere.core.read_json import JSON_DEPTH
from tests.mutate import attempt, mutations

TABLE = {"name": "Ada \u00e9", "list": [1, -2.5, None, True], "table": {"deep": [[{"x": 1e-3}]]}, "big": 2**63 - 1}


def test_plain_values_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for ascii_only in (True, False):
        path.write_text(json.dumps(TABLE, ensure_ascii=ascii_only), encoding="utf-8")
        assert read_json(path) == TABLE
    path.write_bytes(b"\xef\xbb\xbf[1]")
    assert read_json(path) == [1]
    assert parse_json('"\\ud83d\\ude00"', "x") == "\N{GRINNING FACE}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"{", "line 1: not JSON"),
        (b'"\xff"', "byte 1 is not UTF-8"),
        (b"[NaN]", "NaN is no number"),
        (b"[-Infinity]", "-Infinity is no number"),
        (b"[1e999]", "1e999 is too large"),
        (b'{"a": 1, "b": 2, "a": 3}', "'a' comes twice"),
        (b"9223372036854775808", "does not fit into 64 bits"),
        (b"9" * 5000, "does not fit into 64 bits"),
        (b"[" * 1000 + b"]" * 1000, "64 deep"),
        (b"[" * 500_000, "64 deep"),
        (b'{"a":' * 100_000, "64 deep"),
        (b'["\\ud800"]', "half of a character"),
        (b"", "not JSON"),
    ],
)
def test_damage_is_named(tmp_path: Path, text: bytes, why: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=why) as caught:
        read_json(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))


def test_depth_is_bounded_exactly() -> None:
    assert parse_json("[" * JSON_DEPTH + "]" * JSON_DEPTH, "x") is not None
    with pytest.raises(ValueError, match="64 deep"):
        parse_json("[" * (JSON_DEPTH + 1) + "]" * (JSON_DEPTH + 1), "x")


def test_size_and_absence(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[1, 2, 3]")
    with pytest.raises(ValueError, match="more than 4 bytes"):
        read_json(path, limit=4)
    with pytest.raises(ValueError, match="no such file"):
        read_json(tmp_path / "b.json")
    with pytest.raises(ValueError, match="cannot be read"):
        read_json(tmp_path)


def test_mutated_files_are_read_or_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    read = 0
    for data in mutations(json.dumps(TABLE, indent=1).encode(), 600, seed=1):
        path.write_bytes(data)
        found = attempt(read_json, path)
        if found is not None:
            json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
            read += 1
    assert 0 < read < 600
