"""How long the runs take is said before they start: from records of this machine, or from measured steps."""

from pathlib import Path
from typing import Any

import pytest

from hypersphere.heads import create_head
from hypersphere_papers.engine import run_plan
from hypersphere_papers.engine.evidence import settings_of
from hypersphere_papers.engine.record import Record, describe_machine, write_record
from hypersphere_papers.engine.run_plan import estimate_seconds, plan_runs, steps_of
from hypersphere_papers.engine.setting import Setting
from hypersphere_papers.laboratory import Job, load_catalogue
from papers.tests.bars import classifier, write_bars

ONE, TWO = classifier("one", "softmax"), classifier("two", "normface")
_COUNTED = ("ldam", "label_aware_smoothing")
"""Losses that know how many images each class has."""
LARGE = classifier("large", "softmax", "backbone.name=sfnet4")


def never(*_: object, **__: object) -> float:
    raise AssertionError("measured")


def record(seconds: float, machine: str = "", stopped: str = "") -> Record:
    return Record("one", 0, seconds, machine or describe_machine(), stopped)


@pytest.fixture(scope="module")
def settings() -> list[Setting]:
    """Those of all items that train here."""
    trained = [each for entry in load_catalogue().select() for each in settings_of(Job(entry=entry))]
    return [each for each in trained if each.data != "faces"]


def test_every_setting_states_its_steps(settings: list[Setting]) -> None:
    assert len(settings) > 200
    assert all(steps_of(each, 0) > 0 for each in settings)


def test_the_head_of_every_setting_can_be_made(settings: list[Setting]) -> None:
    for each in settings:
        for stage in each.recipe(0).stages():
            counts: dict[str, Any] = {"class_counts": [3] * 10} if stage.head["name"] in _COUNTED else {}
            create_head(dim=stage.backbone["dim"], num_classes=10, **counts, **stage.head_options())


def test_two_stages_have_the_steps_of_both() -> None:
    assert steps_of(classifier("s", "softmax", "second.train.steps=30"), 0) == 650


def test_records_of_this_machine_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_plan, "seconds_a_step", never)
    write_record(tmp_path, ONE.key(0), record(62.0))
    plan = plan_runs([ONE, TWO], (0, 1), tmp_path)
    assert (len(plan.records), len(plan.left), plan.steps) == (1, 3, 3 * 620)
    assert estimate_seconds(plan, tmp_path, jobs=1, device="cpu") == pytest.approx(3 * 62)
    assert estimate_seconds(plan, tmp_path, jobs=2, device="cpu") == pytest.approx(1.5 * 62)
    assert estimate_seconds(plan, tmp_path, jobs=8, device="cpu") == pytest.approx(62)


def test_what_no_record_tells_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def seconds(recipe: object, *_: object, **__: object) -> float:
        measured.append(recipe.backbone["name"])  # type: ignore[attr-defined]
        return 0.5

    monkeypatch.setattr(run_plan, "seconds_a_step", seconds)
    write_record(tmp_path, ONE.key(0), record(62.0, machine="another"))
    write_record(tmp_path, ONE.key(1), record(62.0, stopped="a collapse"))
    plan = plan_runs([ONE, TWO, LARGE], (0, 1), tmp_path)
    assert estimate_seconds(plan, tmp_path, jobs=1, device="cpu") == pytest.approx(4 * 310)
    assert sorted(measured) == ["cnn4", "sfnet4"]


def test_a_few_steps_are_really_trained(tmp_path: Path) -> None:
    tiny = (f"data.source={write_bars(tmp_path / 'bars.npz')}", "train.batch_size=4")
    plan = plan_runs([classifier("a", "softmax", *tiny), classifier("b", "no_such_loss", *tiny)], (0,), tmp_path)
    assert estimate_seconds(plan, tmp_path, jobs=1, device="cpu") > 0
    short = plan_runs([classifier("c", "softmax", *tiny, "train.steps=1")], (0,), tmp_path)
    assert estimate_seconds(short, tmp_path, jobs=1, device="cpu") > 0
