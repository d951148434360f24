"""How well runs fit: what is kept of them by setting, and how it is shown."""

import json
from pathlib import Path

import pytest

from hypersphere_papers.engine import job
from hypersphere_papers.engine.evidence import Evidence, experiment
from hypersphere_papers.engine.face_records import SOFTMAX, faces, searched
from hypersphere_papers.engine.item_details import item_details
from hypersphere_papers.engine.record import Record
from hypersphere_papers.engine.result_file import write_result
from hypersphere_papers.engine.runs import Gathered
from hypersphere_papers.engine.setting import Setting
from hypersphere_papers.engine.setting_fit import SettingFit, setting_fits
from hypersphere_papers.engine.verdict import rounded_down
from hypersphere_papers.laboratory import Entry, Job, Outcome, Result, fit_summary, no_tests, read_result
from papers.tests.bars import classifier

GOOD, BAD, DEAD, PAIRED = (
    classifier(*words) for words in (("good", "softmax"), ("bad", "normface"), ("dead", "coco"), ("paired", "arcface"))
)
OLD, MISSING = classifier("old", "cosface"), classifier("missing", "ampface")
NAN = "the loss is nan: lower the learning rate, warm up, or clip gradients"


def runs(*numbers: tuple[float, float] | str, steps: int = 0) -> list[Record]:
    """One for each seed: train accuracy and norm, or why it stopped."""
    return [
        Record("x", seed, 1.0, stopped=each)
        if isinstance(each, str)
        else Record("x", seed, 1.0, numbers=dict(zip(("train accuracy", "norm"), each, strict=True)), steps=steps)
        for seed, each in enumerate(numbers)
    ]


RECORDS: dict[Setting, list[Record]] = {
    GOOD: runs((99.0, 10.0), (97.0, 14.0), (98.0, 12.0)),
    BAD: runs((99.0, 2.0), (94.96, 2.0)),
    DEAD: runs(NAN, (96.0, 4.0), NAN),
    PAIRED: [Record("x", seed, 1.0, numbers={"norm": 1500.0}) for seed in range(3)],
    OLD: [Record("x", seed, 1.0, numbers={"pairs": 90.0}) for seed in range(3)],
    MISSING: [],
}


def fits() -> list[SettingFit]:
    return setting_fits(RECORDS)


def test_the_fit_of_a_setting_is_of_its_runs_that_ended() -> None:
    good, bad, dead, paired, old, missing = fits()
    assert good == SettingFit(
        title="good", seeds=3, steps=620, train_accuracy=98.0, lowest_train_accuracy=97.0, norm=12.0
    )
    assert (bad.seeds, bad.train_accuracy, bad.lowest_train_accuracy, bad.norm) == (2, 96.98, 94.96, 2.0)
    assert (dead.seeds, dead.stopped, dead.lowest_train_accuracy, dead.norm) == (3, (NAN, NAN), 96.0, 4.0)
    assert (paired.train_accuracy, paired.norm, paired.steps) == (None, 1500.0, 620)
    assert (old.seeds, old.train_accuracy, old.norm) == (3, None, None)
    assert missing == SettingFit(title="missing", seeds=0)
    states = ["fitted", "did not fit", "stopped", "not recorded", "not recorded", "not recorded"]
    assert [fit.state for fit in fits()] == states


def test_nothing_is_kept_of_runs_that_all_stopped() -> None:
    (fit,) = setting_fits({DEAD: runs(NAN, NAN)})
    assert fit == SettingFit(title="dead", seeds=2, stopped=(NAN, NAN))


def test_a_run_of_which_something_was_not_measured_was_trained() -> None:
    (trained,) = runs((99.0, 3.0), steps=100)
    record = Record("x", 0, 1.0, stopped="its searches were not measured", numbers=trained.numbers, steps=100)
    (fit,) = setting_fits({searched(SOFTMAX): [record]})
    assert (fit.state, fit.stopped, fit.steps, fit.norm) == ("fitted", (), 100, 3.0)


@pytest.mark.parametrize(
    ("overrides", "steps"),
    [
        ((), 800),
        (("second.train.epochs=8.0",), 3200),  # 100 steps an epoch, 24 and 8 epochs
        (("second.train.epochs=8.0", "second.train.batch_size=64"), None),
    ],
)
def test_steps_of_epochs_are_on_record_for_the_last_stage(overrides: tuple[str, ...], steps: int | None) -> None:
    (fit,) = setting_fits({faces("a", "softmax", *overrides): runs((99.0, 1.0), steps=800)})
    assert fit.steps == steps


def test_steps_that_a_recipe_states_are_those_of_both_stages() -> None:
    two = classifier("a", "softmax", "train.steps=300", "second.train.steps=200")
    assert setting_fits({two: runs((99.0, 1.0))})[0].steps == 500


