"""Logs besides the JSON lines: TensorBoard's events, and Weights & Biases, of which a double stands in."""

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hypersphere.cli import main
from hypersphere.pocket import PocketFaces
from hypersphere.training import Checkpoints, TensorBoard, Trainer, WeightsAndBiases, load_recipe
from hypersphere.training.logs import read_log, values_in_words
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
        (
            "tensorboard",
            lambda: TensorBoard(Path()),
            r"TensorBoard needs tensorboard: .*pip install '\.\[tensorboard\]'",
        ),
        ("wandb", lambda: WeightsAndBiases("p", "n", {}, Path()), r"Biases needs wandb: .*pip install '\.\[wandb\]'"),
    ],
)
def test_what_is_not_installed_is_named(module: str, make: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=message):
        make()


def test_values_in_words() -> None:
    values = {"step": 3.0, "loss": 1.23456, "satisfied": 0.876, "angle": 45.678, "lr": 0.1}
    assert values_in_words(values) == "loss 1.235, lr 0.1, angle 45.7°, margins satisfied 88%"


def test_what_is_not_finite_is_left_out_of_the_log(path: Path, tmp_path: Path) -> None:
    source = PocketFaces(6, 8, size=16)
    source.labels[6:] = -1
    recipe = load_recipe(path, ["train.steps=8", "train.log_every=1", "train.batch_size=2", "train.checkpoint_every=4"])
    Trainer(recipe, tmp_path / "run", source=source, evaluate=lambda _: {"score": math.nan}).run()
    lines = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    assert not any("NaN" in line for line in lines)
    records = [json.loads(line) for line in lines]
    assert {record["step"] for record in records} == set(range(1, 9))
    assert any("loss" in record and "angle" not in record for record in records), "a batch without labels has no angle"
    assert any("angle" in record for record in records)
    assert not any("score" in record for record in records)
    assert Checkpoints(tmp_path / "run" / "checkpoints").best() is None


def test_every_stage_has_loggers_of_its_own(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def init(**options: Any) -> Any:
        name = options["id"]
        calls.append(("begun", name, options["config"]["train"]["steps"]))
        return SimpleNamespace(
            log=lambda record, step: calls.append(("logged", name, step)),
            finish=lambda: calls.append(("finished", name)),
        )

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    (tmp_path / "two.toml").write_text(
        f'base = "{path.name}"\n[second.head]\nname = "arcface"\n[second.train]\nsteps = 4\nfreeze_backbone = true\n'
    )
    settings = ["train.steps=6", "--wandb", "faces", "--out", str(tmp_path / "run"), "--device", "cpu"]
    assert main(["train", str(tmp_path / "two.toml"), *settings]) == 0
    assert calls == [
        ("begun", "run", 6),
        *(("logged", "run", step) for step in (3, 6)),
        ("finished", "run"),
        ("begun", "run-second", 4),
        *(("logged", "run-second", step) for step in (3, 4)),
        ("finished", "run-second"),
    ]
