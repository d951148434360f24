"""Tables of recipes: what the keys of one replace in another."""

from __future__ import annotations

from hypersphere.training import load_recipe
from hypersphere.training.recipe_tables import merge_tables, with_settings


def test_a_head_of_another_name_replaces_the_whole_table() -> None:
    below = {"head": {"name": "arcface", "margin": 0.5}, "backbone": {"name": "a", "dim": 3}}
    assert merge_tables(below, {"head": {"name": "softmax"}, "backbone": {"name": "b"}}) == {
        "head": {"name": "softmax"},
        "backbone": {"name": "b", "dim": 3},
    }
    assert merge_tables(below, {"head": {"margin": 0.3}})["head"] == {"name": "arcface", "margin": 0.3}


def test_of_steps_and_epochs_the_one_above_stays() -> None:
    below = {"train": {"steps": 100, "seed": 1}}
    assert with_settings(below, ["train.epochs=3"]) == {"train": {"epochs": 3, "seed": 1}}
    assert with_settings(below, ["train.epochs=3", "train.steps=5"]) == {"train": {"steps": 5, "seed": 1}}
    assert with_settings(below, ["train.seed=2"]) == {"train": {"steps": 100, "seed": 2}}
    both = {"train": {"steps": 1, "epochs": 2}}
    assert merge_tables(below, both)["train"] == {"steps": 1, "epochs": 2, "seed": 1}


def test_a_shipped_recipe_with_epochs_takes_steps_and_the_other_way() -> None:
    recipe = load_recipe("pocket/faces")
    assert recipe.train.epochs is not None
    shorter = load_recipe("pocket/faces", ["train.steps=100"])
    assert (shorter.train.steps, shorter.train.epochs) == (100, None)
    again = load_recipe("pocket/faces", ["train.steps=100", f"train.epochs={recipe.train.epochs}"])
    assert again == recipe
