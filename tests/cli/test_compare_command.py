"""`hypersphere compare`, small."""

import json
from pathlib import Path

import pytest

from hypersphere.cli import main
from hypersphere.cli.compare import _Shown
from hypersphere.data import write_folder
from hypersphere.pocket import PocketFaces
from hypersphere.training import Checkpoints, compare_cells, read_log
from tests.training.small import RECIPE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE)
    return file


def test_settings_of_the_head_reach_every_cell(path: Path) -> None:
    cells = compare_cells(path, ["head.scale=40"], ["arcface", "cosface"], ["data.size=[16,16],[24,24]"], 2)
    found = dict(cells)
    assert list(found) == [f"{head}, data.size=[{n}, {n}]" for head in ("arcface", "cosface") for n in (16, 24)]
    for recipes in found.values():
        assert [recipe.train.seed for recipe in recipes] == [0, 1]
        assert all(recipe.head["scale"] == 40 for recipe in recipes)
    assert found["cosface, data.size=[24, 24]"][0].data.size == (24, 24)


def test_words_make_an_axis_too(path: Path) -> None:
    cells = list(compare_cells(path, [], [], ["schedule.name=cosine,linear"], 1))
    assert [title for title, _ in cells] == ["schedule.name=cosine", "schedule.name=linear"]


def test_a_cell_that_stops_does_not_stop_the_table(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "cells"), "--device", "cpu", "train.steps=4", "train.log_every=2"]
    assert main(["compare", str(path), "--grid", "optimizer.lr=1e20,0.05", "--seeds", "2", *out]) == 0
    title, *rows, last = capsys.readouterr().out.splitlines()
    assert title.split() == ["cell", "unseen", "identities", "fit", "%", "||x||", "n"]  # not cut, in a file
    assert rows[0].split() == ["optimizer.lr=1e+20", "-", "-", "-", "0"]
    assert all("stopped" in row and "the loss is" in row for row in rows[1:3])
    name, accuracy, _, spread, fit, norm, runs = rows[3].split()
    assert (name, runs) == ("optimizer.lr=0.05", "2")
    assert 40 < float(accuracy) < 100
    assert min(float(spread), float(fit), float(norm)) >= 0
    assert max(map(len, (title, rows[0], rows[3]))) <= 80
    assert last.endswith("results.jsonl")
    assert main(["compare", str(path), "--grid", "optimizer.lr=1e20,0.05", "--seeds", "2", *out]) == 0
    said, _, *again, _ = capsys.readouterr().out.splitlines()
    assert said.startswith("4 of 4 runs are on record")
    assert again == rows


