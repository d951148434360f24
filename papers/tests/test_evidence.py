"""Judging: gains with intervals, sentences that hold and that do not, on records made by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from hypersphere.evaluation.statistics.paired_tests import compare_accuracy
from hypersphere_papers.engine.evidence import Evidence, settings_of
from hypersphere_papers.engine.face_searches import HELD_OUT, LFW, PAIRS, RAW, SEARCHED
from hypersphere_papers.engine.interval_text import difference, interval
from hypersphere_papers.engine.outcome import Finding
from hypersphere_papers.engine.record import Record
from hypersphere_papers.engine.runs import Gathered
from hypersphere_papers.engine.setting import Setting, unique
from hypersphere_papers.engine.verdict import gain_of
from hypersphere_papers.laboratory import Entry, Job, find_item, load_catalogue
from papers.tests.bars import classifier

ENTRY = Entry(id="p/table1", title="t", kind="real", needs="MNIST", claim="c.")
GOOD, BAD, DEAD = classifier("good", "softmax"), classifier("bad", "normface"), classifier("dead", "coco")


_FEW = 2000
"""Decisions that tests judge: enough for an interval."""


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


def test_a_gain_is_the_difference_of_means_in_points() -> None:
    worse = np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]])
    better = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0]])
    people_ = np.arange(4)
    gain = gain_of(worse, better, (people_, people_))
    assert gain.value == pytest.approx(100 * 3 / 8)
    assert gain.seeds == pytest.approx((50.0, 25.0))
    assert gain.low <= gain.value <= gain.high


def test_the_interval_of_a_gain_is_over_people_and_over_runs() -> None:
    rng = np.random.default_rng(0)
    worse, better = (rng.random((3, 400)) < share for share in (0.7, 0.8))
    people_ = (rng.integers(0, 40, 400), rng.integers(0, 40, 400))
    one = gain_of(worse[:1].astype(float), better[:1].astype(float), people_)
    estimate = compare_accuracy(worse[0], better[0], subjects=people_).estimate
    assert (one.low, one.high) == pytest.approx((100 * estimate.low, 100 * estimate.high))
    better[2] = worse[2]  # a run without any gain widens the interval
    three = gain_of(worse.astype(float), better.astype(float), people_)
    alone = gain_of(np.tile(worse.mean(0), (3, 1)), np.tile(better.mean(0), (3, 1)), people_)
    assert three.value == pytest.approx(alone.value)
    assert three.half_width > 1.2 * alone.half_width


def test_better_and_not_better() -> None:
    found = evidence()
    won = found.better(GOOD, BAD)
    assert (won.verdict, won.detectable is not None) == ("held", True)
    assert "seeds" in won.ours
    assert found.better(BAD, GOOD).verdict == "contradicted"
    assert found.better(BAD, GOOD, equal=True).verdict == "contradicted"
    same = evidence(0.85, 0.85)
    assert same.better(GOOD, BAD).verdict == "undecided"
    assert same.better(GOOD, BAD, equal=True).verdict == "undecided"  # 2,000 pairs are too few for half a point
    assert found.better(GOOD, GOOD, equal=True).verdict == "held"


def test_a_run_that_stopped_decides_nothing() -> None:
    found = evidence()
    row = found.row(DEAD, "pairs")
    assert (row.ours, row.verdict, row.note) == ("not measured", None, "seed 0 stopped: polar collapse")
    for finding in (found.better(DEAD, GOOD), found.better(GOOD, DEAD), found.larger("pairs", DEAD, GOOD)):
        assert (finding.verdict, finding.detectable) == ("undecided", None)
        assert finding.note == "dead: seed 0 stopped: polar collapse"
    with pytest.raises(ValueError, match="dead: no seed trained; seed 0 stopped"):
        found.first(DEAD, "features")


@pytest.mark.parametrize(("share", "verdict"), [(94.9, "undecided"), (94.98, "undecided"), (95.0, "held")])
def test_a_run_that_did_not_fit_decides_nothing(share: float, verdict: str) -> None:
    found = evidence()
    for record in found.records[BAD]:
        record.numbers["train accuracy"] = share  # type: ignore[index]
    for finding in (found.better(GOOD, BAD), found.larger("pairs", GOOD, BAD)):
        assert (finding.verdict, finding.alone) == (verdict, "held" if verdict == "undecided" else None)
        assert finding.note == ("" if verdict == "held" else "bad did not fit: 94.9 % of the training images right")


def test_larger_needs_an_interval_over_seeds() -> None:
    found = evidence()
    assert found.larger("pairs", GOOD, BAD).verdict == "held"
    assert found.larger("pairs", GOOD, BAD).ours.endswith("by seed +10.000, +10.000, +10.000")
    assert found.larger("pairs", BAD, GOOD).verdict == "contradicted"
    for seed, value in enumerate((80.1, 83.0, 92.0)):  # larger in every seed, but by 0.1, 2 and 10
        found.records[GOOD][seed] = Record("x", seed, 1.0, numbers={"pairs": value})  # type: ignore[index]
    assert found.larger("pairs", GOOD, BAD).verdict == "undecided"
    assert evidence(seeds=1).larger("pairs", GOOD, BAD).verdict == "undecided"


def test_the_best_must_be_inside() -> None:
    found = evidence()
    other = classifier("other", "arcface")
    found.records[other] = evidence(0.7).records[GOOD]  # type: ignore[index]

    def inside(*settings: Setting) -> list[Finding]:
        return found.best_inside(settings, "pairs", chosen_by="pairs", sentence="the best is inside", where=", here")

    held = inside(BAD, GOOD, other)
    assert [finding.verdict for finding in held] == ["held", "held"]
    assert [finding.what for finding in held] == ["the best is inside", "good is better than bad, here"]
    assert inside(GOOD, BAD, other)[0].verdict == "contradicted"
    assert inside(GOOD, DEAD, BAD)[0].verdict == "undecided"


def test_the_best_is_chosen_by_other_decisions_than_it_is_judged_by() -> None:
    found, third = evidence(), classifier("third", "arcface")
    found.records[third] = [replace(record, numbers={"lfw": 70.0, "pairs": 80.0}) for record in found.records[BAD]]  # type: ignore[index]
    for setting, lfw in ((GOOD, 60.0), (BAD, 50.0)):
        found.records[setting] = [  # type: ignore[index]
            replace(record, numbers={**record.numbers, "lfw": lfw}) for record in found.records[setting]
        ]
    first, _ = found.best_inside([BAD, GOOD, third, BAD], "pairs", chosen_by="lfw", sentence="the best is inside")
    assert first.ours.startswith("third, 80.00; over bad +0.00")
    assert first.verdict == "undecided"


def test_students_interval() -> None:
    values = np.array([1.0, 2.0, 4.0])
    half = 4.302653 * values.std(ddof=1) / math.sqrt(3)
    assert interval(values, ".3f") == f"{7 / 3 - half:.3f} to {7 / 3 + half:.3f}"


def test_a_difference_shows_the_sign_of_both_ends() -> None:
    values = np.array([0.0019, 0.0008, 0.0017])
    assert difference(values, 3) == "; difference +0.00001 to +0.00292, by seed +0.001900, +0.000800, +0.001700"
    assert difference(values - 0.0001, 3).startswith("; difference -0.0001 to +0.0028, by seed +0.00180")
    assert difference(values * 10, 3) == "; difference +0.0001 to +0.0292, by seed +0.01900, +0.00800, +0.01700"
    assert difference(values + 0.01, 3) == "; difference +0.010 to +0.013, by seed +0.0119, +0.0108, +0.0117"
    assert difference(np.zeros(3), 3) == "; difference +0.000 to +0.000, by seed +0.0000, +0.0000, +0.0000"


def test_an_interval_of_per_cents_stays_within_them() -> None:
    values = np.array([50.0, 60.0, 95.0])
    assert interval(values, ".1f").endswith(" to 127.0")
    assert interval(values, ".1f", (0.0, 100.0)).endswith(" to 100.0")
    found = evidence()
    found.records[GOOD] = [Record("x", n, 1.0, numbers={"pairs": value}) for n, value in enumerate(values)]  # type: ignore[index]
    assert found.row(GOOD, "pairs").ours.endswith(" to 100.00)")


ITEMS = [
    entry.id
    for entry in load_catalogue().entries.values()
    if find_item(entry.id) is not None and entry.kind == "real" and "papers/records/" in entry.needs
]


def fake_record(setting: Setting, seed: int, rng: np.random.Generator) -> Record:
    """A record with everything that any item asks for, at random."""
    dim = setting.recipe(seed).backbone["dim"]
    histogram = rng.integers(1, 50, 80)
    if setting.measure == "verification":
        arrays = {"lfw": rng.random(40) < 0.9, "pairs": rng.random(60) < 0.9}
        arrays |= {f"{name} subjects": rng.integers(0, 20, (2, len(right))) for name, right in arrays.items()}  # type: ignore[misc]
        return Record("x", seed, 1.0, "m", "", {"lfw": 90.0 + seed, "pairs": 88.0, "train accuracy": 99.0}, arrays)
    if setting.measure == "searches":
        arrays = {f"{name}, {who}": rng.random(40) < 0.4 for name in SEARCHED for who in (HELD_OUT, LFW)}
        arrays |= {name: rng.random(40) < 0.9 for name in (*PAIRS, *RAW)}
        arrays |= {f"{name} subjects": np.tile(np.arange(40), (2, 1)) for name in arrays}
        curves = {"CMC": 10, "template ROC": 6, "distractor ROC": 4}
        arrays |= {f"{name}, {who}": rng.random(size) for name, size in curves.items() for who in (HELD_OUT, LFW)}  # type: ignore[misc]
        return Record("x", seed, 1.0, "m", "", {"train accuracy": 99.0} | dict.fromkeys(arrays, 40.0), arrays)
    if setting.measure == "rankings":
        numbers = {f"{name}, {who}": rng.uniform(1, 2) for name in ("separation", "range") for who in (HELD_OUT, LFW)}
        kinds = ("histogram same", "histogram other")
        pairs = {f"{kind}, {who}": rng.integers(1, 50, 200) for kind in kinds for who in (HELD_OUT, LFW)}
        ranked = {name: rng.random(40) for name in ("precisions", "rank-1", "rank-10")}
        people = {f"{name} subjects": np.tile(np.arange(40), (2, 1)) for name in ranked}
        numbers |= {name: 100 * values.mean() for name, values in ranked.items()}
        return Record("x", seed, 1.0, "m", "", {"train accuracy": 99.0, **numbers}, {**pairs, **ranked, **people})
    margins = ("similarity", "sample margin", "train similarity", "train sample margin")
    names = ("accuracy", *margins, "class margin", "logit spread")
    numbers = {name: rng.uniform(0.1, 0.9) for name in names}
    arrays = {
        "samples": rng.random(100) < 0.8,
        **{
            f"{images}histogram {name}": histogram  # type: ignore[misc]
            for images in ("", "train ")
            for name in ("similarity", "margin")
        },
        "history": np.cumsum(rng.random((10, 4)), 0),
        "bias": rng.normal(size=100),  # type: ignore[dict-item]
    }
    if setting.measure == "lengths":
        arrays |= {"lengths": 1 + rng.random(500)}  # type: ignore[dict-item]
    if setting.measure == "features":
        count = setting.recipe(seed).data.most_images or 10
        labels = np.repeat(np.arange(count), 200)
        arrays |= {"prototypes": rng.normal(size=(count, dim)).astype(np.float32)}
        for new in ("", "new "):
            arrays[f"{new}labels"] = labels  # type: ignore[assignment]
            arrays[f"{new}features"] = rng.normal(size=(len(labels), dim)).astype(np.float32)
    return Record("x", seed, 1.0, "m", "", numbers, arrays)


@pytest.mark.parametrize("stopped", [False, True], ids=["trained", "stopped"])
@pytest.mark.parametrize("name", ITEMS)
def test_every_item_judges_what_it_is_given(name: str, stopped: bool) -> None:
    """Random records, or all runs stopped: findings are made either way, and a sentence is judged or left open."""
    job = Job(entry=load_catalogue()[name], seeds=(0, 1))
    runs = unique(settings_of(job), (0, 1))
    rng = np.random.default_rng(0)
    records = {
        key: Record("x", seed, 1.0, stopped="polar collapse") if stopped else fake_record(setting, seed, rng)
        for key, (setting, seed) in runs.items()
    }
    run = find_item(name)
    assert run is not None
    outcome = run(replace(job, gathered=Gathered(records)))
    judged = [finding for finding in outcome.findings if finding.verdict is not None]
    if stopped:
        assert judged or any(finding.ours == "not measured" for finding in outcome.findings)
        assert not any("nan" in finding.ours for finding in outcome.findings)
    else:
        assert judged
        assert outcome.figures or name == "normface/table1"
        for draw in outcome.figures.values():
            draw()


def test_the_crash_of_a_rival_is_no_win() -> None:
    """Label noise: where ArcFace falls to chance, SphereFace2 has won nothing."""
    job = Job(entry=load_catalogue()["sphereface2/fig10"], seeds=(0, 1))
    rng, records = np.random.default_rng(0), {}
    for key, (setting, seed) in unique(settings_of(job), (0, 1)).items():
        record = fake_record(setting, seed, rng)
        if setting.title.startswith("ArcFace, noise"):
            record.numbers["pairs"] = record.numbers["lfw"] = 52.0  # type: ignore[index]
        records[key] = record
    run = find_item(job.entry.id)
    assert run is not None
    outcome = run(replace(job, gathered=Gathered(records)))
    against = [finding for finding in outcome.findings if "than ArcFace" in finding.what]
    assert len(against) == 8
    for finding in against:
        assert (finding.verdict, finding.alone is not None) == ("undecided", True)
        assert finding.note == "a run has 52.0 % of the pairs right: a crash decides nothing"


def test_the_seeds_that_trained_are_shown_and_decide_nothing() -> None:
    """A stopped seed leaves the gain of the others, which is a verdict that is withheld."""
    found = evidence()
    whole = found.better(GOOD, BAD)
    cut = Evidence(found.job, {**found.records, BAD: [*found.records[BAD][:2], found.records[DEAD][2]]})
    open_ = cut.better(GOOD, BAD)
    assert (whole.verdict, open_.verdict, open_.alone) == ("held", "undecided", "held")
    assert open_.note == "bad: seed 2 stopped: polar collapse"
    both = Evidence(replace(found.job, seeds=(0, 1)), {each: found.records[each][:2] for each in (GOOD, BAD)})
    assert open_.ours == both.better(GOOD, BAD).ours
    assert cut.row(BAD, "pairs").ours == both.row(BAD, "pairs").ours
    assert cut.row(BAD, "pairs").note == "seed 2 stopped: polar collapse"


def test_a_failed_run_fails_its_own_item_alone() -> None:
    job = Job(entry=load_catalogue()["largest-margins/table3"])
    setting, *_ = settings_of(job)
    run = find_item(job.entry.id)
    assert run is not None
    failures = {setting.key(0): "softmax, seed 0: OSError: full", "k": "another's"}
    with pytest.raises(ValueError, match="largest-margins/table3: 1 runs failed, first softmax, seed 0: OSError: full"):
        run(replace(job, gathered=Gathered({}, failures)))


@pytest.mark.parametrize("name", ["sphereface/table6", "largest-margins/table2", "largest-margins/fig9"])
def test_one_stopped_run_leaves_its_own_sentences_open(name: str) -> None:
    """What is about the run is left open, whatever the other seed says; the rest is as it was."""
    job = Job(entry=load_catalogue()[name], seeds=(0, 1))
    runs, rng = unique(settings_of(job), (0, 1)), np.random.default_rng(0)
    records = {key: fake_record(setting, seed, rng) for key, (setting, seed) in runs.items()}
    run, (first, *_) = find_item(name), records
    assert run is not None
    whole = run(replace(job, gathered=Gathered(records))).findings
    records[first] = Record("x", 0, 1.0, stopped="polar collapse")
    cut = run(replace(job, gathered=Gathered(records))).findings
    changed = [after for before, after in zip(whole, cut, strict=True) if before != after]
    assert 0 < len(changed) < len(whole)
    for finding in changed:
        assert finding.verdict in (None, "undecided")
        assert "stopped: polar collapse" in finding.note