def test_settings_that_are_the_same_runs_are_one_and_others_are_told_apart() -> None:
    few, many = (classifier("CosFace", "cosface", f"data.images_per_class={count}") for count in (10, 50))
    objects = Setting("CosFace", ("head.name=cosface", "train.steps=9"), "classes", "cifar10")
    found = setting_fits(
        {
            few: runs((99.0, 1.0)),
            many: runs((99.0, 1.0)),
            objects: runs((99.0, 1.0)),
            many.but("m = 0.35"): runs((99.0, 1.0)),
            SOFTMAX: runs((99.0, 1.0)),
            searched(SOFTMAX): runs((99.0, 1.0)),
        }
    )
    assert [fit.title for fit in found] == [
        "CosFace, MNIST, data.images_per_class=10",
        "CosFace, MNIST, data.images_per_class=50 / m = 0.35",
        "CosFace, CIFAR-10",
        "softmax",
    ]
    twice = setting_fits({SOFTMAX: runs((99.0, 1.0)), searched(SOFTMAX): runs((99.0, 2.0))})
    assert [fit.title for fit in twice] == ["softmax, verification", "softmax, searches"]


@pytest.mark.parametrize(
    ("share", "text"), [(94.96, "94.9"), (94.99999, "94.9"), (100 * 0.944, "94.4"), (95.0, "95.0"), (100.0, "100.0")]
)
def test_a_share_is_rounded_down_but_not_by_the_error_of_a_float(share: float, text: str) -> None:
    assert rounded_down(share) == text


def test_a_line_sums_up_and_names_what_is_no_test() -> None:
    assert fit_summary(fits()) == (
        "5 settings, 14 runs: 1 fitted, 1 did not fit, 1 stopped, 2 not recorded; lowest train accuracy 94.9 to "
        "97.0 %, mean ||x|| 2.00 to 1,500; 1 more not on record"
    )
    assert no_tests(fits()) == "did not fit: bad (94.9 %); stopped: dead (the loss is nan)"
    assert fit_summary(fits()[:1]) == "1 setting, 3 runs: 1 fitted; lowest train accuracy 97.0 %, mean ||x|| 12.0"
    assert no_tests(fits()[:1]) == ""
    assert fit_summary(fits()[-1:]) == "none on record"


@pytest.mark.parametrize(("norm", "text"), [(0.86, "0.860"), (112.3, "112"), (999.7, "1,000"), (2.04e14, "2.04e+14")])
def test_lengths_of_every_size_are_readable(norm: float, text: str) -> None:
    assert fit_summary([SettingFit(title="a", seeds=1, norm=norm)]).endswith(f"mean ||x|| {text}")


def result_of(fits_: list[SettingFit], folder: Path) -> Result:
    outcome = Outcome(fits=fits_, notes=["How."])
    return write_result(folder, "p/table1", outcome, command="c", seconds=1.0, seeds=(0, 1, 2))


ENTRY = Entry(id="p/table1", title="t", kind="real", needs="MNIST", claim="c.")


def test_a_section_has_a_folded_table_of_its_runs(tmp_path: Path) -> None:
    text = "\n".join(item_details(ENTRY, result_of(fits(), tmp_path)))
    assert (
        f"""<details><summary>The runs and their fit: {fit_summary(fits())}</summary>

| setting | seeds | steps | train accuracy, % | lowest seed | mean \\|\\|x\\|\\| | fit |
| --- | --- | --- | --- | --- | --- | --- |
| good | 3 | 620 | 98.0 | 97.0 | 12.0 | fitted |
| bad | 2 of 3 | 620 | 97.0 | 94.9 | 2.00 | **did not fit** |
| dead | 3 | 620 | 96.0 | 96.0 | 4.00 | **2 of 3 stopped**: the loss is nan; the others fitted |
| paired | 3 | 620 |  |  | 1,500 | not recorded |

No run on record: missing.

Neither train accuracy nor ||x|| on record: old.

</details>

How.
"""
        in text
    )


def test_runs_without_numbers_are_a_line_and_no_table(tmp_path: Path) -> None:
    text = "\n".join(item_details(ENTRY, result_of(fits()[4:5], tmp_path)))
    assert "1 setting, 3 runs: 1 not recorded</summary>\n\nNeither train accuracy nor ||x|| on record: old." in text
    assert "| setting |" not in text
    assert "The runs" not in "\n".join(item_details(ENTRY, result_of(fits()[5:], tmp_path)))


def test_a_result_keeps_the_fit_and_one_from_before_has_none(tmp_path: Path) -> None:
    result = result_of(fits(), tmp_path)
    path = tmp_path / "results" / "p-table1.json"
    assert read_result(path) == result
    assert result.fits == tuple(fits())
    table = json.loads(path.read_text())
    assert table["fits"][0] == {
        "title": "good",
        "seeds": 3,
        "stopped": [],
        "steps": 620,
        "train_accuracy": 98.0,
        "lowest_train_accuracy": 97.0,
        "norm": 12.0,
    }
    del table["fits"]
    path.write_text(json.dumps(table))
    before = read_result(path)
    assert before.fits == ()
    assert "The runs" not in "\n".join(item_details(ENTRY, before))


def test_every_item_that_is_judged_from_records_keeps_their_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_ITEMS", {})

    @experiment("p/table1", [GOOD, BAD, MISSING])
    def judge(evidence: Evidence) -> Outcome:
        assert evidence.unfit(BAD) == "bad: 2 of 3 seeds are on record"
        return Outcome(notes=["How."])

    found = {each.key(record.seed): record for each in (GOOD, BAD) for record in RECORDS[each]}
    run = job.find_item("p/table1")
    assert run is not None
    outcome = run(Job(entry=ENTRY, seeds=(0, 1, 2), gathered=Gathered(found)))
    assert list(outcome.fits) == [fits()[0], fits()[1], fits()[5]]
