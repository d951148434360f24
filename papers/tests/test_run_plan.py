"""How long the runs take is said before they start: from records of this machine, or from measured steps."""

from pathlib import Path
from typing import Any

import pytest

from hypersphere.heads import create_head
from hypersphere.training import Recipe, Task
from hypersphere_papers.engine import run_plan
from hypersphere_papers.engine.class_runs import ClassMeasure
from hypersphere_papers.engine.evidence import settings_of
from hypersphere_papers.engine.run_plan import RunPlan
from hypersphere_papers.engine.setting import Setting
from hypersphere_papers.laboratory import Job, load_catalogue
from papers.tests.bars import classifier, write_bars

ONE, TWO = classifier("one", "softmax"), classifier("two", "normface")
_COUNTED = ("ldam", "label_aware_smoothing")
"""Losses that know how many images each class has."""
LARGE = classifier("large", "softmax", "backbone.name=sfnet4")


def never(*_: object, **__: object) -> float:
    raise AssertionError("measured")


def plan_of(settings: list[Setting], folder: Path, *, source: str = "") -> RunPlan:
    """The plan of a seed of each."""
    tasks = {}
    for each in settings:
        recipe = (each.but(each.name, f"data.source={source}") if source else each).recipe(0)
        measure = ClassMeasure(each.measure, recipe, folder)
        tasks[each.title] = Task(each.title, recipe, folder, source=measure.source)
    return RunPlan(tasks)


def known(seconds: float) -> list[tuple[Recipe, float]]:
    return [(ONE.recipe(5), seconds)]


@pytest.fixture(scope="module")
def settings() -> list[Setting]:
    """Those of all items that train here."""
    trained = [each for entry in load_catalogue().select() for each in settings_of(Job(entry=entry))]
    return [each for each in trained if each.data != "faces"]


def test_every_setting_states_its_steps(settings: list[Setting]) -> None:
    assert len(settings) > 200
    assert all(stage.train.steps for each in settings for stage in each.recipe(0).stages())


def test_the_head_of_every_setting_can_be_made(settings: list[Setting]) -> None:
    for each in settings:
        for stage in each.recipe(0).stages():
            counts: dict[str, Any] = {"class_counts": [3] * 10} if stage.head["name"] in _COUNTED else {}
            create_head(dim=stage.backbone["dim"], num_classes=10, **counts, **stage.head_options())


def test_two_stages_have_the_steps_of_both_and_a_shared_first_one_counts_once(tmp_path: Path) -> None:
    two = classifier("two", "softmax", "second.train.steps=30")
    assert plan_of([two], tmp_path).steps == {"two": 650}
    longer = classifier("longer", "softmax", "second.train.steps=40")
    assert plan_of([two, longer], tmp_path).steps == {"two": 650, "longer": 40}


def test_records_of_this_machine_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_plan, "seconds_a_step", never)
    plan = plan_of([ONE, TWO], tmp_path)
    assert plan.seconds(known(0.1), jobs=1, device="cpu") == pytest.approx(2 * 62)
    assert plan.seconds(known(0.1), jobs=2, device="cpu") == pytest.approx(62)
    assert plan.seconds(known(0.1), jobs=8, device="cpu") == pytest.approx(62)


def test_what_no_record_tells_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def seconds(recipe: Recipe, *_: object, **__: object) -> float:
        measured.append(recipe.backbone["name"])
        return 0.5

    monkeypatch.setattr(run_plan, "seconds_a_step", seconds)
    plan = plan_of([ONE, TWO, LARGE], tmp_path, source=str(write_bars(tmp_path / "bars.npz")))
    assert plan.seconds([], jobs=1, device="cpu") == pytest.approx(3 * 310)
    assert sorted(measured) == ["cnn4", "sfnet4"]


def test_a_few_steps_are_really_trained(tmp_path: Path) -> None:
    tiny = (f"data.source={write_bars(tmp_path / 'bars.npz')}", "train.batch_size=4")
    plan = plan_of([classifier("a", "softmax", *tiny), classifier("b", "no_such_loss", *tiny)], tmp_path)
    assert plan.seconds([], jobs=1, device="cpu") > 0
    short = plan_of([classifier("c", "softmax", *tiny, "train.steps=1")], tmp_path)
    assert short.seconds([], jobs=1, device="cpu") > 0
    wild = classifier("d", "softmax", *tiny, "optimizer.name=sgd", "optimizer.lr=1e30", "train.log_every=1")
    assert plan_of([wild], tmp_path).seconds([], jobs=1, device="cpu") >= 0
