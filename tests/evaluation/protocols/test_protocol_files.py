from pathlib import Path

import numpy as np
import pytest

from hypersphere.evaluation.protocols import official_files as files
from hypersphere.evaluation.protocols.official_files import numbered_lines, read_integers, read_json_table, unit_rows  # type: ignore[attr-defined]

COLUMNS = ("template", "template", "label")


def test_integers_are_read_in_blocks_of_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = np.random.default_rng(0).integers(-5, 10**6, (500, 3))
    path = tmp_path / "pairs.txt"
    path.write_text("\n".join(" ".join(map(str, row)) for row in wanted.tolist()))
    for size in (1, 17, 1000, 1 << 20):
        monkeypatch.setattr(files, "_BLOCK", size)
        np.testing.assert_array_equal(read_integers(path, COLUMNS), wanted)


@pytest.mark.parametrize("size", [4, 1 << 20])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2 3\n4 5\n6 7 8 9\n", "line 2: 2 fields; expected template, template, label"),
        ("1 2 3\n4 5 6 7\n8 9\n", "line 2: 4 fields"),
        ("1 2 3\n\n4 5 6.5\n", "line 3: the label '6.5' is not an integer"),
        ("1 2 3\n1 2 99999999999\n", "line 2: the label 99999999999 is out of range"),
        ("1 2 3\n1 \xe9 3\n", "line 2: the template"),
        ("", "no lines"),
        ("\n\n", "no lines"),
    ],
)
def test_wrong_lines_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str, size: int
) -> None:
    monkeypatch.setattr(files, "_BLOCK", size)
    (tmp_path / "pairs.txt").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_integers(tmp_path / "pairs.txt", COLUMNS)


def test_files_that_are_not_there_or_not_text_are_named(tmp_path: Path) -> None:
    for read in (lambda p: list(numbered_lines(p)), lambda p: read_integers(p, COLUMNS), read_json_table):
        with pytest.raises(ValueError, match="none.txt: there is no such file"):
            read(tmp_path / "none.txt")
    (tmp_path / "bytes.txt").write_bytes(b"a\n\xff\n")
    with pytest.raises(ValueError, match="byte 2 is not UTF-8 text"):
        list(numbered_lines(tmp_path / "bytes.txt"))
    (tmp_path / "list.json").write_text("[1,\n2")
    with pytest.raises(ValueError, match="list.json, line 2: not JSON"):
        read_json_table(tmp_path / "list.json")
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(ValueError, match="expected a table"):
        read_json_table(tmp_path / "list.json")


def test_unit_rows_have_length_one_and_a_direction() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32) * 1000
    np.testing.assert_allclose(np.linalg.norm(unit_rows(rows, str), axis=1), 1, rtol=1e-6)
    rows[3] = 0
    with pytest.raises(ValueError, match="row 3 is the zero vector"):
        unit_rows(rows, lambda k: f"row {k}")
