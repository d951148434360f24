"""`hypersphere data`: what it prints and writes, and how it fails."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hypersphere.cli import main
from hypersphere.data import ArraySource, FolderSource, RecordSource, Subset, TarSource, write_folder, write_pack
from hypersphere.pocket import PocketFaces
from hypersphere.training import Trainer, load_recipe
from tests.data.samples import make_folder, picture, saved


def run(capsys: pytest.CaptureFixture[str], *words: object, status: int = 0) -> str:
    assert main(["data", *map(str, words)]) == status
    shown = capsys.readouterr()
    if status:
        assert shown.err.count("\n") == 1, "an error is one line"
        return shown.err
    assert shown.err == ""
    return shown.out


def table(text: str) -> dict[str, str]:
    return {line[:14].strip(): line[14:].strip() for line in text.splitlines() if not line.startswith("  ")}


def test_inspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_folder(tmp_path / "set", each=3)
    (root / "Cy" / "2.jpg").unlink()
    (root / "Cy" / "1.jpg").write_bytes(saved(picture(1, 20, 30)))
    (root / "Ada" / "0.jpg").write_bytes(b"")
    text = run(capsys, "inspect", root)
    assert table(text) == {
        "format": "folder",
        "images": "8",
        "identities": "3",
        "per identity": "least 2, median 3, most 3",
        "sizes": "10x12 (6), 30x20 (1)",
        "unreadable": "1 of 8 read",
    }
    assert f"  {root / 'Ada' / '0.jpg'}: empty (0 bytes)\n" in text
    assert table(run(capsys, "inspect", root, "--sample", 2))["unreadable"] == "1 of 2 read"
    assert table(run(capsys, "inspect", root, "--sample", 0))["unreadable"] == "1 of 8 read"


def test_inspect_says_what_else_a_format_knows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pack(FolderSource(make_folder(tmp_path / "set")), tmp_path / "x.bin", pairs=[[0, 1], [0, 2]])
    found = table(run(capsys, "inspect", tmp_path / "x.bin"))
    assert found["pairs"] == "2, 1 of one person"
    assert found["no identity"] == "4"
    assert found["identities"] == "0"
    market = tmp_path / "market"
    run(capsys, "convert", tmp_path / "set", market, "--to", "market", "--to-split", "gallery")
    found = table(run(capsys, "inspect", market, "--split", "gallery"))
    assert found["format"] == "market"
    assert found["cameras"] == "1"


def test_pack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_folder(tmp_path / "set")
    assert run(capsys, "pack", root, tmp_path / "x.rec") == f"{tmp_path / 'x.rec'}: 6 images of 3 identities\n"
    assert len(RecordSource(tmp_path / "x.rec")) == 6
    run(capsys, "pack", root, tmp_path / "shards", "--shard-size", 4)
    assert sorted(path.name for path in (tmp_path / "shards").glob("*.tar")) == ["shard-000000.tar", "shard-000001.tar"]
    run(capsys, "pack", root, tmp_path / "default")
    run(capsys, "pack", root, tmp_path / "one.tar")
    for path in ("shards", "default", "one.tar"):
        assert TarSource(tmp_path / path).names == FolderSource(root).names
    assert "format        tar\n" in run(capsys, "inspect", tmp_path / "shards" / "*.tar")


def test_pack_leaves_out_what_cannot_be_read_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_folder(tmp_path / "set", each=40)
    (root / "Ada" / "7.jpg").write_bytes(saved(picture(1))[:200])
    text = run(capsys, "pack", root, tmp_path / "x.rec", "--skip-unreadable")
    assert text.startswith("left out 1 of 120 images that cannot be read:\n")
    assert str(root / "Ada" / "7.jpg") in text
    assert len(RecordSource(tmp_path / "x.rec")) == 119
    (root / "Bo_Lee" / "7.jpg").write_bytes(b"")
    assert "7.jpg: empty (0 bytes) (--skip-unreadable leaves such images out)" in run(
        capsys, "pack", root, tmp_path / "y.tar", status=2
    )
    message = run(capsys, "pack", root, tmp_path / "y.rec", "--skip-unreadable", status=2)
    assert "2 of 120 images cannot be read (1.7%, more than the 1.0% allowed)" in message
    assert not (tmp_path / "y.rec").exists()


def test_convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_folder(tmp_path / "set")
    run(capsys, "convert", root, tmp_path / "list.txt")
    run(capsys, "convert", tmp_path / "list.txt", tmp_path / "x.tar")
    run(capsys, "convert", tmp_path / "x.tar", tmp_path / "copy")
    copy, source = FolderSource(tmp_path / "copy"), FolderSource(root)
    assert [copy.encoded(k) for k in range(6)] == [source.encoded(k) for k in range(6)]
    (tmp_path / "gap.txt").write_text("set/Ada/0.jpg 5\nset/Cy/0.jpg 9\n")
    run(capsys, "convert", tmp_path / "gap.txt", tmp_path / "gap.rec", "--relabel")
    assert RecordSource(tmp_path / "gap.rec").labels.tolist() == [0, 1]
    elsewhere = tmp_path / "lists"
    elsewhere.mkdir()
    (elsewhere / "a.txt").write_text("Ada/0.jpg\nCy/0.jpg\n")
    run(capsys, "convert", elsewhere / "a.txt", tmp_path / "a.rec", "--root", root, "--format", "list", status=2)
    run(capsys, "convert", elsewhere / "a.txt", tmp_path / "new" / "a.rec", "--root", root, "--format", "list")
    assert RecordSource(tmp_path / "new" / "a.rec").names == ["Ada", "Cy"]


def test_overlap_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = make_folder(tmp_path / "a", each=1, people=("Ada_L", "Bo", "Cy"))
    second = make_folder(tmp_path / "b", each=1, people=("ada l", "Cy", "Dee", "Eve"))
    text = run(capsys, "overlap", first, second)
    assert text == "2 identities shared by name (of 3 and 4)\nAda_L  =  ada l\nCy\n"


def test_overlap_by_embedding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", np.eye(3))
    np.save(tmp_path / "b.npy", np.array([[0, 2.0, 0], [1, 1, 0]]))
    text = run(capsys, "overlap", "--embeddings", tmp_path / "a.npy", tmp_path / "b.npy", "--threshold", 0.6)
    assert text.splitlines() == [
        "3 pairs of identities with a cosine of at least 0.6",
        "       1       0   1.000",
        "       0       1   0.707",
        "       1       1   0.707",
    ]


def test_overlap_by_embedding_needs_nothing_that_was_loaded_before(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(3))
    words = ["data", "overlap", "--embeddings", "a.npy", "a.npy", "--threshold", "0.9"]
    path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    program = [sys.executable, "-m", "hypersphere", *words]
    ended = subprocess.run(program, cwd=tmp_path, env=path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("3 pairs of identities with a cosine of at least 0.9\n")


RECIPE = """
[data]
identities = 40
images_per_identity = 12
size = [16, 16]
difficulty = 0.2
[backbone]
name = "sfnet4"
dim = 16
batch_norm = true
[head]
name = "arcface"
scale = 16
margin = 0.1
[optimizer]
lr = 0.1
[train]
steps = 60
batch_size = 64
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run on other people than those compared."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "faces.toml").write_text(RECIPE)
    Trainer(load_recipe(folder / "faces.toml"), folder / "run").run()
    return folder / "run"


