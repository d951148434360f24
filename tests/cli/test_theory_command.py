"""`hypersphere theory`: every item prints its numbers, and figures are written where asked."""

from pathlib import Path

import pytest

from hypersphere.cli import main
from hypersphere.theory import ITEMS


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["theory", "--list"], ["theory"]):
        assert main(words) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines] == [*ITEMS, "toy"]


def test_an_item_prints_numbers_beside_the_papers_and_writes_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["theory", "termination", "--out", str(tmp_path / "figures")]) == 0
    text = capsys.readouterr().out
    assert "ArcFace, m2 = 0.6" in text
    assert "39.70  39.73" in text
    assert "half the angle to the nearest prototype" in text
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == ["termination.png", "termination.svg"]
    assert (tmp_path / "figures" / "termination.png").read_bytes().startswith(b"\x89PNG")


def test_figures_go_to_runs_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["theory", "weights"]) == 0
    text = capsys.readouterr().out
    assert all(number in text for number in ("4.681e6", "4.541e6", "4.4562e6"))
    assert (tmp_path / "runs" / "theory" / "weights" / "fig10.svg").exists()


def test_the_nearest_angle_is_shown_beside_the_papers() -> None:
    report = ITEMS["nearest"].run()
    assert (report.rows[0].ours, report.rows[0].paper, report.rows[0].note) == ("79.00", "78.64", "not reproduced")


def test_the_toy_says_what_has_not_converged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", "toy", "--steps", "20", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert text.count(", not converged") == 4
    assert "Not converged: a prototype turned by 0.1 degrees or more over the second half" in text
    assert all(len(line) <= 80 for line in text.splitlines() if line.startswith(("loss", "NormFace", "LM-")))


def test_an_unknown_item_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["theory", "nothing"])
    assert "nothing" in capsys.readouterr().err
