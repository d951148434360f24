"""`hypersphere advise`."""

from pathlib import Path

import pytest

from hypersphere.cli import main


def test_the_papers_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--classes", "85742", "--dim", "512"]) == 0
    text = capsys.readouterr().out
    assert "79.00 degrees" in text
    assert "39.50 degrees" in text
    assert 'hs.create_head("cosface", dim=512, num_classes=85742, scale=64, margin=0.498)' in text
    assert "m2 = 0.604" in text
    assert "polar collapse" in text


def test_own_margins_are_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--classes", "85742", "--dim", "512", "--m2", "1.7"]) == 0
    text = capsys.readouterr().out
    assert "Yours, m2 = 1.7" in text
    assert "pi/2" in text
    assert main(["advise", "--classes", "85742", "--dim", "512", "--m2", "0.5"]) == 0
    assert "Yours, m2 = 0.5: ends at 45.46 degrees" in capsys.readouterr().out


def test_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = tmp_path / "counts.txt"
    counts.write_text("\n".join(["500"] * 90 + ["5"] * 10))
    assert main(["advise", "--counts", str(counts), "--dim", "64"]) == 0
    text = capsys.readouterr().out
    assert "100 classes" in text
    assert "100 to 1" in text
    assert "zero_centroid" in text


def test_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--dim", "64"]) == 2
    assert "--classes or --counts" in capsys.readouterr().err
    counts = tmp_path / "counts.txt"
    counts.write_text("3\nmany\n")
    assert main(["advise", "--counts", str(counts), "--dim", "64"]) == 2
    assert "line 2: count of samples 'many'" in capsys.readouterr().err
    for wrong in ("0\n", "9" * 5000, "\N{SUPERSCRIPT TWO}\n"):
        counts.write_text(wrong)
        assert main(["advise", "--counts", str(counts), "--dim", "64"]) == 2
        assert f"{counts}, line 1: count of samples" in capsys.readouterr().err
    counts.write_text("")
    assert main(["advise", "--counts", str(counts), "--dim", "64"]) == 2
    assert "holds no counts" in capsys.readouterr().err
    assert main(["advise", "--counts", str(tmp_path / "none"), "--dim", "64"]) == 2
    assert main(["advise", "--classes", "1", "--dim", "64"]) == 2
