"""Every example of a docstring prints what it says, and every Python block of a document runs."""

import ast
import doctest
import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import examples

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
FOLDERS = ("docs", "docs/guide")
DOCUMENTS = [f"{folder}/{path.name}" for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.md"))]


def docstrings() -> list[tuple[str, str]]:
    """Module and name of everything whose docstring has an example."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        if ">>>" not in text:
            continue
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        found += [(module, name) for name, docstring in documented(ast.parse(text)) if ">>>" in docstring]
    return found


def documented(node: ast.AST, inside: str = "") -> list[tuple[str, str]]:
    """Name and docstring of what a module defines, and of what its classes define."""
    found = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            name = f"{inside}{child.name}"
            found += [(name, ast.get_docstring(child) or ""), *documented(child, f"{name}.")]
    return found


def blocks(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    examples.write_files(folder)
    return folder


@pytest.fixture
def place(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of its own, with links to the files that examples open."""
    for path in files.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("module", "name"), docstrings(), ids=lambda value: value.removeprefix("hypersphere."))
def test_a_docstring_prints_what_it_says(module: str, name: str, place: Path) -> None:
    owner = importlib.import_module(module)
    found = owner
    for part in name.split("."):
        found = getattr(found, part)
    room = importlib.import_module(".".join(module.split(".")[:2]))
    scope = {**{each: getattr(room, each) for each in room.__all__}, **vars(owner), **examples.names()}
    test = doctest.DocTestParser().get_doctest(found.__doc__ or "", scope, name, module, 0)
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE, verbose=False)
    assert runner.run(test, out=told.append).failed == 0, "".join(told)


@pytest.mark.parametrize("document", [document for document in DOCUMENTS if blocks(document)])
def test_the_blocks_of_a_document_run(document: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 0}.items():
        monkeypatch.setenv(name, str(value))
    scope: dict[str, Any] = examples.names()
    for block in blocks(document):
        exec(compile(block, document, "exec"), scope)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def test_the_examples_are_found() -> None:
    assert ("hypersphere.heads.create", "create_head") in docstrings()
    assert len(docstrings()) > 100
    assert sum(map(len, map(blocks, DOCUMENTS))) > 10