def faces(path: Path, first: int, last: int, images: range, size: int = 16) -> Path:
    """People of the same town by their numbers, some of their images each."""
    town = PocketFaces(last, 12, size=size, difficulty=0.2, first_identity=1000)
    chosen = (town.labels >= first) & np.isin(np.arange(len(town)) % 12, images)
    people = Subset(town, np.flatnonzero(chosen))
    people.names = [f"{name}-of-{path.name}" for name in people.names]
    write_folder(people, path, quality=95)
    return path


def test_overlap_by_model(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = faces(tmp_path / "a", 0, 14, range(6))
    second = faces(tmp_path / "b", 9, 24, range(6, 12))
    title, *lines = run(capsys, "overlap", first, second, "--model", model, "--threshold", 0.92).splitlines()
    assert title == "5 pairs of identities with a cosine of at least 0.92 (of 14 and 15 identities)"
    assert sorted(line.split("  ", 1)[1] for line in lines) == sorted(
        f"{person}-of-a  =  {person}-of-b" for person in range(9, 14)
    )
    cosines = [float(line.split()[0]) for line in lines]
    assert cosines == sorted(cosines, reverse=True)


def test_overlap_of_images_that_are_odd(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = faces(tmp_path / "a", 0, 10, range(12))
    second = faces(tmp_path / "b", 8, 10, range(12), size=20)
    message = run(capsys, "overlap", first, second, "--model", model, status=2)
    assert "0000.jpg is 20x20 (width x height), but size=[16, 16] asks for 16x16" in message
    text = run(capsys, "overlap", first, second, "--model", model, "--resize", "--threshold", 0.9)
    assert "9-of-a  =  9-of-b" in text
    (first / "3-of-a" / "0004.jpg").write_bytes(b"")
    assert "0004.jpg: empty" in run(capsys, "overlap", first, first, "--model", model, status=2)
    text = run(capsys, "overlap", first, first, "--model", model, "--skip-unreadable", "--threshold", 0.9999)
    assert text.count("left out 1 of 120 images that cannot be read") == 2
    assert "1.000  3-of-a  =  3-of-a" in text
    write_pack(FolderSource(second), tmp_path / "x.bin")
    assert "x.bin: its images have no identities" in run(
        capsys, "overlap", second, tmp_path / "x.bin", "--model", model, "--resize", status=2
    )


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_folder(tmp_path / "set")
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    np.savez(tmp_path / "two.npz", np.eye(2))
    (tmp_path / "notes.md").write_text("x")
    cases: list[tuple[list[object], str]] = [
        (["inspect", tmp_path / "nowhere"], "nowhere is missing"),
        (["inspect", tmp_path / "notes.md"], "notes.md is of no known format"),
        (["inspect", root, "--sample", -1], "--sample -1 must be 0 (all) or more"),
        (["inspect", root, "--root", tmp_path], "format folder has no option 'root'"),
        (["pack", root, tmp_path / "x.rec", "--shard-size", 3], "--shard-size is for tar shards"),
        (["pack", root, tmp_path / "x.tar", "--shard-size", 3], "with --shard-size OUT is a folder"),
        (["pack", root, root], "set exists already"),
        (["pack", root, tmp_path / "x.lmdb"], "x.lmdb: OUT ends in .rec or .tar, or is the name of a folder of shards"),
        (["convert", root, tmp_path / "x.zip"], "x.zip: .zip files are not written; say which of folder, list, tar"),
        (["inspect", root / "Ada"], "holds images, but no folders; expected one folder of images per identity"),
        (["overlap", root, root, "--model", root], "set is no run of `hypersphere train`"),
        (["overlap", "--embeddings", "a", "b", "--model", "c"], "give two sets, or --embeddings"),
        (["convert", root, tmp_path / "x", "--to", "cifar"], "32x32 in colour"),
        (["overlap", root], "give two sets, or --embeddings with two arrays"),
        (["overlap", root, root, "--embeddings", "a", "b"], "give two sets, or --embeddings"),
        (["overlap", "--embeddings", tmp_path / "a.npy", tmp_path / "b.npy"], "no such file"),
        (["overlap", "--embeddings", tmp_path / "objects.npy", tmp_path / "objects.npy"], "not a readable .npy array"),
        (["overlap", "--embeddings", tmp_path / "two.npz", tmp_path / "two.npz"], "two.npz: not a readable .npy array"),
    ]
    for words, message in cases:
        assert message in run(capsys, *words, status=2)


def test_numbers_cannot_be_compared_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from hypersphere.data import write_records

    write_records(ArraySource(np.zeros((2, 4, 4, 3), dtype=np.uint8), [0, 1]), tmp_path / "x.rec")
    assert "identities are numbers, not names" in run(
        capsys, "overlap", tmp_path / "x.rec", tmp_path / "x.rec", status=2
    )


def test_help_shows_the_formats_and_what_a_model_is(capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in [(["--help"], "root/identity/image.jpg"), (["overlap", "--help"], "this folder of `train`")]:
        with pytest.raises(SystemExit) as leaving:
            main(["data", *words])
        assert leaving.value.code == 0
        assert message in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_names_that_the_output_cannot_hold_are_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    names = ("Ägir", "\udce9tienne")
    for folder in ("a", "b"):
        make_folder(tmp_path / folder, people=names)
    for words in ([], ["--json"]):
        stream = io.BytesIO()
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(stream, encoding))
        assert main(["data", "overlap", str(tmp_path / "a"), str(tmp_path / "b"), *words]) == 0
        shown = stream.getvalue().decode(encoding)
        if words:
            assert [pair["first"] for pair in json.loads(shown)["pairs"]] == list(names)
        else:
            assert shown.splitlines()[1:] == ["\\xc4gir" if encoding == "ascii" else "Ägir", "\\udce9tienne"]


@pytest.mark.parametrize(("place", "status"), [("set", 0), ("nowhere", 2)])
@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_closed_output_is_one_that_nobody_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], place: str, status: int
) -> None:
    make_folder(tmp_path / "set")
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr("sys.stderr", None)
    assert main(["data", "inspect", str(tmp_path / place), *words]) == status
    sys.stdout.close()
    sys.stderr.close()
