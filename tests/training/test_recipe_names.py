"""Recipes by name."""

from pathlib import Path

import pytest

from hypersphere.training import SHIPPED_RECIPES, find_recipe, load_recipe, recipe_names


def test_every_shipped_recipe_has_its_name() -> None:
    names = recipe_names()
    assert names["pocket/faces"] == SHIPPED_RECIPES / "pocket" / "faces.toml"
    assert len(names) == len(list(SHIPPED_RECIPES.rglob("*.toml")))
    assert load_recipe("pocket/faces", ["train.steps=3"]).train.steps == 3


def test_a_file_comes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pocket").mkdir()
    (tmp_path / "pocket" / "faces").write_text("")
    assert find_recipe("pocket/faces") == Path("pocket/faces")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("pocket/fases", "'pocket/faces'"),
        ("recipes/pocket/faces.toml", "'pocket/faces'"),
        ("faces", "'pocket/faces' or 'real/faces'"),
        ("fasces", "'pocket/faces' or 'real/faces'"),
        ("sphereface2-noise", "'pocket/sphereface2-noise'"),
    ],
)
def test_what_is_nearly_a_name_gets_it(name: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=rf"neither a file nor a recipe; did you mean {meant}\? `hypersphere train"):
        find_recipe(name)


def test_what_is_like_no_name_gets_no_guess(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="zzz: neither a file nor a recipe; `hypersphere train --list` names all"):
        find_recipe("zzz")
    with pytest.raises(ValueError, match="no recipes there"):
        recipe_names(tmp_path)
    (tmp_path / "own.toml").write_text("")
    assert find_recipe("own", tmp_path) == tmp_path / "own.toml"
