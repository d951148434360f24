"""Every row of docs/results/faces.md has a recipe, and the runs on record are those of the recipes."""

from dataclasses import replace
from pathlib import Path

import pytest

from hypersphere.training import RecordFile, load_recipe, run_key

ROOT = Path(__file__).parents[2]
LADDER = sorted((ROOT / "recipes" / "real" / "ladder").glob("*.toml"))
DATA = ["data.source=faces.tar", "data.validation.pairs=lfw-pairs.txt", "data.validation.images=lfw112.tar"]
TEACHER = ["teacher.model=sface.onnx"]


@pytest.fixture(scope="module")
def records() -> RecordFile:
    return RecordFile(ROOT / "docs" / "results" / "faces" / "results.jsonl")


@pytest.mark.parametrize("path", LADDER, ids=lambda path: path.stem)
def test_the_run_of_a_row_is_on_record(path: Path, records: RecordFile) -> None:
    """With the data the only thing given (and the teacher, where there is one); `about` was that of the base."""
    recipe = load_recipe(path, [*DATA, *(TEACHER if path.stem.startswith("distilled") else [])])
    bases = (load_recipe(name, DATA).about for name in ("real/faces", "real/sst"))
    assert any(run_key(replace(recipe, about=about)) in records.records for about in bases)


@pytest.mark.parametrize("path", LADDER, ids=lambda path: path.stem)
def test_the_page_names_the_recipe_of_a_row(path: Path) -> None:
    assert f"`real/ladder/{path.stem}`" in (ROOT / "docs" / "results" / "faces.md").read_text()
