"""Recipes that somebody or something damaged: each is read, or refused with a ValueError that names the file."""

import random
from pathlib import Path

import pytest

from hypersphere.core.config import as_table, digest, override, to_toml
from hypersphere.training import load_recipe
from hypersphere.training.build import check_parts
from hypersphere.training.checkpoints import Snapshots
from hypersphere.training.recipe import recipe_keys
from tests.mutate import attempt, mutations
from tests.training.small import RECIPE

TABLES = ["head", "data", "train", "losses", "losses.arcface", "second", "second.train", "backbone", "head.add", "base"]
OPTIONS = ["head.add.center.weight", "head.class_counts", "head.sharded", "head.sample", "head.eps", "head.engine"]
VALUES = [
    "5",
    "-1",
    "1e308",
    "nan",
    "-inf",
    "9" * 400,
    "9" * 5000,
    "2020-01-01",
    "07:30:00",
    "true",
    "[]",
    "{}",
    "[[1]]",
]
VALUES += [
    '""',
    "[" * 3000,
    "9223372036854775807",
    "1e-320",
    "{name=1}",
    '"\\u0000"',
    "1\nother=2",
    "\udcff",
    "[{a=1}]",
]


def read(path: Path, settings: list[str] | None = None) -> None:
    recipe = load_recipe(path, settings or [])
    for stage in recipe.stages():
        try:
            check_parts(stage)
        except ValueError as error:  # it knows no file, only the option
            raise ValueError(f"{path}: {error}") from None
    again = path.with_name("again.toml")
    again.write_text(to_toml(as_table(recipe)), encoding="utf-8")
    assert digest(load_recipe(again)) == digest(recipe), "written and read it is the same"


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    for copy in mutations(RECIPE.encode(), 300, seed=7):
        path.write_bytes(copy)
        attempt(read, path)


def test_settings_of_any_kind(tmp_path: Path) -> None:
    path, draw = tmp_path / "recipe.toml", random.Random(8)
    path.write_text(RECIPE)
    keys = [*recipe_keys(), *TABLES, *OPTIONS]
    for _ in range(500):
        settings = [f"{draw.choice(keys)}={draw.choice(VALUES)}" for _ in range(draw.choice((1, 1, 2)))]
        attempt(lambda file, chosen=settings: read(file, chosen), path)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("head=5", "head=5 must be a table"),
        ("head.margin=2020-01-01", "value=2020-01-01 is a date; expected text, a number"),
        (f"head.margin={'9' * 400}", "value is a number beyond 64 bits"),
        (f"head.margin={'[' * 3000}", "lists and tables more than 32 deep"),
        (f"{'a.' * 3000}b=1", "is no setting: write key.sub=value"),
        ("head.margin=nan", "value=nan must be finite"),
        ("optimizer.weight_decay=-1", "weight_decay=-1 must be at least 0"),
        ("optimizer.prototype_weight_decay=-1", "prototype_weight_decay=-1 must be at least 0"),
        ("train.start=", "start is empty; name a file of weights or the folder of a run"),
        ("head.scale=1e308", "scale=.* of sphereface_r must be 0 or lie between 1e-30 and 1e\\+12"),
        ("data.identities=9223372036854775807", "identities times images_per_identity must be at most 100,000,000"),
        ("data.size=[1000000, 1000000]", "size=1e\\+06 must be between 1 and 4096"),
        ("backbone.dim=9223372036854775807", "must be a whole number from 1 to 65,536"),
        ("head.class_counts=3", "head.class_counts=3 must be a list"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, setting: str, message: str) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.replace('"sphereface"', '"sphereface_r"'))
    with pytest.raises(ValueError, match=message):
        read(path, [setting])


def test_a_recipe_file_has_finite_numbers_only(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    for old, key in (("margin = 2", "head.margin"), ("lr = 0.05", "optimizer.lr")):
        path.write_text(RECIPE.replace(old, f"{old.split()[0]} = nan"))
        with pytest.raises(ValueError, match=f"recipe.toml: {key}=nan must be finite"):
            load_recipe(path)


def test_a_long_chain_of_bases(tmp_path: Path) -> None:
    for number in range(1200):
        (tmp_path / f"{number}.toml").write_text(f'base = "{number + 1}.toml"\n')
    (tmp_path / "1200.toml").write_text(RECIPE)
    assert load_recipe(tmp_path / "1170.toml").train.steps == 30
    with pytest.raises(ValueError, match=r"toml: the base of the base \.\.\. of a file, more than 32 times"):
        load_recipe(tmp_path / "0.toml")


def test_numbers_that_are_none_are_still_toml(tmp_path: Path) -> None:
    assert to_toml({"a": float("nan"), "b": [float("-inf")], "c": "x\x7f", "d": [{"e": 1}]}) == (
        'a = nan\nb = [-inf]\nc = "x\\u007f"\nd = [{e = 1}]\n'
    )
    assert override({}, ["d=[{e = 1}]", 'c="x\\u007f"']) == {"d": [{"e": 1}], "c": "x\x7f"}


@pytest.mark.parametrize("count", [0, 1, 3, 100, 2**63 - 1])
@pytest.mark.parametrize(("total", "every"), [(10, 3), (9, 3), (1, 1), (5, 2**62)])
def test_any_number_of_snapshots(tmp_path: Path, count: int, total: int, every: int) -> None:
    plain = [step for step in (total - every * back for back in reversed(range(min(count, 200)))) if step > 0]
    assert list(Snapshots(tmp_path, total, count, every).steps) == plain
