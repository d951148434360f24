"""Judging: gains with intervals, sentences that hold and that do not, on records made by hand."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hypersphere.reproduce import Entry, Job, find_item, load_catalogue
from hypersphere.reproduce.pocket import evidence as module
from hypersphere.reproduce.pocket import measure
from hypersphere.reproduce.pocket.evidence import Evidence, Gain, gain_of, interval, settings_of, subjects_of
from hypersphere.reproduce.pocket.measure import probes, unseen_pairs
from hypersphere.reproduce.pocket.records import Record
from hypersphere.reproduce.pocket.runs import Gathered
from hypersphere.reproduce.pocket.settings import Setting, people, unique

ENTRY = Entry(id="p/table1", title="t", kind="pocket", claim="c.")
GOOD, BAD, DEAD = people("good", "softmax"), people("bad", "normface"), people("dead", "coco")


_FEW = 2000
"""Pairs that tests judge: enough for an interval."""


def evidence(good: float = 0.9, bad: float = 0.8, seeds: int = 3) -> Evidence:
    """Decisions that are right with these probabilities; the third setting stopped itself."""
    records = {}
    for number, (setting, share) in enumerate(((GOOD, good), (BAD, bad))):
        rng = np.random.default_rng(number)
        records[setting] = [
            Record("x", seed, 1.0, numbers={"pairs": 100 * share + seed}, arrays={"pairs": rng.random(_FEW) < share})
            for seed in range(seeds)
        ]
    records[DEAD] = [Record("x", seed, 1.0, stopped="polar collapse") for seed in range(seeds)]
    return Evidence(Job(entry=ENTRY, seeds=tuple(range(seeds))), records)


@pytest.fixture
def few_pairs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """2,000 pairs of unseen people instead of 12,000."""
    module._unseen_subjects.cache_clear()
    monkeypatch.setattr(measure, "PAIRS", _FEW)
    yield
    module._unseen_subjects.cache_clear()


def test_a_gain_is_the_difference_of_means_in_points() -> None:
    worse = np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]])
    better = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0]])
    people_ = np.arange(4)
    gain = gain_of(worse, better, (people_, people_))
    assert gain.mean == pytest.approx(100 * 3 / 8)
    assert gain.seeds == pytest.approx((50.0, 25.0))
    assert gain.low <= gain.mean <= gain.high


@pytest.mark.parametrize(
    ("gain", "better", "not_worse"),
    [
        (Gain(1.0, 0.5, 1.5, (0.8, 1.2)), True, True),
        (Gain(1.0, 0.5, 1.5, (-0.1, 2.1)), False, True),
        (Gain(0.2, -0.5, 0.9, (0.1, 0.3)), False, True),
        (Gain(-0.2, -0.9, 0.5, (-0.1, -0.3)), False, True),
        (Gain(-1.0, -1.5, -0.5, (-0.8, -1.2)), False, False),
    ],
)
def test_when_a_gain_counts(gain: Gain, better: bool, not_worse: bool) -> None:
    assert (gain.better, gain.not_worse) == (better, not_worse)


@pytest.mark.usefixtures("few_pairs")
def test_better_and_not_better() -> None:
    found = evidence()
    assert found.better(GOOD, BAD).held is True
    assert "seeds" in found.better(GOOD, BAD).ours
    assert found.better(BAD, GOOD).held is False
    assert found.better(BAD, GOOD, equal=True).held is False
    same = evidence(0.85, 0.85)
    assert same.better(GOOD, BAD).held is False
    assert same.better(GOOD, BAD).note.startswith("undecided")
    assert same.better(GOOD, BAD, equal=True).held is True
    assert found.better(GOOD, GOOD, equal=True).ours.startswith("+0.00")


@pytest.mark.usefixtures("few_pairs")
def test_a_run_that_stopped_is_said_to_have() -> None:
    found = evidence()
    row = found.row(DEAD, "pairs")
    assert (row.ours, row.held, row.note) == ("not measured", None, "seed 0 stopped: polar collapse")
    lost = found.better(DEAD, GOOD)
    assert (lost.held, lost.note) == (False, "seed 0 stopped: polar collapse")
    won = found.better(GOOD, DEAD)
    assert (won.held, won.note) == (True, "seed 0 stopped: polar collapse")
    unknown = found.larger("pairs", DEAD, GOOD)
    assert (unknown.ours, unknown.held, unknown.note) == ("not measured", None, "seed 0 stopped: polar collapse")
    with pytest.raises(ValueError, match="dead: no seed trained; seed 0 stopped"):
        found.first(DEAD, "features")


def test_larger_needs_every_seed() -> None:
    found = evidence()
    assert found.larger("pairs", GOOD, BAD).held is True
    assert found.larger("pairs", GOOD, BAD).ours.endswith("by seed +10.000, +10.000, +10.000")
    assert found.larger("pairs", BAD, GOOD).held is False
    found.records[GOOD][1] = Record("x", 1, 1.0, numbers={"pairs": 10.0})  # type: ignore[index]
    assert found.larger("pairs", GOOD, BAD).held is False


@pytest.mark.usefixtures("few_pairs")
def test_the_best_must_be_inside() -> None:
    found = evidence()
    other = people("other", "arcface")
    found.records[other] = evidence(0.7).records[GOOD]  # type: ignore[index]
    inside = found.best_inside([BAD, GOOD, other], "pairs", none=BAD)
    assert [finding.held for finding in inside] == [True, True]
    assert found.best_inside([GOOD, BAD, other], "pairs")[0].held is False
    assert found.best_inside([DEAD], "pairs")[0].held is False


def test_students_interval() -> None:
    values = np.array([1.0, 2.0, 4.0])
    half = 4.302653 * values.std(ddof=1) / math.sqrt(3)
    assert interval(values, ".3f") == f"{7 / 3 - half:.3f} to {7 / 3 + half:.3f}"


def test_an_interval_of_per_cents_stays_within_them() -> None:
    values = np.array([50.0, 60.0, 95.0])
    assert interval(values, ".1f").endswith(" to 127.0")
    assert interval(values, ".1f", (0.0, 100.0)).endswith(" to 100.0")
    found = evidence()
    found.records[GOOD] = [Record("x", n, 1.0, numbers={"pairs": value}) for n, value in enumerate(values)]  # type: ignore[index]
    assert found.row(GOOD, "pairs", unit="accuracy, %").ours.endswith(" to 100.00)")


def test_decisions_know_their_people() -> None:
    left, right = subjects_of(GOOD, "pairs")
    _, _, same = unseen_pairs()
    assert ((left == right) == same).all()
    assert len(subjects_of(GOOD, "probes")[0]) == len(probes()) == 3600
    assert len(subjects_of(GOOD, "precisions")[0]) == 400


ITEMS = [entry.id for entry in load_catalogue().select(kind="pocket")]


def fake_record(setting: Setting, seed: int, rng: np.random.Generator) -> Record:
    """A record with everything that any item asks for, at random."""
    data, dim = setting.recipe(seed).data, setting.recipe(seed).backbone["dim"]
    histogram = rng.integers(1, 50, 80)
    if setting.measure == "people":
        names = ("pairs", "pairs inner", "pairs euclidean", "pairs mirror", "probes", "precisions", "rank-1", "rank-10")
        numbers = {name: rng.uniform(80, 95) for name in (*names, "fisher", "logit spread", "range", "separation")}
        arrays = {name: rng.random(40) < 0.9 for name in names[:4]}
        arrays |= {"probes": rng.random(180) < 0.6, "precisions": rng.random(20), "bias": rng.normal(size=200)}
        arrays |= {"histogram same": histogram, "histogram other": histogram}
        return Record("x", seed, 1.0, "m", "", numbers, arrays)
    names = ("accuracy", "similarity", "sample margin", "class margin")
    numbers = {name: rng.uniform(0.1, 0.9) for name in names}
    arrays = {
        "samples": rng.random(100 * data.identities) < 0.8,
        "histogram similarity": histogram,
        "histogram margin": histogram,
        "history": np.cumsum(rng.random((10, 4)), 0),
        "bias": rng.normal(size=100),
    }
    if setting.measure == "features":
        labels = np.repeat(np.arange(data.identities), 200)
        arrays |= {
            "labels": labels,
            "features": rng.normal(size=(len(labels), dim)).astype(np.float32),
            "prototypes": rng.normal(size=(data.identities, dim)).astype(np.float32),
        }
    return Record("x", seed, 1.0, "m", "", numbers, arrays)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("stopped", [False, True], ids=["trained", "stopped"])
@pytest.mark.parametrize("name", ITEMS)
def test_every_item_judges_what_it_is_given(name: str, stopped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random records, or all runs stopped: findings are made either way, and a sentence is judged or left open."""
    runs = unique(settings_of([name]), (0, 1))
    rng = np.random.default_rng(0)
    records = {
        key: Record("x", seed, 1.0, stopped="polar collapse") if stopped else fake_record(setting, seed, rng)
        for key, (setting, seed) in runs.items()
    }
    monkeypatch.setattr(module, "gather", lambda *_, **__: Gathered(records))
    run = find_item(name)
    assert run is not None
    job = Job(entry=load_catalogue()[name], seeds=(0, 1), cache=Path("nowhere"))
    outcome = run(job)
    judged = [finding for finding in outcome.findings if finding.held is not None]
    if stopped:
        assert judged or any(finding.ours == "not measured" for finding in outcome.findings)
        assert not any("nan" in finding.ours for finding in outcome.findings)
    else:
        assert judged
        assert outcome.figures or name == "normface/table1"
        for draw in outcome.figures.values():
            draw()


def test_a_failed_run_fails_its_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "gather", lambda *_, **__: Gathered({}, {"k": "softmax, seed 0: OSError: full"}))
    run = find_item("normface/table1")
    assert run is not None
    with pytest.raises(ValueError, match="normface/table1: 1 runs failed, first softmax, seed 0: OSError: full"):
        run(Job(entry=load_catalogue()["normface/table1"]))
