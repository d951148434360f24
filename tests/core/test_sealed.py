"""Sealed tables: a changed one is not believed."""

import json
from pathlib import Path

import pytest

from hypersphere.core import read_sealed, seal_of, sealed_text

TABLE = {"b": [1, 2.5, {"c": None}], "a": "text", "d": -0.0, "e": True}


def test_a_table_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    for text in (sealed_text(TABLE), sealed_text(TABLE, indent=1)):
        path.write_bytes(text)
        assert read_sealed(path, "table") == (TABLE, True)
    turned = {key: json.loads(text)[key] for key in ("seal", "e", "d", "b", "a")}
    path.write_text(json.dumps(turned, indent=3))
    assert read_sealed(path, "table") == (TABLE, True)
    path.write_text(json.dumps(TABLE))
    assert read_sealed(path, "table") == (TABLE, False)
    assert seal_of(TABLE) == turned["seal"]


@pytest.mark.parametrize(
    "change", [{"a": "Text"}, {"b": [1, 2.5, {}]}, {"d": 0.0}, {"e": 1}, {"f": 0}, {"seal": ""}, {"seal": 3}]
)
def test_a_changed_table_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps({**json.loads(sealed_text(TABLE)), **change}))
    with pytest.raises(
        ValueError, match=r"table\.json: damaged, or changed after it was written: this is not the plan"
    ):
        read_sealed(path, "plan")


def test_what_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    for text in (b"[]", b'"seal"', b"", b"\xff", b'{"a": NaN}'):
        path.write_bytes(text)
        with pytest.raises(ValueError, match=r"table\.json"):
            read_sealed(path, "plan")
