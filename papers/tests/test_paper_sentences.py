"""Sentences of single items: judged as the papers say them, and undecided where the runs are no test."""

import math
from collections.abc import Mapping

import numpy as np
import pytest
import torch

from hypersphere.theory import ToySolution
from hypersphere_papers.ampface import angle_curves, theorems
from hypersphere_papers.engine.evidence import Evidence, settings_of
from hypersphere_papers.engine.face_records import ARCFACE, COSFACE
from hypersphere_papers.engine.outcome import Finding, Outcome, checked
from hypersphere_papers.engine.record import Record
from hypersphere_papers.engine.runs import Gathered
from hypersphere_papers.engine.setting import Setting
from hypersphere_papers.engine.verdict import ALIKE, Interval
from hypersphere_papers.laboratory import Job, find_item, load_catalogue
from hypersphere_papers.largest_margins import imbalanced
from hypersphere_papers.largest_margins.theorems import _at_the_minimum
from hypersphere_papers.sphereface2 import real_faces, searches

COLLAPSE = "polar collapse: one way, and the loss does not fall; lower head.margin, or lower the learning rate"


def job(name: str, records: Mapping[str, Record] | None = None) -> Job:
    return Job(entry=load_catalogue()[name], seeds=(0, 1), gathered=Gathered(dict(records or {})))


def run(name: str, records: Mapping[str, Record] | None = None) -> Outcome:
    found = find_item(name)
    assert found is not None
    return found(job(name, records))


def trained(**numbers: float) -> list[Record]:
    named = {name.replace("_", " "): value for name, value in numbers.items()}
    return [Record("x", seed, 1.0, numbers=named) for seed in (0, 1)]


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        (Interval(0.1, -0.3, 0.4, (0.0, 0.2)), "held"),
        (Interval(0.1, -0.6, 0.4), "undecided"),
        (Interval(0.4, 0.2, 0.7), "undecided"),
        (Interval(0.9, 0.6, 1.2), "contradicted"),
        (Interval(-0.9, -1.2, -0.6), "contradicted"),
        (None, "undecided"),
    ],
)
def test_about_as_good_is_asked_of_both_sides(interval: Interval | None, verdict: str) -> None:
    assert ALIKE(interval) == verdict


def solution(change: float) -> ToySolution:
    vectors, labels = torch.eye(3), torch.arange(3)
    return ToySolution(vectors, vectors, labels, 90.0, 1.0, late_turn_degrees=5.0, late_change_degrees=change)


def test_a_toy_that_is_not_at_its_minimum_decides_nothing() -> None:
    found = checked("a margin", "67.2", held=False, paper="68.5")
    assert _at_the_minimum(found, [solution(0.0), solution(0.05)]) == found
    left = _at_the_minimum(found, [solution(0.0), solution(0.4)])
    assert (left.verdict, left.alone) == ("undecided", "contradicted")
    assert "still changed by 0.4 degrees" in left.note


@pytest.mark.parametrize(("mean", "verdict"), [(4.5e6, "held"), (5.2e6, "undecided"), (3.0e6, "undecided")])
def test_one_draw_is_held_within_its_deviation_alone(mean: float, verdict: str) -> None:
    found = theorems.one_draw(Finding(what="w", ours="", paper="4456200", verdict="held"), mean, 0.6e6)
    assert (found.verdict, found.tolerance) == (verdict, 6e5)


def test_the_draw_of_fig10_lies_within_the_deviation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorems, "_DRAWS", 2)
    first = run("ampface/fig10").findings[0]
    assert (first.verdict, first.paper) == ("held", "4456200")
    assert first.tolerance == pytest.approx(0.1526 * 4.5407e6, rel=0.02)
    assert "one random draw" in first.note


def test_termination_angles_are_judged_at_every_level(monkeypatch: pytest.MonkeyPatch) -> None:
    four = [finding for finding in run("ampface/fig5").findings if finding.verdict]
    assert [finding.verdict for finding in four] == ["undecided"] * 4
    assert "27.0 degrees at 1 - p_y = 0.01, 46.7 at 0.5" in four[0].note
    for angle, verdict in ((39.0, "held"), (45.0, "contradicted")):
        monkeypatch.setattr(angle_curves, "termination_degrees", lambda *_, angle=angle: angle)
        assert {finding.verdict for finding in run("ampface/fig5").findings if finding.verdict} == {verdict}


def naive(records: list[Record], control: list[Record]) -> Finding:
    found = {real_faces._NAIVE: records, real_faces._CONTROL: control, real_faces._SCALED: []}
    return real_faces._fails_to_converge(Evidence(job("sphereface2/table2"), found))


