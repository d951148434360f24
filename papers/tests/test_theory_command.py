"""`hypersphere theory`: every item prints its numbers, and figures are written where asked."""

from pathlib import Path

import pytest

from hypersphere.cli import main
from hypersphere_papers.engine.outcome import checked, number
from hypersphere_papers.laboratory import THEOREMS, findings_table


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["theory", "--list"], ["theory"]):
        assert main(words) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines] == [*THEOREMS, "toy"]


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


def test_a_table_is_aligned() -> None:
    findings = [number("short", "1.0", "2.00", "differs"), checked("much longer", "10.25", held=True)]
    assert findings_table(findings).splitlines() == [
        "              ours  expected",
        "short          1.0      2.00  differs",
        "much longer  10.25            held",
    ]


def test_a_table_fits_a_narrow_terminal() -> None:
    findings = [number("a number with a long name", "1.0", "2.00", "differs"), number("short", "10.25")]
    assert findings_table(findings, 37).splitlines() == [
        "                       ours  expected",
        "a number with a long",
        "name                    1.0      2.00",
        "    differs",
        "short                 10.25",
    ]


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
