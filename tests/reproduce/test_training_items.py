"""`hypersphere reproduce` of a pocket item, from training to page, and again from its cache."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypersphere.cli import main
from hypersphere.reproduce.experiment import run, setting
from hypersphere.reproduce.experiment.record import Record


@pytest.fixture
def tiny(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two steps on four people."""
    recipe = tmp_path / "tiny.toml"
    size = "[data]\nidentities = 4\nimages_per_identity = 3\n[train]\nsteps = 2\nbatch_size = 4\n"
    base = setting.RECIPES["pocket"].resolve()
    recipe.write_text(f'base = "{base}"\n{size}')
    monkeypatch.setitem(setting.RECIPES, "pocket", recipe)
    setting._recipe.cache_clear()
    yield
    setting._recipe.cache_clear()


@pytest.mark.usefixtures("tiny")
def test_from_training_to_page_and_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["reproduce", "largest-margins/table3", "--seeds", "2", "--out", str(tmp_path / "out")]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert text.startswith("26 runs to train, 52 steps in all\nabout ")
    assert "26 runs in" in text
    assert text.index("26 runs in") < text.index("largest-margins/table3: ")
    assert "LM-Softmax (s = 10) is better than CE" in text
    result = json.loads((tmp_path / "out" / "results" / "largest-margins-table3.json").read_text())
    assert result["seeds"] == [0, 1]
    assert result["command"] == "hypersphere reproduce largest-margins/table3 --seeds 2"
    assert sum(finding.get("verdict") is not None for finding in result["findings"]) == 15
    assert "26 runs of" in result["notes"][-1]
    assert len(result["fits"]) == 13
    assert {(fit["seeds"], fit["steps"]) for fit in result["fits"]} == {(2, 2)}
    assert "\n  runs: 13 settings, 26 runs: 13 did not fit; lowest train accuracy " in text
    assert "\n  did not fit: CE (" in text
    assert (
        "- **Expected**: With a triplet loss beside it, LM-Softmax ranks"
        in (tmp_path / "out" / "largest-margins.md").read_text()
    )

    def never(*_: object) -> Record:
        raise AssertionError("trained again")

    monkeypatch.setattr(run, "train_and_measure", never)
    assert main(command) == 0
    assert "to train" not in capsys.readouterr().out
    again = json.loads((tmp_path / "out" / "results" / "largest-margins-table3.json").read_text())
    assert again["findings"] == result["findings"]


@pytest.mark.usefixtures("tiny")
def test_a_failed_run_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> Record:
        raise OSError("disk full")

    monkeypatch.setattr(run, "train_and_measure", breaks)
    assert main(["reproduce", "largest-margins/table3", "--out", str(tmp_path / "out")]) == 2
    shown = capsys.readouterr()
    assert "failed: CE, seed 0: OSError: disk full" in shown.out
    assert "largest-margins/table3: 13 runs failed" in shown.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--jobs", "0"], "--jobs"),
        (["--device", "tpu"], "device='tpu' is unknown"),
        (["--device", "cuda"], "no CUDA"),
    ],
)
def test_what_is_wrong_is_said(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["reproduce", "largest-margins/table3", *words, "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
