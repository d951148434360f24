"""A run that goes on from a state it cannot take up, or from damaged snapshots, says so and names the file."""

from pathlib import Path
from typing import Any

import pytest
import torch

from hypersphere.training import Trainer, load_recipe, load_run
from hypersphere.training.finished_run import newest_head, newest_state
from hypersphere.training.recipe import Recipe
from tests.damage import flipped
from tests.training.small import RECIPE, final, same


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return load_recipe(tmp_path / "recipe.toml", ["train.steps=8", "train.snapshots=2", "train.snapshot_every=4"])


def test_a_state_that_does_not_fit_is_named(recipe: Recipe, tmp_path: Path) -> None:
    """With digests made anew: before, KeyError, AttributeError, TypeError and RuntimeError with their tracebacks."""
    trainer = Trainer(recipe, tmp_path / "run")
    trainer.run(until=4)
    newest = trainer.checkpoints.load_newest()
    assert newest is not None
    state = newest[1]
    changes: list[dict[str, Any]] = [
        {name: value for name, value in state.items() if name != left_out} for left_out in ("backbone", "monitor")
    ]
    changes += [{**state, "optimizer": None}, {**state, "optimizer": {}}, {**state, "batches": [1]}]
    changes.append({**state, "backbone": {**state["backbone"], "extra": torch.zeros(1)}})
    changes.append({**state, "snapshots": [1]})
    for change in changes:
        trainer.checkpoints.save(4, change)
        with pytest.raises(
            ValueError, match=r"run.checkpoints: the checkpoint of step 4 does not fit .* remove it to go"
        ):
            Trainer(recipe, tmp_path / "run").run()
    trainer.checkpoints.save(4, {name: value for name, value in state.items() if name != "recipe"})
    with pytest.raises(ValueError, match="run holds a run of another recipe"):
        Trainer(recipe, tmp_path / "run").run()
    trainer.checkpoints.save(4, state)
    Trainer(recipe, tmp_path / "run").run()
    Trainer(recipe, tmp_path / "whole").run()
    assert same(final(tmp_path / "run"), final(tmp_path / "whole"))


def test_a_finished_run_whose_state_does_not_fit_is_named(recipe: Recipe, tmp_path: Path) -> None:
    trainer = Trainer(recipe, tmp_path / "run")
    trainer.run(until=4)
    _, state = newest_state(tmp_path / "run")
    for change in (None, 5, {}, {"extra": torch.zeros(1)}):
        trainer.checkpoints.save(4, {**state, "backbone": change})
        with pytest.raises(ValueError, match=r"run: the checkpoint of step 4 does not fit cnn4 of recipe\.toml \("):
            load_run(tmp_path / "run")
    trainer.checkpoints.save(4, {name: value for name, value in state.items() if name != "head"})
    with pytest.raises(ValueError, match=r"run: the checkpoint of step 4 has no head"):
        newest_head(tmp_path / "run")


@pytest.mark.parametrize("damage", ["flipped", "exchanged", "gone"])
def test_snapshots_are_those_that_were_taken(recipe: Recipe, tmp_path: Path, damage: str) -> None:
    Trainer(recipe, tmp_path / "run").run()
    trained = Trainer(recipe, tmp_path / "run").run()
    first, second = trained.snapshots
    contents = first.read_bytes(), second.read_bytes()
    if damage == "flipped":
        first.write_bytes(flipped(contents[0], len(contents[0]) // 2, 4))
    elif damage == "exchanged":
        first.write_bytes(contents[1])
        second.write_bytes(contents[0])
    else:
        first.unlink()
    with pytest.raises(ValueError, match=r"step-000000004\.pt: missing or damaged, and the run is beyond its step"):
        Trainer(recipe, tmp_path / "run").run()
