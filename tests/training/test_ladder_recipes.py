"""Every row of docs/results/faces.md has a recipe, and the runs on record are those of the recipes."""

from pathlib import Path
from statistics import fmean

import pytest

from hypersphere.training import RecordFile, load_recipe

ROOT = Path(__file__).parents[2]
LADDER = sorted((ROOT / "recipes" / "real" / "ladder").glob("*.toml"))
DATA = ["data.source=faces.tar", "data.validation.pairs=lfw-pairs.txt", "data.validation.images=lfw112.tar"]
TEACHER = ["teacher.model=sface.onnx"]


@pytest.fixture(scope="module")
def records() -> RecordFile:
    return RecordFile(ROOT / "papers" / "records" / "faces" / "results.jsonl")


@pytest.mark.parametrize("path", LADDER, ids=lambda path: path.stem)
def test_the_run_of_a_row_is_on_record(path: Path, records: RecordFile) -> None:
    """With the data the only thing given (and the teacher, where there is one)."""
    recipe = load_recipe(path, [*DATA, *(TEACHER if path.stem.startswith("distilled") else [])])
    assert records.find(recipe) is not None


def test_real_faces_is_the_recipe_that_held_out_people_chose(records: RecordFile) -> None:
    chosen, seeds = set(), range(3)
    for seed in seeds:
        run = records.find(load_recipe("real/faces", [*DATA, f"train.seed={seed}"]))
        assert run is not None
        chosen.add(run.cell)
    held_out: dict[str, list[float]] = {}
    for run in records.records.values():
        if "held-out identities" in run.scores:
            held_out.setdefault(run.cell, []).append(run.scores["held-out identities"].accuracy)
    best = max(held_out, key=lambda cell: fmean(held_out[cell]))
    assert chosen == {best} == {"real/ladder/iresnet18-sphereface2"}
    assert len(held_out[best]) == len(seeds)


@pytest.mark.parametrize("path", LADDER, ids=lambda path: path.stem)
def test_the_page_names_the_recipe_of_a_row(path: Path) -> None:
    assert f"`real/ladder/{path.stem}`" in (ROOT / "docs" / "results" / "faces.md").read_text()
