"""`hypersphere reproduce`: listing, running, summing up, and saying what is missing."""

import io
import json
import re
import sys
from pathlib import Path

import pytest

from hypersphere.cli import main
from hypersphere_papers.engine import job
from hypersphere_papers.laboratory import Finding, Job, Outcome


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list"]) == 0
    *lines, empty, total, rows, word, counts, data = capsys.readouterr().out.splitlines()
    assert (len(lines), empty) == (98, "")
    assert total.startswith("98 items: ")
    assert word.startswith("An item is held where all its sentences and numbers are, contradicted where one is")
    assert " proxy, " in total
    assert re.fullmatch(r"\d+ of the 401 rows that the papers' tables print were run.", rows)
    assert "(of a proxy agree/disagree/cannot tell), and in fourth place how many were not measured." in counts
    assert "--data PATH; runs on record: papers/records/losses (faces)" in data
    assert not [line for line in lines if "--data" in line]
    assert lines[32].startswith("normface/table5")
    assert lines[32].endswith("test); recipe papers/recipes/normface-resnet28.toml]")
    assert main(["reproduce", "--kind", "theory", "--paper", "normface"]) == 0
    assert capsys.readouterr().out.split()[:4] == ["normface/fig5", "theory", "held", "8/0/0"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (80, "Lower bound of the …"),
        (110, "8/0/0           Lower bound of the softmax loss a…"),
    ],
)
def test_the_list_fits_a_terminal(columns: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["reproduce", "--list"]) == 0
    assert "\x1b[32mheld              \x1b[0m  " in screen.getvalue()
    lines = re.sub(r"\x1b\[\d+m", "", screen.getvalue()).splitlines()
    assert max(map(len, lines)) < columns
    assert f"normface/fig5           theory         held                {text}" in lines
    assert any(each.startswith("Counts: ") for each in lines) == (columns == 110)


def test_the_list_says_what_came_of_every_item(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def listed(*words: str) -> dict[str, str]:
        assert main(["--json", "reproduce", "--list", *words]) == 0
        return {item["id"]: item["verdict"] for item in json.loads(capsys.readouterr().out)["items"]}

    shipped = listed()
    assert set(shipped.values()) == {"held", "contradicted", "undecided", "proxy", "drawn", "not run"}
    assert (shipped["normface/table5"], shipped["sphereface/fig1"]) == ("not run", "drawn")
    result = Path("papers/records/results/normface-fig5.json").read_text()
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "normface-fig5.json").write_text(result.replace('"held"', '"undecided"'))
    assert listed("--out", str(tmp_path)) == {**shipped, "normface/fig5": "undecided"}


def test_an_item_writes_result_figures_and_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "sphereface2/fig6", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "g(-0.2) at t = 3: -0.872 (paper -0.9): held" in text
    assert "1 run, 0 left out, 0 failed" in text
    result = json.loads((tmp_path / "results" / "sphereface2-fig6.json").read_text())
    assert result["command"] == "hypersphere reproduce sphereface2/fig6"
    assert (tmp_path / "images" / "sphereface2-fig6.svg").exists()
    assert (tmp_path / "index.md").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sphereface2/fig66"], "did you mean 'sphereface2/fig6'?"),
        (["--paper", "sphereface3"], "did you mean 'sphereface'?"),
        (["normface/table5"], "needs CASIA-WebFace"),
        (
            ["largest-margins/fig7", "--data", "docs"],
            "docs has neither CIFAR-10 (a folder or a .tar) nor",
        ),
        (["sphereface2/fig6", "--all"], "--all"),
        (["sphereface2/fig6", "--seeds", "0"], "--seeds"),
        (["sphereface2/fig6", "--epochs", "0"], "--epochs"),
        (["sphereface2/fig6", "--data", "nowhere"], "--data nowhere: there is no such file"),
    ],
)
def test_what_is_wrong_is_said(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", *words, "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


def test_the_status_tells_of_differences_and_failures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(job: Job) -> Outcome:
        raise ValueError("broken")

    def differ(job: Job) -> Outcome:
        return Outcome(findings=[Finding(what="x", ours="1", paper="2", verdict="contradicted")])

    chosen = ["reproduce", "--all", "--kind", "theory", "--paper", "normface", "--out", str(tmp_path)]
    monkeypatch.setitem(job._ITEMS, "normface/fig5", differ)
    assert main(chosen) == 1
    assert "outside the tolerance, without a reason: normface/fig5" in capsys.readouterr().out
    monkeypatch.setitem(job._ITEMS, "normface/fig5", fail)
    assert main(chosen) == 1
    assert "failed: broken" in capsys.readouterr().out
    monkeypatch.setitem(job._ITEMS, "normface/fig5", lambda job: Outcome())
    assert main(chosen) == 0


def test_items_after_a_broken_one_are_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(job: Job) -> Outcome:
        raise FileNotFoundError("no such file")

    monkeypatch.setitem(job._ITEMS, "normface/fig5", fail)
    monkeypatch.setitem(job._ITEMS, "sphereface/table1", lambda job: Outcome())
    assert main(["reproduce", "normface/fig5", "sphereface/table1", "--out", str(tmp_path)]) == 1
    text = capsys.readouterr().out
    assert "failed: no such file" in text
    assert "1 run, 0 left out, 1 failed" in text
    assert (tmp_path / "index.md").is_file()
    assert (tmp_path / "results" / "sphereface-table1.json").is_file()


def test_judged_sentences_come_first_with_half_their_interval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        Finding(what="a row", ours="5"),
        Finding(what="lost", ours="not measured", note="0 of 3 seeds are on record", measured=False),
        Finding(what="no run", ours="not measured", verdict="undecided", measured=False),
        Finding(what="a is better", ours="+1.00", verdict="held", detectable=0.25),
    ]
    monkeypatch.setitem(job._ITEMS, "normface/fig5", lambda job: Outcome(findings=found))
    assert main(["reproduce", "normface/fig5", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    said = ["  a is better: +1.00, ± 0.25 at 95 %: held", "  a row: 5", "  Not on record: 1 sentence, 1 number"]
    assert "\n".join(said) in text
    assert "1 held, 1 not measured" in text


def test_all_leaves_out_what_cannot_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--all", "--kind", "real", "--paper", "sphereface2", "--out", str(tmp_path)]) == 0
    assert "0 run, 19 left out" in capsys.readouterr().out
