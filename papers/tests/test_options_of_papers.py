"""Options of `reproduce` and `theory` that no story of the other tests needs: each has an effect."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hypersphere as hs
from hypersphere.cli import main
from hypersphere_papers import commands, laboratory, theory_command
from hypersphere_papers.engine.outcome import Outcome, checked

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def document(capsys: Capture, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["--json", *words]) == 0
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


def test_reproduce_hands_over_how_items_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    asked: list[Any] = []

    def run_entries(entries: Any, folder: Path, how: Any) -> Iterator[Any]:
        asked.append((folder, how.cache, how.jobs, str(how.device)))
        return iter(())

    monkeypatch.setattr(laboratory, "run_entries", run_entries)
    words = ["reproduce", "normface/fig5", "--cache", "kept", "--jobs", "2", "--device", "cpu"]
    assert main([*words, "--out", str(tmp_path)]) == 0
    assert asked == [(tmp_path, Path("kept"), 2, "cpu")]


def test_reproduce_assembles_pages(tmp_path: Path, capsys: Capture) -> None:
    assert main(["reproduce", "--pages", "--out", str(tmp_path / "pages")]) == 0
    assert (tmp_path / "pages" / "index.md").is_file()


@pytest.mark.parametrize("name", commands.ITEMS)
def test_every_item_of_theory_writes_where_asked(name: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theorem = laboratory.THEOREMS[name]
    drawn = Outcome(findings=[checked("one", "1", held=True)], figures={name: lambda: hs.plots.new_figure(1, 1)})
    monkeypatch.setitem(laboratory.THEOREMS, name, replace(theorem, compute=lambda: drawn, in_parts=False))
    assert main(["theory", name, "--out", "elsewhere"]) == 0
    assert sorted(path.name for path in Path("elsewhere").iterdir()) == [f"{name}.png", f"{name}.svg"]


def test_the_toy_begins_by_its_seed(here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theory_command, "is_installed", lambda _: False)  # pictures take longer than all else
    monkeypatch.setattr(hs.theory, "TOY_LOSSES", hs.theory.TOY_LOSSES[:1])
    words = ["theory", "toy", "--steps", "2", "--out", "toy", "--seed"]
    one, again, other = (document(capsys, *words, seed)["losses"] for seed in ("1", "1", "2"))
    assert one == again != other