def test_files_of_one_name_in_two_folders_are_refused(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A record knows files by their last names: both cells would be the first one's run."""
    grid = ["--grid", "teacher.model=a/t.onnx,b/t.onnx", "--out", str(tmp_path / "cells"), "--device", "cpu"]
    assert main(["compare", str(path), *grid]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "teacher.model=a/t.onnx and teacher.model=b/t.onnx differ only by where files lie" in said
    assert not (tmp_path / "cells").exists()


def test_cells_are_compared_with_the_first(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "cells"), "--device", "cpu", "train.steps=4"]
    assert main(["compare", str(path), "--heads", "softmax,arcface", *out]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[3] == "points against softmax on unseen identities [95 % over people and seeds]:"
    gain, low, high = (float(text.strip("[],")) for text in rows[4].removeprefix("  arcface: ").split())
    first, second = (float(row.split()[1]) for row in rows[1:3])
    assert gain == pytest.approx(second - first, abs=0.011)
    assert low <= gain <= high


def test_a_first_cell_that_stopped_is_not_compared_with(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "cells"), "--device", "cpu", "train.steps=4"]
    assert main(["compare", str(path), "--grid", "optimizer.lr=1e20,0.05,0.01", *out]) == 0
    said = [row for row in capsys.readouterr().out.splitlines() if row.startswith(("points", "  optimizer"))]
    assert said[0].startswith("points against optimizer.lr=0.05 on ")
    assert [row.partition(":")[0] for row in said[1:]] == ["  optimizer.lr=0.01"]


def test_the_last_line_of_progress_counts_the_last_run() -> None:
    said: list[tuple[int, int, str]] = []
    shown = _Shown(lambda *words: said.append(words), 2)  # type: ignore[arg-type]
    for number in range(2):
        for done in (1, 2, 3):
            shown(number, done, 3)
        shown.finish()
    assert said[-1] == (6, 6, "2 of 2 runs done")
    assert said[2] == (3, 6, "1 of 2 runs done"), "the steps of the runs to come are expected to be as many"


def test_data_without_unseen_people_cannot_be_compared(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_folder(PocketFaces(num_identities=4, images_per_identity=3, size=(16, 16)), tmp_path / "faces")
    assert main(["compare", str(path), f"data.source={tmp_path / 'faces'}", "--device", "cpu"]) == 2
    assert "data.validation.identities=0.1" in capsys.readouterr().err
    assert main(["train", str(path), f"data.source={tmp_path / 'faces'}", "--best", "--device", "cpu"]) == 2
    assert "--best needs people whom training does not see" in capsys.readouterr().err


def test_the_best_checkpoint_is_kept_and_scored(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    monkeypatch.setattr(Checkpoints, "best", lambda self: min(self.steps(), default=None))
    settings = ["train.steps=8", "train.keep=1", "head.name=arcface", "train.checkpoint_every=4"]
    command = ["train", str(path), *settings, "--best", "--out", str(folder), "--device", "cpu", "--json"]
    assert main(command) == 0
    scores = {
        record["step"]: record["unseen identities"]
        for record in read_log(folder / "log.jsonl")
        if "unseen identities" in record
    }
    assert list(scores) == [4, 8]
    assert scores[4] != scores[8]
    shown = capsys.readouterr()
    assert "the best checkpoint, chosen on unseen identities, is that of step 4" in shown.err
    (scored,) = json.loads(shown.out)["accuracy"]["unseen identities"]
    assert scored["value"] == scores[4]


def test_going_on_without_best_keeps_no_old_best(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    command = ["train", str(path), "train.steps=4", "train.checkpoint_every=2", "--out", str(folder), "--device", "cpu"]
    checkpoints = Checkpoints(folder / "checkpoints")
    assert main([*command, "--best"]) == 0
    assert checkpoints.best() is not None
    capsys.readouterr()
    assert main(command) == 0
    assert checkpoints.best() is None
    assert checkpoints.steps() == [2, 4]
    assert "the best checkpoint" not in capsys.readouterr().out


def test_images_are_no_recipe_to_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(tmp_path), "--heads", "softmax,arcface", "--device", "cpu"]) == 2
    assert f"`hypersphere train {tmp_path} --dry-run > images.toml`" in capsys.readouterr().err


def test_the_page_has_the_answer_curves_and_hardest_pairs(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    cells, page = tmp_path / "cells", tmp_path / "page.html"
    command = ["compare", str(path), "--heads", "softmax,arcface", "--seeds", "2", "train.steps=4", "--device", "cpu"]
    assert main([*command, "--out", str(cells), "--page", str(page), "--tensorboard"]) == 0
    assert f"the page: {page}" in capsys.readouterr().out
    html = page.read_text()
    for said in (
        "softmax, arcface, compared",
        "against softmax",
        "loss by step",
        "The hardest pairs",
        "2 of 2",
        "--page",
    ):
        assert said in html, said
    assert len(list(cells.glob("*/tensorboard/events*"))) == 4
    page.unlink()
    assert main([*command, "--out", str(cells), "--page", str(page)]) == 0  # of runs on record
    assert page.is_file()


def test_a_page_that_cannot_be_written_is_refused_before_training(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, said in (("page.pdf", "ends in .html"), ("none/page.html", "does not exist")):
        assert main(["compare", str(path), "--out", str(tmp_path / "cells"), "--page", str(tmp_path / name)]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "cells").exists()


def test_training_leaves_a_picture(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["train", str(path), "train.steps=4", "--out", str(out), "--device", "cpu"]) == 0
    assert f"drawn: {out / 'training.png'}" in capsys.readouterr().out
    assert (out / "training.png").read_bytes().startswith(b"\x89PNG")
