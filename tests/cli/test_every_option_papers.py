"""Options of `reproduce` and `bench` that no story of the others needs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hypersphere as hs
from hypersphere.cli import main

Capture = pytest.CaptureFixture[str]


def test_reproduce_hands_over_how_items_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    asked: list[Any] = []

    def run_entries(entries: Any, folder: Path, how: Any) -> Iterator[Any]:
        asked.append((folder, how.cache, how.jobs, str(how.device)))
        return iter(())

    monkeypatch.setattr(hs.reproduce, "run_entries", run_entries)
    words = ["reproduce", "normface/fig5", "--cache", "kept", "--jobs", "2", "--device", "cpu"]
    assert main([*words, "--out", str(tmp_path)]) == 0
    assert asked == [(tmp_path, Path("kept"), 2, "cpu")]


def test_reproduce_assembles_pages(tmp_path: Path, capsys: Capture) -> None:
    assert main(["reproduce", "--pages", "--out", str(tmp_path / "pages")]) == 0
    assert (tmp_path / "pages" / "index.md").is_file()


def test_a_plan_is_made_for_a_network_and_checked(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(hs.bench, "check_lines", lambda: ["compared with processes"])
    words = ["bench", "head", "--plan", "30", "12", "8", "2", "--device", "cpu", "--threads", "1"]
    assert main([*words, "--bandwidth", "5", "--latency", "7", "--check"]) == 0
    said = capsys.readouterr().out
    assert "each process sends 5 GB/s, 7 microseconds for a collective" in said
    assert said.endswith("compared with processes\n")
