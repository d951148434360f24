"""`hypersphere explore`: the page is written, and opened if asked."""

from pathlib import Path

import pytest

from hypersphere.cli import main


def test_the_page_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["explore"]) == 0
    assert "runs/explore.html" in capsys.readouterr().out
    assert (tmp_path / "runs" / "explore.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_it_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    opened: list[str] = []

    def take(address: str) -> bool:
        opened.append(address)
        return len(opened) == 1

    monkeypatch.setattr("webbrowser.open", take)
    page = tmp_path / "page.html"
    assert main(["explore", "--out", str(page), "--open"]) == 0
    assert opened == [page.as_uri()]
    assert "yourself" not in capsys.readouterr().out
    assert main(["explore", "--out", str(page), "--open"]) == 0
    assert "yourself" in capsys.readouterr().out


def test_a_folder_is_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--out", str(tmp_path)]) == 2
    assert "name the HTML file" in capsys.readouterr().err