def test_eq_1_fails_where_its_control_trains() -> None:
    stopped = [Record("x", seed, 1.0, stopped=COLLAPSE) for seed in (0, 1)]
    control = trained(train_accuracy=40.0)
    differing = set(real_faces._NAIVE.overrides) ^ set(real_faces._CONTROL.overrides)
    assert differing == {"head.balance=0.5", "head.loss_weight=2.0", "head.balance=0.995"}
    found = naive(stopped, control)
    assert (found.verdict, "head.margin" in found.ours, "fits 40.0 %" in found.note) == ("held", False, True)
    assert naive(stopped, []).verdict == "undecided"
    assert naive(stopped, stopped).verdict == "undecided"
    assert naive(trained(train_accuracy=30.0), control).verdict == "undecided"
    assert naive(trained(train_accuracy=50.0), control).verdict == "contradicted"
    assert naive([stopped[0], control[1]], control).verdict == "undecided"
    assert naive(stopped[:1], control).ours == "not measured"


@pytest.mark.parametrize(("best", "fair"), [(89.0, False), (87.0, True), (math.nan, True)])
def test_a_rival_that_is_better_without_the_adjustment_is_none(best: float, fair: bool) -> None:
    records: dict[Setting, list[Record]] = {}
    for rival, (plain, adjusted) in searches._BESIDE_BEST.items():
        records[plain] = trained(lfw=best if rival == "ArcFace" else 80.0, pairs=80.0)
        records[adjusted] = trained(lfw=88.0, pairs=88.0)
    evidence = Evidence(job("sphereface2/table12"), records)
    assert searches._no_rival(evidence, "CosFace") == ""
    assert (searches._no_rival(evidence, "ArcFace") == "") is fair
    assert [pair[0] for pair in searches._BESIDE_BEST.values()] == [COSFACE, ARCFACE]


@pytest.mark.parametrize(
    ("name", "size", "first", "rest"),
    [
        ("sphereface2/table11", "", {2.0, 3.0, 5.0}, 1.0),
        ("sphereface2/table11", "small: ", {2.0, 3.0, 4.0, 5.0}, 1.0),
        ("sphereface2/table3", "", {0.5, 0.6, 0.7, 0.9}, 0.8),
    ],
)
def test_t_and_lambda_are_compared_as_the_paper_does(name: str, size: str, first: set[float], rest: float) -> None:
    what = [finding.what for finding in run(name).findings if finding.verdict]
    compared = [text for text in what if f"= {rest:g}," in text and text.startswith("small: ") == (size == "small: ")]
    assert len(compared) == 2 * len(first)
    assert all(any(f"= {each:g} is " in text for text in compared) for each in first)
    assert not any("0.3" in text or "0.99" in text for text in what)


def test_what_is_not_on_record_of_t_is_named() -> None:
    rng, records = np.random.default_rng(0), {}
    for t, setting in real_faces._TS.items():
        for seed in (0, 1) if t != 0.3 else ():
            arrays = {"lfw": rng.random(40) < 0.9, "pairs": rng.random(40) < 0.9}
            arrays |= {f"{key} subjects": rng.integers(0, 20, (2, 40)) for key in ("lfw", "pairs")}  # type: ignore[misc]
            numbers = {"lfw": 90.0, "pairs": 90.0, "train accuracy": 99.0}
            records[setting.key(seed)] = Record("x", seed, 1.0, numbers=numbers, arrays=arrays)
    outcome = run("sphereface2/table11", records)
    assert any(note.startswith("Not on record yet: ") and ", t = 0.3, small: t = 1, " in note for note in outcome.notes)
    assert list(outcome.figures) == ["table11"]


def test_the_star_stands_beside_the_same_lambda() -> None:
    wanted = settings_of(job("largest-margins/table2"))
    records = {
        setting.key(seed): Record("x", seed, 1.0, numbers={"accuracy": 60.0, "class margin": 80.0})
        for setting in wanted
        for seed in (0, 1)
        if setting.title == "long-tailed 100: CosFace, lambda = 5"
    }
    evidence = Evidence(
        job("largest-margins/table2"),
        {setting: [records[key] for seed in (0, 1) if (key := setting.key(seed)) in records] for setting in wanted},
    )
    found = {finding.what: finding.paper for finding in imbalanced.imbalance_table(evidence).findings}
    row = found["long-tailed 100: CosFace, lambda = 5: accuracy, %"]
    assert row == "Table 6, lambda = 5: CIFAR-10 long-tailed 100 acc 69.18"
    assert found["long-tailed 100: CosFace, lambda = 0: accuracy, %"] == "CIFAR-10 long-tailed 100 acc 69.28"


@pytest.mark.parametrize("name", ["sphereface2/fig9", "sphereface2/table6", "sphereface2/table7", "sphereface2/table8"])
def test_the_papers_radius_is_named(name: str) -> None:
    notes = " ".join(run(name).notes)
    assert "The paper has r = 40 here" in notes
    assert "r = 30, m = 0.4 and t = 3, as in sec. 3.1" in notes
