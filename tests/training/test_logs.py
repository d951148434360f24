"""Logs besides the JSON lines: TensorBoard's events, and Weights & Biases, of which a double stands in."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hypersphere.training import TensorBoard, Trainer, WeightsAndBiases, load_recipe
from hypersphere.training.logs import figures_in_words, read_log
from tests.training.small import RECIPE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE)
    return file


def test_tensorboard_shows_what_the_log_does(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    recipe, folder = load_recipe(path), tmp_path / "run"
    Trainer(recipe, folder, loggers=[TensorBoard(folder / "board")]).run(until=17)
    Trainer(recipe, folder, loggers=[TensorBoard(folder / "board")]).run()
    events = EventAccumulator(str(folder / "board")).Reload()
    shown = [(event.step, event.value) for event in events.Scalars("loss")]
    logged = [(record["step"], record["loss"]) for record in read_log(folder / "log.jsonl")]
    assert [step for step, _ in shown] == [step for step, _ in logged]
    assert [value for _, value in shown] == pytest.approx([value for _, value in logged], rel=1e-6)


def test_weights_and_biases_gets_every_record(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def init(**options: Any) -> Any:
        calls.append(options)
        return SimpleNamespace(
            log=lambda record, step: calls.append((step, record)), finish=lambda: calls.append("finished")
        )

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    logger = WeightsAndBiases("faces", "run-1", {"about": "a small run"}, tmp_path)
    Trainer(load_recipe(path), tmp_path / "run", loggers=[logger]).run()
    assert calls[0] == {
        "project": "faces",
        "id": "run-1",
        "name": "run-1",
        "config": {"about": "a small run"},
        "dir": str(tmp_path),
        "resume": "allow",
    }
    logged = read_log(tmp_path / "run" / "log.jsonl")
    assert calls[1:-1] == [(record.pop("step"), record) for record in logged]
    assert calls[-1] == "finished"


@pytest.mark.parametrize(
    ("module", "make", "message"),
    [
        ("torch.utils.tensorboard", lambda: TensorBoard(Path()), "TensorBoard is not installed"),
        ("wandb", lambda: WeightsAndBiases("p", "n", {}, Path()), "Weights & Biases is not installed"),
    ],
)
def test_what_is_not_installed_is_named(module: str, make: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=message):
        make()


def test_figures_in_words() -> None:
    figures = {"step": 3.0, "loss": 1.23456, "satisfied": 0.876, "angle": 45.678, "rate": 0.1}
    assert figures_in_words(figures) == "loss 1.235, rate 0.1, angle 45.7°, margins satisfied 88%"
