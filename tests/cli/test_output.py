"""What every command shares: --json, --quiet, --verbose, colours and the exit status."""

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersphere.cli import main
from hypersphere.cli.output import Results, bold, has_colours, note, red, wrapped
from hypersphere.core import Failure, Progress
from hypersphere.data.images import encode
from tests.training.small import RECIPE


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    for person in "ab":
        (tmp_path / "faces" / person).mkdir(parents=True)
        for number in range(2):
            (tmp_path / "faces" / person / f"{number}.png").write_bytes(encode(np.zeros((8, 8, 3), np.uint8)))
    return tmp_path / "faces"


def run_json(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[dict[str, Any], str]:
    """The document on standard output, which nothing else is on, and the words on standard error."""
    assert main([*map(str, words), "--json"]) == 0
    printed = capsys.readouterr()
    document: dict[str, Any] = json.loads(printed.out)
    return document, printed.err


def test_theory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document, words = run_json(capsys, "theory", "termination", "--out", tmp_path)
    assert {row["what"] for row in document["findings"]} >= {"ArcFace, m2 = 0.6"}
    assert all(Path(path).is_file() for path in document["figures"])
    assert "ArcFace, m2 = 0.6" in words
    assert "toy" in run_json(capsys, "theory", "--list")[0]["items"]
    document, _ = run_json(capsys, "theory", "toy", "--steps", "2", "--out", tmp_path)
    assert document["losses"]["ArcFace"]["paper_degrees"] == 67.74


def test_reproduce(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document, _ = run_json(capsys, "reproduce", "--list", "--kind", "theory")
    assert {item["kind"] for item in document["items"]} == {"theory"}
    document, words = run_json(capsys, "reproduce", "normface/fig5", "--out", tmp_path)
    assert document["results"]["normface/fig5"]["findings"]
    assert "normface/fig5" in words


def test_advise_and_explore(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document, _ = run_json(capsys, "advise", "--classes", 1000, "--dim", 64, "--m2", 0.3)
    assert document["advice"]["setting"]["num_classes"] == 1000
    assert document["own"]["setting"]["m2"] == 0.3
    page = tmp_path / "page.html"
    assert run_json(capsys, "explore", "--out", page)[0] == {"page": str(page)}


def test_data(faces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document, words = run_json(capsys, "data", "inspect", faces)
    assert (document["images"], document["identities"], document["unreadable"]) == (4, 2, [])
    assert document["per_identity"] == {"least": 2, "median": 2, "most": 2}
    assert "per identity" in words
    assert run_json(capsys, "data", "pack", faces, tmp_path / "x.tar")[0]["images"] == 4
    assert run_json(capsys, "data", "convert", faces, tmp_path / "y")[0]["identities"] == 2
    shared, _ = run_json(capsys, "data", "overlap", faces, tmp_path / "y")
    assert shared["pairs"] == [{"first": name, "second": name} for name in "ab"]


def test_train_and_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    words = [recipe, "--out", tmp_path / "run", "--device", "cpu", "train.steps=2", "train.log_every=1"]
    document, printed = run_json(capsys, "train", *words)
    assert Path(document["folder"]) == tmp_path / "run"
    ((figure,),) = document["accuracy"].values()
    assert 0 <= figure["low"] <= figure["value"] <= figure["high"] <= 1
    assert "verification accuracy" in printed
    document, _ = run_json(capsys, "compare", *words, "--heads", "arcface,cosface", "--seeds", 2)
    assert {title: [run["seed"] for run in runs] for title, runs in document["cells"].items()} == {
        "arcface": [0, 1],
        "cosface": [0, 1],
    }
    document, _ = run_json(capsys, "train", "--list")
    assert "pocket/faces" in document["recipes"]


def test_evaluate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"{person}/{number}.png" for person in range(10) for number in range(4)]
    (tmp_path / "names.txt").write_text("".join(f"{name}\n" for name in names))
    pairs = [(names[4 * p], names[4 * p + 1], 1) for p in range(10)]
    pairs += [(names[4 * p + 2], names[(4 * p + 7) % 40], 0) for p in range(10)]
    (tmp_path / "pairs.txt").write_text("".join(f"{a} {b} {same}\n" for a, b, same in pairs))
    for seed, folder in enumerate("ab"):
        np.save(tmp_path / "e.npy", np.random.default_rng(seed).normal(size=(40, 8)))
        words = ["--embeddings", tmp_path / "e.npy", "--names", tmp_path / "names.txt"]
        words += ["--pairs", tmp_path / "pairs.txt", "--far", 0.1, "--out", tmp_path / folder]
        document, printed = run_json(capsys, "evaluate", "pairs", *words)
        saved = json.loads((tmp_path / folder / "result.json").read_text())
        assert len(saved.pop("items_sha256")) == 64
        assert document == {**saved, "folder": str(tmp_path / folder)}
        assert all(len(line) <= 80 for line in printed.splitlines() if str(tmp_path) not in line)
    document, printed = run_json(capsys, "evaluate", "compare", tmp_path / "a", tmp_path / "b")
    assert "accuracy" in [metric["name"] for metric in document["metrics"]]
    assert "mcnemar" in printed
    assert all(len(line) <= 80 for line in printed.splitlines())


def test_the_document_is_json() -> None:
    @dataclass
    class Figure:
        value: float

    document = {
        "figure": Figure(float("nan")),
        "count": np.int64(3),
        "array": np.ones(2),
        "path": Path("a/b"),
        "none": None,
        "sets": (True, {1.5}),
    }
    assert json.loads(Results(document).to_json()) == {
        "figure": {"value": None},
        "count": 3,
        "array": [1.0, 1.0],
        "path": "a/b",
        "none": None,
        "sets": [True, [1.5]],
    }


def test_quiet_and_verbose_work_before_and_after_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy = ["theory", "toy", "--steps", "2", "--out", str(tmp_path)]
    for words in (["-q", *toy], [*toy, "-q"], ["theory", "--quiet", *toy[1:]]):
        assert main(words) == 0
        assert Progress.silent
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("loss")
        assert "spheres" not in "".join(lines)
    assert main([*toy, "-v"]) == 0
    assert not Progress.silent
    printed = capsys.readouterr()
    assert "8 prototypes" in printed.out
    assert printed.err.startswith("hypersphere 0.")
    assert "torch" in printed.err


def test_an_error_has_a_traceback_only_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", "toy", "--steps", "0"]) == 2
    assert capsys.readouterr().err == "hypersphere: --steps 0 must be at least 1\n"
    assert main(["theory", "toy", "--steps", "0", "-v"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("Traceback")
    assert error.endswith("hypersphere: --steps 0 must be at least 1\n")


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (ValueError("wrong"), 2, "wrong"),
        (FileNotFoundError("not there"), 2, "not there"),
        (Failure("stopped"), 1, "stopped"),
        (PermissionError("not yours"), 1, "not yours"),
        (ModuleNotFoundError("needs x"), 1, "needs x"),
    ],
)
def test_the_status_says_what_kind_of_failure(
    error: BaseException, status: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr("hypersphere.cli.explore.run", fail)
    assert main(["explore"]) == status
    assert capsys.readouterr().err == f"hypersphere: {line}\n"


def test_ctrl_c_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt  # what SIGINT does, unless whoever started the tests ignores it

    monkeypatch.setattr("hypersphere.cli.explore.run", interrupt)
    assert main(["explore"]) == 130
    assert capsys.readouterr() == ("", "hypersphere: interrupted\n")
    monkeypatch.setattr("hypersphere.cli.train.run_train", interrupt)
    assert main(["train", "pocket/faces"]) == 130
    said = "hypersphere: interrupted; the same command goes on from what is saved\n"
    assert capsys.readouterr() == ("", said)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert red("no", Terminal()) == "\x1b[31mno\x1b[0m"
    assert bold("best", Terminal()) == "\x1b[1mbest\x1b[0m"
    assert red("no", io.StringIO()) == "no"
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colours(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not has_colours(Terminal())


def test_lists_fit_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "what the papers prove or show in small, computed"
    assert wrapped("name  ", text) == f"name  {text}"
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "40")
    assert wrapped("name  ", text) == "name  what the papers prove or show in\n      small, computed"


def test_a_note_is_silent_when_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    note("words")
    monkeypatch.setattr(Progress, "silent", True)
    note("more words")
    assert capsys.readouterr().out == "words\n"
