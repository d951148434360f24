"""`hypersphere reproduce` of an item that trains, from training to page, and again from its cache."""

import json
from pathlib import Path

import pytest

from hypersphere.cli import main
from hypersphere_papers.engine import runs
from papers.tests.bars import write_bars


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """An epoch of one batch."""
    path = write_bars(tmp_path / "bars.npz")
    return ["reproduce", "sphereface/fig12", "--data", str(path), "--epochs", "1", "--out", str(tmp_path / "out")]


def test_from_training_to_page_and_again(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command += ["--seeds", "2"]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert text.startswith("8 runs to train, 8 steps in all\nabout ")
    assert text.index("8 runs put on record") < text.index("sphereface/fig12: ")
    result = json.loads((tmp_path / "out" / "results" / "sphereface-fig12.json").read_text())
    assert result["seeds"] == [0, 1]
    assert result["command"] == "hypersphere reproduce sphereface/fig12 --data PATH --seeds 2 --epochs 1"
    assert {finding["verdict"] for finding in result["findings"] if "verdict" in finding} == {"undecided"}
    assert "8 runs of" in result["notes"][-1]
    assert {(fit["seeds"], fit["steps"]) for fit in result["fits"]} == {(2, 1)}
    assert "\n  runs: 4 settings, 8 runs: 4 did not fit; lowest train accuracy " in text
    assert "\n  did not fit: softmax (" in text
    assert "Claim: " in (tmp_path / "out" / "sphereface.md").read_text()

    def never(*_: object, **__: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(runs, "run_tasks", never)
    assert main(command) == 0
    assert "to train" not in capsys.readouterr().out
    again = json.loads((tmp_path / "out" / "results" / "sphereface-fig12.json").read_text())
    assert again["findings"] == result["findings"]


def test_a_failed_run_is_said(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("hypersphere.training.jobs.run_task", breaks)
    assert main(command) == 2
    shown = capsys.readouterr()
    assert "failed: softmax, seed 0: OSError: disk full" in shown.out
    assert "sphereface/fig12: 4 runs failed" in shown.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--jobs", "0"], "--jobs"),
        (["--device", "tpu"], "device='tpu' is unknown"),
        (["--device", "cuda"], "no CUDA"),
    ],
)
def test_what_is_wrong_is_said(
    words: list[str],
    message: str,
    command: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main([*command, *words]) == 2
    assert message in capsys.readouterr().err
