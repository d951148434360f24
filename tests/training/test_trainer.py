"""The trainer: it learns, a killed run resumed is the same run, and it stops with a cause."""

import copy
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from hypersphere.core.config import as_table, build, to_toml
from hypersphere.training import Recipe, Trainer, TrainingStopped, load_recipe
from hypersphere.training.logs import read_log

RECIPE = """
about = "a small run"
[data]
identities = 6
images_per_identity = 8
size = [16, 16]
[augment]
flip = 0.5
shift = 0.5
[backbone]
name = "cnn4"
dim = 8
[head]
name = "sphereface"
margin = 2
[losses.arcface]
scale = 16
[optimizer]
rate = 0.05
[schedule]
kind = "cosine"
warmup = 2
[train]
steps = 30
batch_size = 12
log_every = 3
checkpoint_every = 4
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE)
    return file


def final(folder: Path) -> dict[str, object]:
    newest = max((folder / "checkpoints").glob("*.pt"))
    return torch.load(newest, weights_only=True)  # type: ignore[no-any-return]


def same(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return isinstance(b, list | tuple) and len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["head.name=curricularface", "train.ema=0.9"],
        ["optimizer.kind=adamw", "optimizer.rate=0.001", "train.accumulate=2", "optimizer.clip=1.0"],
        ["train.sampler=identity", "train.images_per_identity=3", "head.name=arcface", "train.precision=bfloat16"],
        ["train.mixup=0.4", "train.sampler=class_balanced", "head.name=softmax"],
    ],
)
def test_stopped_anywhere_and_resumed_is_never_stopped(path: Path, tmp_path: Path, settings: list[str]) -> None:
    recipe = load_recipe(path, settings)
    Trainer(recipe, tmp_path / "whole").run()
    for stop in (3, 4, 17, 29):
        Trainer(recipe, tmp_path / "parts").run(until=stop)
    Trainer(recipe, tmp_path / "parts").run()
    assert same(final(tmp_path / "whole"), final(tmp_path / "parts"))
    assert read_log(tmp_path / "whole" / "log.jsonl") == read_log(tmp_path / "parts" / "log.jsonl")


@pytest.mark.slow
def test_a_killed_process_resumed_is_the_same_run(path: Path, tmp_path: Path) -> None:
    code = (
        "import sys, torch; from pathlib import Path; torch.set_num_threads(1)\n"
        "from hypersphere.training import Trainer, load_recipe\n"
        "Trainer(load_recipe(Path(sys.argv[1])), Path(sys.argv[2])).run()\n"
    )
    source = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    subprocess.run([sys.executable, "-c", code, str(path), str(tmp_path / "whole")], check=True, env=source)
    chance = random.Random(0)
    for _ in range(10):
        process = subprocess.Popen([sys.executable, "-c", code, str(path), str(tmp_path / "killed")], env=source)
        time.sleep(chance.uniform(2.0, 6.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run([sys.executable, "-c", code, str(path), str(tmp_path / "killed")], check=True, env=source)
    assert same(final(tmp_path / "whole"), final(tmp_path / "killed"))
    assert read_log(tmp_path / "whole" / "log.jsonl") == read_log(tmp_path / "killed" / "log.jsonl")


def test_it_learns(path: Path, tmp_path: Path) -> None:
    recipe = load_recipe(path, ["train.steps=120", "head.name=arcface", "head.scale=16", "head.margin=0.1"])
    Trainer(recipe, tmp_path / "run").run()
    records = read_log(tmp_path / "run" / "log.jsonl")
    assert records[-1]["loss"] < 0.7 * records[0]["loss"]
    assert records[-1]["satisfied"] > records[0]["satisfied"]
    assert {"angle", "class_margin", "distortion", "rate", "epoch"} <= set(records[-1])


def test_the_resolved_recipe_is_saved(path: Path, tmp_path: Path) -> None:
    recipe = load_recipe(path, ["train.steps=1"])
    Trainer(recipe, tmp_path / "run").run()
    assert load_recipe(tmp_path / "run" / "recipe.toml") == recipe
    assert build(Recipe, json.loads(json.dumps(as_table(recipe)))) == recipe
    assert to_toml(as_table(recipe)) in (tmp_path / "run" / "recipe.toml").read_text()


def test_another_recipes_folder_is_refused(path: Path, tmp_path: Path) -> None:
    Trainer(load_recipe(path, ["train.steps=4"]), tmp_path / "run").run()
    with pytest.raises(ValueError, match="holds a run of another recipe"):
        Trainer(load_recipe(path, ["train.steps=5"]), tmp_path / "run").run()


def test_nan_stops_with_a_cause(path: Path, tmp_path: Path) -> None:
    trainer = Trainer(load_recipe(path, ["train.log_every=1"]), tmp_path / "run")
    with torch.no_grad():
        trainer.head.weight.fill_(float("nan"))
    with pytest.raises(TrainingStopped, match="the loss is nan: lower the learning rate"):
        trainer.run()


def test_polar_collapse_is_detected(path: Path, tmp_path: Path) -> None:
    settings = ["head.name=unified", "head.m0=0.3", "head.scale=64", "train.log_every=1"]
    trainer = Trainer(load_recipe(path, settings), tmp_path / "run")
    with torch.no_grad():
        images, _ = trainer._load(torch.arange(12).numpy())
        mean = trainer.backbone.eval()(images).mean(0)
        trainer.head.weight.copy_(-mean + 0.01 * torch.randn_like(trainer.head.weight))
        for parameter in list(trainer.backbone.parameters())[-2:]:
            parameter.requires_grad_(False)
    with pytest.raises(TrainingStopped, match="polar collapse: .* turn wrong_class_relu on"):
        trainer.run()


def test_divergence_to_chance_is_detected(path: Path, tmp_path: Path) -> None:
    trainer = Trainer(load_recipe(path), tmp_path / "run")
    figures = {"satisfied": 0.9}
    trainer.monitor._stop_at_chance(figures, 10)
    figures["satisfied"] = 0.1
    for _ in range(4):
        trainer.monitor._stop_at_chance(figures, 10)
    with pytest.raises(TrainingStopped, match="diverged to chance"):
        trainer.monitor._stop_at_chance(figures, 10)


def test_the_best_checkpoint_is_kept(path: Path, tmp_path: Path) -> None:
    scores = iter([0.2, 0.9, 0.1, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    trainer = Trainer(load_recipe(path, ["train.keep=1"]), tmp_path / "run", evaluate=lambda network: next(scores))
    trainer.run()
    assert trainer.checkpoints.best() == 8
    assert trainer.checkpoints.steps() == [8, 30]


def test_frozen_backbones_do_not_move(path: Path, tmp_path: Path) -> None:
    recipe = load_recipe(path, ["train.freeze_backbone=true", "train.steps=3"])
    trainer = Trainer(recipe, tmp_path / "run")
    before = copy.deepcopy(trainer.backbone.state_dict())
    trainer.run()
    assert same(before, trainer.backbone.state_dict())


def test_label_noise_imbalance_and_most_images(path: Path, tmp_path: Path) -> None:
    plain = load_recipe(path)
    noisy = Trainer(dataclasses.replace(plain, data=dataclasses.replace(plain.data, label_noise=0.5)), tmp_path / "a")
    clean = Trainer(plain, tmp_path / "b")
    assert (noisy.labels != clean.labels).sum() == 24
    tail = load_recipe(path, ["data.imbalance=long_tailed", "data.imbalance_ratio=8"])
    counts = torch.bincount(Trainer(tail, tmp_path / "c").labels).tolist()
    assert (counts[0], counts[-1]) == (8, 1)
    few = Trainer(load_recipe(path, ["data.most_images=3"]), tmp_path / "d")
    assert few.source.num_classes == 3


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.stpes=3", "train.stpes is unknown; did you mean 'steps'"),
        ("train.epochs=3", "train: give either steps or epochs"),
        ("head.margni=3", "sphereface has no option 'margni'; did you mean 'margin'"),
        ("head.name=arcfase", "unknown loss 'arcfase'; did you mean 'arcface'"),
        ("backbone.name=sfnet5", "did you mean"),
        ("backbone.dim=0", "backbone.dim=0 must be a positive integer"),
        ("train.batch_size=0", "batch_size=0 must be at least 1"),
        ("schedule.kind=stpe", "schedule: kind='stpe' is unknown; did you mean 'step'"),
        ("data.size=[16]", r"data.size=\[16\] must have 2 entries"),
    ],
)
def test_a_wrong_recipe_is_named(path: Path, tmp_path: Path, setting: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Trainer(load_recipe(path, [setting]), tmp_path / "run")
