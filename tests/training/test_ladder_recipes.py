"""Every row of docs/results/faces.md has a recipe, and the runs on record are those of the recipes."""

from dataclasses import replace
from pathlib import Path

import pytest

from hypersphere.training import RecordFile, load_recipe, run_key

ROOT = Path(__file__).parents[2]
LADDER = sorted((ROOT / "recipes" / "real" / "ladder").glob("*.toml"))
DATA = ["data.source=faces.tar", "data.validation.pairs=lfw-pairs.txt", "data.validation.images=lfw112.tar"]
TEACHER = ["teacher.model=sface.onnx"]
ABOUT = "the best model of small real data: IResNet-18, CosFace, augmentation that few images need; give data.source"


@pytest.fixture(scope="module")
def records() -> RecordFile:
    return RecordFile(ROOT / "docs" / "results" / "faces" / "results.jsonl")


@pytest.mark.parametrize("path", LADDER, ids=lambda path: path.stem)
def test_the_run_of_a_row_is_on_record(path: Path, records: RecordFile) -> None:
    """With the data the only thing given (and the teacher, where there is one); `about` was the base's of then."""
    recipe = load_recipe(path, [*DATA, *(TEACHER if path.stem.startswith("distilled") else [])])
    abouts = (ABOUT, load_recipe("real/sst").about)
    assert any(run_key(replace(recipe, about=about)) in records.records for about in abouts)


def test_real_faces_is_the_recipe_that_held_out_people_chose(records: RecordFile) -> None:
    chosen = records.records[run_key(replace(load_recipe("real/faces", DATA), about=ABOUT))]
    assert chosen.cell == "real/ladder/iresnet18-sphereface2"
    held_out = [run.scores.get("held-out identities") for run in records.records.values()]
    assert max(score.accuracy for score in held_out if score) == chosen.scores["held-out identities"].accuracy


@pytest.mark.parametrize("path", LADDER, ids=lambda path: path.stem)
def test_the_page_names_the_recipe_of_a_row(path: Path) -> None:
    assert f"`real/ladder/{path.stem}`" in (ROOT / "docs" / "results" / "faces.md").read_text()
