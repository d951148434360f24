"""Every recipe in the tree is parsed, and one step of it run on stand-in data."""

from pathlib import Path

import pytest

from hypersphere.cli import main
from hypersphere.core.config import load_toml
from hypersphere.training import SHIPPED_RECIPES, Trainer, load_recipe
from hypersphere.training.logs import read_log

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").rglob("*.toml"))
STAND_IN = [
    "data.source=pocket",
    "data.identities=8",
    "data.images_per_identity=6",
    "train.batch_size=4",
    "train.accumulate=1",
    "train.images_per_identity=2",
]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_runs(path: Path, tmp_path: Path) -> None:
    written = load_toml(path)
    assert written["about"], "a recipe says in a sentence what it is"
    settings = [*STAND_IN]
    if "most_images" in written.get("data", {}):
        settings.append("data.most_images=4")
    steps = "train.epochs=0.05" if "epochs" in written["train"] else "train.steps=1"
    recipe = load_recipe(path, [*settings, steps])
    trained = Trainer(recipe, tmp_path).run()
    assert trained.steps == 1
    assert read_log(tmp_path / "log.jsonl")[0]["loss"] > -10


def test_the_list_names_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--list", "--recipes", str(ROOT / "recipes")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(RECIPES)


def test_the_package_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sorted(path.relative_to(SHIPPED_RECIPES) for path in SHIPPED_RECIPES.rglob("*.toml")) == [
        path.relative_to(ROOT / "recipes") for path in RECIPES
    ]
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(RECIPES)


def test_a_recipe_for_other_data_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = ROOT / "recipes" / "papers" / "sphereface-casia-sfnet4.toml"
    assert main(["train", str(recipe), "--out", str(tmp_path)]) == 2
    assert "data.source is empty: this recipe needs a data set of yours" in capsys.readouterr().err
