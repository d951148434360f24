"""Every recipe in the tree is parsed, and one step of each of its stages run on stand-in data."""

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hypersphere.cli import main
from hypersphere.core.config import to_toml
from hypersphere.heads import create_head
from hypersphere.models import model_file
from hypersphere.training import SHIPPED_RECIPES, load_recipe, train_recipe
from hypersphere.training.checkpoints import Checkpoints
from hypersphere.training.logs import read_log
from hypersphere.training.recipe_tables import load_table
from tests.models.networks import linear_onnx

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "recipes").rglob("*.toml"))
RECIPES = [*SHIPPED, *sorted((ROOT / "papers" / "recipes").glob("*.toml"))]
RUN = [path for path in RECIPES if path.parent.name != "ladder"]  # its runs are on record: test_ladder_recipes.py
STAND_IN = [
    "data.source=pocket",
    "data.identities=8",
    "data.images_per_identity=6",
    "train.batch_size=4",
    "train.accumulate=1",
    "train.images_per_identity=2",
    "train.precision=float32",
]


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_a_recipe_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = load_table(path)
    assert written["about"], "a recipe says in a sentence what it is"
    settings = [*STAND_IN, "train.epochs=0.05" if "epochs" in written["train"] else "train.steps=1"]
    if "most_images" in written.get("data", {}):
        settings.append("data.most_images=4")
    if max(written["data"]["size"]) > 48:
        settings.append("data.size=[48, 48]")
    if "device" in written["data"]:
        settings += ["data.device=cpu", "data.validation.identities=0"]
    if "second" in written:  # the papers' R_w suits 1,000 classes: with 8 of them SGD runs away
        settings += ["second.train.epochs=0.05", "second.train.snapshot_every=1", "head.add.zero_centroid.weight=0.1"]
    else:  # to write the checkpoint and the model file of a big net takes longer than its step
        monkeypatch.setattr(Checkpoints, "save", lambda *_: None)
        monkeypatch.setattr(model_file, "model_bytes", lambda _, contract, *__, **___: (b"", contract))
    if "teacher" in written:
        linear_onnx(tmp_path / "teacher.onnx", size=48, dim=written["backbone"]["dim"])
        contract = {"input_size": [48, 48], "mean": [0.0], "std": [1.0]}
        (tmp_path / "contract.toml").write_text(to_toml(contract))
        settings += [f"teacher.model={tmp_path / 'teacher.onnx'}", f"teacher.contract={tmp_path / 'contract.toml'}"]
    recipe = load_recipe(path, settings)
    train_recipe(recipe, tmp_path)
    for folder in (tmp_path, tmp_path / "second")[: len(recipe.stages())]:
        (line,) = read_log(folder / "log.jsonl")
        assert line["step"] == 1
        assert line["loss"] > -10
        assert math.isfinite(line["loss"])


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_losses_of_a_recipe_can_be_made(path: Path) -> None:
    counts: dict[str, Any] = {"class_counts": [3] * 8}
    for name in load_table(path).get("losses", {}):
        options = load_recipe(path, [f"head.name={name}"]).head_options()
        create_head(dim=4, num_classes=8, **(counts if name == "ldam" else {}), **options)


def test_the_name_that_a_head_has_already_changes_nothing() -> None:
    """The table of losses is for other heads: an ablation's own settings stay, however it is asked for."""
    path = next(path for path in RECIPES if path.parts[-2:] == ("pocket", "sphereface2-ablation.toml"))
    assert load_recipe(path, ["head.name=sphereface2"]) == load_recipe(path)
    assert load_recipe(path, ["head.name=sphereface2", "head.scale=2"]).head["scale"] == 2
    assert load_recipe(path, ["head.name=arcface"]).head == {"name": "arcface", **load_recipe(path).losses["arcface"]}


def test_fixed_prototypes_take_no_norm_of_learned_ones() -> None:
    path = next(path for path in RECIPES if path.parts[-2:] == ("recipes", "losses.toml"))
    for name in load_recipe(path).losses:
        fixed = load_recipe(path, [f"head.name={name}", "head.prototypes=simplex"])
        assert not {"prototype_norm", "renormalize"} & set(fixed.head)
    learned = load_recipe(path, ["head.name=sphereface2", "head.prototypes=learned"])
    assert learned.head["prototype_norm"] == 1
    asked = load_recipe(path, ["head.name=normface", "head.prototypes=simplex", "head.prototype_norm=1.0"])
    with pytest.raises(ValueError, match="fixed ones keep the norms they have"):
        create_head(dim=7, num_classes=8, **asked.head_options())


def test_heirs_say_so_in_their_first_line() -> None:
    """One `base =` line, and everything else is a difference."""
    for path in RECIPES:
        bases = [line for line in path.read_text().splitlines() if line.startswith("base")]
        assert len(bases) <= 1
        if bases:
            base = load_table(path.parent / bases[0].split('"')[1])
            own = tomllib.loads(path.read_text())
            assert not _repeated(base, {key: value for key, value in own.items() if key != "base"}), path


def _repeated(base: Mapping[str, Any], own: Mapping[str, Any], where: str = "") -> list[str]:
    """Settings of a recipe that its base has already; the name of a head may be repeated, its options are its own."""
    found = []
    for key, value in own.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), Mapping):
            renamed = key == "head" and value.get("name", base[key]["name"]) != base[key]["name"]
            found += [] if renamed else _repeated(base[key], value, f"{where}{key}.")
        elif base.get(key) == value:
            found.append(f"{where}{key}")
    return found


def test_the_list_names_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--list", "--recipes", str(ROOT / "recipes")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(SHIPPED)


def test_the_package_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sorted(path.relative_to(SHIPPED_RECIPES) for path in SHIPPED_RECIPES.rglob("*.toml")) == [
        path.relative_to(ROOT / "recipes") for path in SHIPPED
    ]
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(SHIPPED)


def test_a_recipe_for_other_data_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = ROOT / "papers" / "recipes" / "sphereface-casia-sfnet4.toml"
    assert main(["train", str(recipe), "--out", str(tmp_path)]) == 2
    assert "data.source is empty: this recipe needs a data set of yours" in capsys.readouterr().err
