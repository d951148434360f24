"""A run that ends in collapse, its loss falling to the last, says so wherever it is told of."""

from pathlib import Path

import pytest
import torch

from hypersphere.cli import main
from hypersphere.models import CARD_FILE
from hypersphere.training import RecordFile, TensorBoard, Trainer, load_recipe, monitor, read_log, train_recipe
from tests.training.small import RECIPE, Notes

AMPFACE = ["head.name=ampface", "head.margin=0.5", "head.wrong_class_relu=false", "train.steps=4"]
WORDS = "the run ended in polar collapse"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE)
    return file


@pytest.fixture
def _every_look_is_collapsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "_COLLAPSED_COSINE", -1.0)
    monkeypatch.setattr(monitor, "_COLLAPSED_ANGLE", -1.0)


def collapsed(path: Path, folder: Path, **options: object) -> Trainer:
    """A run whose prototypes are opposite to its samples, at a rate that leaves them there; it looks once, last."""
    settings = [*AMPFACE, "optimizer.lr=1e-9", "optimizer.weight_decay=0", "train.log_every=100"]
    trainer = Trainer(load_recipe(path, settings), folder, **options)  # type: ignore[arg-type]
    images, _ = trainer.images.load(0)
    with torch.no_grad():
        mean = trainer.backbone.train()(images).mean(0)
        trainer.head.weight.copy_(-mean + 0.01 * torch.randn_like(trainer.head.weight))
    return trainer


def test_log_progress_model_card_and_result_tell(path: Path, tmp_path: Path) -> None:
    notes = Notes()
    trained = collapsed(path, tmp_path / "run").run(notes)
    assert trained.warning.startswith(f"{WORDS}: the prototypes point one way (mean cosine")
    assert "of the last batch are nearest to their own prototype" in trained.warning
    assert "turn head.wrong_class_relu on" in trained.warning
    assert "head.balance" not in trained.warning
    assert [note.endswith(f"; {WORDS}") for note in notes.told] == [False, False, False, True]
    assert [record.get("warning") for record in read_log(tmp_path / "run" / "log.jsonl")] == [trained.warning]
    assert f"- Do not use it: {trained.warning}." in (tmp_path / "run" / CARD_FILE).read_text()
    assert Trainer(load_recipe(tmp_path / "run" / "recipe.toml"), tmp_path / "run").run().warning == trained.warning


def test_a_run_that_learns_or_is_not_over_has_nothing_to_tell(path: Path, tmp_path: Path) -> None:
    trained = train_recipe(load_recipe(path, AMPFACE), tmp_path / "sound")
    assert trained.warning == ""
    assert not any("warning" in record for record in read_log(tmp_path / "sound" / "log.jsonl"))
    assert "Do not use it" not in (tmp_path / "sound" / CARD_FILE).read_text()
    assert collapsed(path, tmp_path / "half").run(until=2).warning == ""


def test_tensorboard_has_it_as_text(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trained = collapsed(path, tmp_path / "run", loggers=[TensorBoard(tmp_path / "board")]).run()
    events = EventAccumulator(str(tmp_path / "board")).Reload()
    (event,) = events.Tensors("warning/text_summary")
    assert event.tensor_proto.string_val == [trained.warning.encode()]


@pytest.mark.usefixtures("_every_look_is_collapsed")
def test_the_command_warns_and_ends_well(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", str(path), *AMPFACE, "--device", "cpu", "--out", str(tmp_path / "run")]
    assert main([*words, "--quiet"]) == 0
    assert f"hypersphere: warning: {WORDS}" in " ".join(capsys.readouterr().err.split())
    assert f"- Do not use it: {WORDS}" in (tmp_path / "run" / CARD_FILE).read_text()
    assert main([*words, "--json"]) == 0
    assert f'"warning": "{WORDS}' in capsys.readouterr().out


@pytest.mark.usefixtures("_every_look_is_collapsed")
def test_a_comparison_keeps_it_and_shows_it(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", str(path), *AMPFACE, "--seeds", "1", "--device", "cpu", "--out", str(tmp_path)]
    assert main(words) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[2].startswith(f"  seed 0: {WORDS}")
    (record,) = RecordFile(tmp_path / "results.jsonl").records.values()
    assert record.warning.startswith(WORDS)
    assert record.scores
