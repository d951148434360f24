"""The notebooks run from the first cell to the last, and have the outputs that their pages show."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tools import notebooks

PATHS = notebooks.notebooks()


def shortened(notebook: dict[str, Any]) -> dict[str, Any]:
    """A notebook whose training takes a few steps."""
    short = copy.deepcopy(notebook)
    for cell in short["cells"]:
        cell["source"] = re.sub(r"^STEPS = \d+$", "STEPS = 3", notebooks.source(cell), flags=re.MULTILINE)
    return short


def kinds(notebook: dict[str, Any]) -> list[list[str]]:
    return [[output["output_type"] for output in cell.get("outputs", [])] for cell in notebook["cells"]]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_has_its_outputs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = notebooks.read(path)
    assert kinds(notebooks.run(shortened(notebook))) == kinds(notebook), "run `python -m tools.notebooks`"
    assert path.stat().st_size < 500_000
    assert "In Colab, upload" in notebooks.source(notebook["cells"][0])


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_whole_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebooks.run(notebooks.read(path))


def test_the_three_notebooks_are_found() -> None:
    assert [path.stem for path in PATHS] == ["losses-on-the-sphere", "ten-million-classes", "train-and-evaluate"]


def test_a_page_of_a_notebook(tmp_path: Path) -> None:
    path = tmp_path / "one.ipynb"
    code = {"cell_type": "code", "source": ["import matplotlib.pyplot as plt\n", "plt.plot([1]);\n", "print('hello')"]}
    last = {"cell_type": "code", "source": ["2 + 2"]}
    made = notebooks.run({"cells": [{"cell_type": "markdown", "source": ["# One"]}, code, last]})
    path.write_text(json.dumps(made))
    page = notebooks.page(path, tmp_path / "images")
    assert page.startswith("# One\n\n```python\nimport matplotlib")
    assert "```text\nhello\n```" in page
    assert "```text\n4\n```" in page
    assert "](images/one-1.png)" in page
    assert (tmp_path / "images" / "one-1.png").read_bytes().startswith(b"\x89PNG")
