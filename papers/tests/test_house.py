"""The rules of the two houses: what the laboratory may import, and that the library knows nothing of it."""

import ast
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from hypersphere_papers.catalogue import load_catalogue
from tests.test_rooms import FILES as LIBRARY
from tests.test_rooms import ROOMS, imported, positionals, tree, unpickling

SOURCE = Path(__file__).parents[1] / "src" / "hypersphere_papers"
FILES = sorted(SOURCE.rglob("*.py"))
PAPERS = [name.replace("-", "_") for name in load_catalogue().papers]
INTERFACES = {"hypersphere", "hypersphere.evaluation.protocols", *(f"hypersphere.{room}" for room in ROOMS)}
"""What the laboratory may import of the library: what these export in `__all__`, and nothing behind them."""


def called(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@cache
def exported(module: str) -> set[str]:
    return set(import_module(module).__all__)


def past_the_interface(module: ast.Module) -> list[str]:
    """What a file takes of the library that no room exports: by an import, or as an attribute (`hs.plots.name`)."""
    wrong = []
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("hypersphere.")]
            wrong += [f"import {name}" for name in names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hypersphere":
            name = node.module or ""
            known = exported(name) if name in INTERFACES else set()
            wrong += [f"from {name} import {alias.name}" for alias in node.names if alias.name not in known]
        elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("hs."):
            _, room, *rest = ast.unparse(node).split(".")
            if room in ROOMS and rest and rest[0] not in exported(f"hypersphere.{room}"):
                wrong.append(ast.unparse(node))
    return wrong


def test_nothing_in_the_library_imports_the_laboratory() -> None:
    assert not [path for path in LIBRARY for name in imported(tree(path)) if name.startswith("hypersphere_papers")]


def test_the_laboratory_uses_what_rooms_export() -> None:
    wrong = {called(path): past_the_interface(tree(path)) for path in FILES}
    assert not {path: names for path, names in wrong.items() if names}


@pytest.mark.parametrize(
    "text",
    ["import hypersphere.core.files", "from hypersphere.data.fit import Fitted", "from hypersphere.data import _open",
     "from hypersphere import cli", "hs.data.fit.Fitted", "from hypersphere.version import __version__"],
)  # fmt: skip
def test_what_no_room_exports_is_noticed(text: str) -> None:
    assert past_the_interface(ast.parse(text))


def test_the_engine_knows_no_paper_and_no_paper_another() -> None:
    wrong = []
    for path in FILES:
        place = called(path).split("/")[0]
        for name in imported(tree(path)):
            _, used, *_ = *name.split("."), "", ""
            if name.startswith("hypersphere_papers.") and place in (*PAPERS, "engine"):
                wrong += [f"{called(path)}: {name}"] if used not in ("engine", "catalogue", place) else []
    assert not wrong


def test_every_paper_has_its_folder() -> None:
    assert set(PAPERS) == {path.parent.name for path in FILES if path.parent.parent == SOURCE} - {"engine"}


def test_the_rules_of_the_library_hold_here_too() -> None:
    for path in FILES:
        assert len(path.read_text().splitlines()) <= 400, called(path)
        assert unpickling(tree(path)) == [], called(path)
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef):
                assert positionals(node) <= 6, f"{called(path)}: {node.name}"
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in ("eval", "exec"), called(path)
                assert name != "print" or path.stem.endswith("_command"), called(path)
