"""`benchmarks/speed.py head`: a table, rows in a file, a picture; and what it refuses."""

import csv
from pathlib import Path

import pytest
from bench import FLOOR, Size, append_row, contestants, draw
from speed import main


@pytest.mark.parametrize("classes", ["40", pytest.param("40,60", marks=pytest.mark.slow)])
def test_a_small_run_prints_and_keeps_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], classes: str
) -> None:
    table, figure = tmp_path / "head.csv", tmp_path / "head.png"
    small = ["--classes", classes, "--rows", "8", "--dim", "16", "--repeats", "2", "--threads", "1", "--device", "cpu"]
    kept = ["--only", "ArcFace (chunked)", "--csv", str(table), "--figure", str(figure)]
    assert main(["head", *small, *kept]) == 0
    printed = capsys.readouterr().out
    for count in classes.split(","):
        assert f"8 x 16, {count} classes" in printed
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = [FLOOR, "hypersphere ArcFace (chunked)"]
    measured = [(row["classes"], row["contestant"]) for row in rows]
    assert measured == [(count, name) for count in classes.split(",") for name in names]
    for row in rows:
        assert float(row["low_ms"]) <= float(row["median_ms"]) <= float(row["high_ms"])
        assert float(row["memory_mib"]) > 0
    ours, floor = float(rows[1]["median_ms"]), float(rows[0]["median_ms"])
    assert float(rows[1]["times_floor"]) == pytest.approx(ours / floor, rel=0.1)
    assert figure.stat().st_size > 1000


def test_all_contestants_compute_one_loss() -> None:
    """ArcFace is ArcFace whoever writes it: the gradients of the embeddings agree."""
    size = Size(8, 16, 40, "cpu", 1)
    found = {}
    for name, make in contestants(size).items():
        if "ArcFace" in name and "compiled" not in name:
            inputs = draw(size)
            step = make(inputs, size)
            step()
            assert step.__closure__ is not None
            leaves = [cell.cell_contents for cell in step.__closure__]
            found[name] = next(leaf.grad for leaf in leaves if getattr(leaf, "shape", None) == (8, 16))
    assert len(found) == 4
    first = next(iter(found.values()))
    for grad in found.values():
        assert float((grad - first).abs().max()) < 1e-5 * float(first.abs().max()) + 1e-7


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--classes", "1"], "--classes"),
        (["--classes", "50000000,many"], "--classes"),
        (["--figure", "heads.zzz", "--classes", "50000000"], "--figure"),
        (["--check"], "--plan"),
        (["--rows", "0"], "--rows"),
        (["--only", "nobody"], "--only"),
        (["--device", "tpu"], "device='tpu' is unknown"),
    ],
)
def test_bad_options_are_named(options: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["head", *options]) != 0
    assert word in capsys.readouterr().err


def test_a_file_with_other_columns_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    append_row(path, {"a": 1, "b": 2})
    append_row(path, {"a": 3, "b": 4})
    with pytest.raises(ValueError, match="name another file"):
        append_row(path, {"a": 3, "c": 4})
    assert path.read_text() == "a,b\n1,2\n3,4\n"
