"""Extras: the hint names an extra that brings the package, and every place that needs one gives it."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from hypersphere.core import import_extra, install_hint, is_installed
from hypersphere.core.extras import EXTRAS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_hint_says_what_works_in_a_checkout() -> None:
    hint = install_hint("matplotlib", "drawing")
    assert hint == "drawing needs matplotlib: in a checkout of hypersphere, pip install '.[plots]'"


@pytest.mark.parametrize("package", EXTRAS)
def test_the_extra_brings_the_package(package: str) -> None:
    extra, name = EXTRAS[package]
    names = [re.split(r"[<>=;\[]", entry)[0] for entry in PROJECT["optional-dependencies"][extra]]
    assert name.lower() in names


def test_all_has_every_extra_but_those_of_developers() -> None:
    (entry,) = PROJECT["optional-dependencies"]["all"]
    held = set(re.fullmatch(rf"{PROJECT['name']}\[(.*)\]", entry)[1].split(","))  # type: ignore[index]
    assert held | {"images", "dev", "site", "all"} == set(PROJECT["optional-dependencies"])  # fast-images brings images


def test_import_or_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    assert import_extra("PIL.Image", "a picture").__name__ == "PIL.Image"
    assert is_installed("PIL")
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.delitem(sys.modules, "PIL.Image", raising=False)
    assert not is_installed("PIL")
    with pytest.raises(ModuleNotFoundError, match=r"a picture needs Pillow: .*pip install '\.\[images\]'"):
        import_extra("PIL.Image", "a picture")


def test_nobody_else_writes_such_a_message() -> None:
    places = [path for path in (ROOT / "src").rglob("*.py") if path.name != "extras.py"]
    told = [
        path.name for path in places if re.search(r'raise ModuleNotFoundError|"[^"\n]*pip install', path.read_text())
    ]
    assert not told
    old = re.compile(r"pip install ['\"]?hypersphere(?!-learn)")
    documents = [path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")] if old.search(path.read_text())]
    assert not documents
