"""The main comparison is planned, its rates are chosen and its losses compared, without training a network here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersphere.cli import main
from hypersphere.evaluation import verify_pairs
from hypersphere.training import Recipe, RunRecord, SetScore, run_key
from hypersphere_papers.engine import runs
from hypersphere_papers.engine.record_folder import SUBJECTS
from hypersphere_papers.engine.run_plan import RunPlan
from hypersphere_papers.engine.setting import FACE_FILES
from hypersphere_papers.main_comparison_command import CELLS, CHOOSING_SEED, RATES, at_rate

PAIRS = {"lfw-pairs": 80, "held-out identities": 120}
BEST = 0.05
"""The rate at which the runs of these tests are best; softmax does not fit there."""
RUNS = len(CELLS) * (len(RATES) + 3)


def record(recipe: Recipe) -> RunRecord:
    """A run that is better at one rate, and under a margin."""
    softmax = recipe.head["name"] == "softmax" and not recipe.head.get("add")
    separation = (0.5 if softmax else 2.0) + (1.0 if recipe.optimizer.lr == BEST else 0.0)
    rng, scores = np.random.default_rng(recipe.train.seed), {}
    for title, count in PAIRS.items():
        same = np.arange(count) % 2 == 0
        values = (rng.normal(size=count) + separation * same).astype(np.float32)
        scores[title] = SetScore.of([verify_pairs(values, same, 10)])
    fit = 0.5 if softmax and recipe.optimizer.lr == BEST else 0.99
    return RunRecord("x", recipe.train.seed, run_key(recipe), train_accuracy=fit, norm=3.0, scores=scores, seconds=2.0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The names of the faces, and people of their pairs; training writes records as they would be."""
    for entry in FACE_FILES:
        (tmp_path / entry.partition("=")[2]).touch()
    rng = np.random.default_rng(0)
    people = {
        name: rng.integers(0, 30, (2, count)) for name, count in zip(("lfw", "pairs"), PAIRS.values(), strict=True)
    }
    np.savez_compressed(tmp_path / SUBJECTS, **people)  # type: ignore[arg-type]

    def train(tasks: list[Any], world: Any, options: Any, **_: Any) -> Iterator[RunRecord]:
        return (record(task.recipe) for task in tasks)

    monkeypatch.setattr(runs, "run_tasks", train)
    monkeypatch.setattr(RunPlan, "_steps_of", lambda self, task, stage: 4)
    monkeypatch.setattr(RunPlan, "_tried", lambda self, task, device: 2.5)
    return tmp_path


def test_one_recipe_for_all_but_the_loss_and_its_rate() -> None:
    assert len(CELLS) == 12
    recipes = [at_rate(setting, rate).recipe(0) for setting in CELLS.values() for rate in RATES]
    for part in ("data", "augment", "backbone", "schedule", "train"):
        assert len({repr(getattr(recipe, part)) for recipe in recipes}) == 1, part
    first = recipes[0]
    assert (first.data.size, first.backbone["name"], first.train.epochs) == ((112, 112), "iresnet18", 50.0)
    assert first.augment.rotate > 0
    for setting in CELLS.values():
        head = setting.recipe(0).head
        assert head["name"] == "softmax" or head["prototype_norm"] == 1.0, setting.title


def test_it_is_planned_without_training(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "--main-comparison", "--list", "--data", str(folder), "--seeds", "3"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert text.count("4 of 4 runs of the grid of rates are left") == 12
    assert f"{RUNS} of {RUNS} runs are left, about 8.4 hours of one H200" in text
    assert not list(folder.glob("*.jsonl"))


def test_rates_are_chosen_by_another_seed_and_losses_compared_by_theirs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "--main-comparison", "--data", str(folder), "--seeds", "3", "--device", "cpu"]) == 0
    text = capsys.readouterr().out
    assert "48 runs to train, " in text
    assert "36 runs to train, " in text
    rows = {line[:18].strip(): line.split() for line in text.splitlines() if line[:18].strip() in CELLS}
    assert len(rows) == 12
    assert f"{BEST:g}" in rows["CosFace"]
    assert f"{BEST:g}" not in rows["softmax"], "it has not fitted there"
    assert "+" in rows["ArcFace"][-1]
    assert f"0 of {RUNS} runs are left" in text
    assert CHOOSING_SEED not in (0, 1, 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--main-comparison needs --data FOLDER"),
        (["--data", "DATA", "--seeds", "10"], "--seeds"),
        (["--data", "DATA", "normface/fig5"], "--main-comparison is no item"),
    ],
)
def test_what_is_wrong_is_said(
    words: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "--main-comparison", *(str(folder) if word == "DATA" else word for word in words)]) == 2
    assert message in capsys.readouterr().err
