"""Two results side by side: the tests are those of the paired room, on the saved items."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hypersphere.evaluation import Embeddings, Estimate, Result, compare_tar, mcnemar, write_result
from hypersphere.evaluation.protocols import (
    Classify,
    IjbOptions,
    PairList,
    evaluate_pairs,
    read_blufr,
    read_ijb,
    read_megaface,
    read_pairs,
    read_reid,
    read_ytf,
)
from hypersphere.evaluation.results.compare_results import (
    NO_TEST,
    compare_results,
    difference_cells,
    read_result,
    shown_rows,
    write_comparison,
)
from tests.evaluation.protocols import official
from tests.evaluation.protocols.standins import made_up, write_lfw_list
from tests.mutate import mutations
from tests.plots.reader import Reader


@pytest.fixture
def pairs(tmp_path: Path) -> PairList:
    return read_pairs(write_lfw_list(tmp_path / "lfw.txt"))


def evaluated(pairs: PairList, folder: Path, noise: float) -> Result:
    result = evaluate_pairs([(pairs, made_up(pairs.names, noise=noise))], fars=[0.1, 1e-3], replicates=20)
    write_result(result, folder)
    return result


def test_tests_are_those_of_the_saved_items(pairs: PairList, tmp_path: Path) -> None:
    one, two = evaluated(pairs, tmp_path / "a", 1.5), evaluated(pairs, tmp_path / "b", 0.5)
    saved = read_result(tmp_path / "a"), read_result(tmp_path / "b")
    assert saved[0].metrics == one.metrics
    seen: list[tuple[int, int]] = []
    rows = compare_results(*saved, replicates=100, progress=lambda *done: seen.append(done))
    assert [row.name for row in rows] == list(one.metrics)
    assert seen[-1] == (len(rows), len(rows))
    found = {row.name: row.difference for row in rows}
    assert found["accuracy"] == mcnemar(one.items["right"], two.items["right"])
    people = one.items["left_subject"], one.items["right_subject"]
    scores = one.items["scores"], two.items["scores"]
    assert found["tar@far=1e-1"] == compare_tar(*scores, pairs.same, 0.1, subjects=people, replicates=100)
    assert found["tar@far=1e-3"] is None
    page = Reader(write_comparison(rows, *saved, tmp_path / "c").read_text())
    assert "mcnemar, exact" in page.words
    assert "embeddings.1.model" not in page.words, "the same option in both"


def test_other_pairs_cannot_be_compared(pairs: PairList, tmp_path: Path) -> None:
    evaluated(pairs, tmp_path / "a", 1)
    evaluated(pairs.some(np.arange(60) != 1), tmp_path / "b", 1)
    with pytest.raises(ValueError, match=r"a and .*b are results of different items"):
        compare_results(read_result(tmp_path / "a"), read_result(tmp_path / "b" / "result.json"))
    write_result(Result("classify", {"accuracy": Estimate(1, 1, 1, 1, "exact")}, {}), tmp_path / "c")
    with pytest.raises(ValueError, match="different protocols"):
        compare_results(read_result(tmp_path / "a"), read_result(tmp_path / "c"))
    own = read_result(tmp_path / "c")
    assert compare_results(own, own)[0].difference is None


def test_damaged_results(pairs: PairList, tmp_path: Path) -> None:
    evaluated(pairs, tmp_path / "a", 1)
    with pytest.raises(ValueError, match=r"result\.json: there is no such file"):
        read_result(tmp_path / "nowhere")
    path = tmp_path / "a" / "result.json"
    table = json.loads(path.read_text())
    for text, message in [
        ("{", "not JSON"),
        ("[]", "not a result of schema 1"),
        (json.dumps({**table, "schema": 99}), "not a result of schema 1"),
        (json.dumps({**table, "protocol": 5}), "its 'protocol' is missing or damaged"),
        (json.dumps({name: table[name] for name in table if name != "items_digest"}), "its 'items_digest' is missing"),
        (json.dumps({**table, "metrics": {"a": {}}}), "metrics are damaged"),
    ]:
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_result(path)
    path.write_text(json.dumps(table))
    (tmp_path / "a" / "items.npz").write_bytes(b"PK nonsense")
    with pytest.raises(ValueError, match=r"items\.npz: not "):
        read_result(tmp_path / "a")


def test_every_estimate_has_a_test_or_a_reason(pairs: PairList, tmp_path: Path) -> None:
    evaluated(pairs, tmp_path / "a", 1.5)
    evaluated(pairs, tmp_path / "b", 0.5)
    rows = compare_results(*(read_result(tmp_path / name) for name in "ab"), replicates=50)
    assert {row.name: row.why_not for row in rows if row.difference is None} == {
        "tar@far=1e-3": NO_TEST["missing"],
        "fnmr@fmr=1e-3": NO_TEST["missing"],
    }
    found = {row.name: row.difference for row in rows}
    missed, accepted = found["fnmr@fmr=1e-1"], found["tar@far=1e-1"]
    assert missed is not None
    assert accepted is not None
    assert missed.estimate.value == pytest.approx(-accepted.estimate.value)
    assert missed.p_value == accepted.p_value
    for row in rows:
        if row.difference is not None:
            assert row.difference.estimate.value == pytest.approx(row.second.value - row.first.value)


def test_sets_are_compared_one_by_one(pairs: PairList, tmp_path: Path) -> None:
    sets = [dataclasses.replace(pairs, title=title) for title in ("one", "two")]
    made = {}
    for folder, noise in (("a", 1.5), ("b", 0.5)):
        several = [[made_up(pairs.names, noise=noise, seed=seed)] for seed in (0, 1)]
        result = evaluate_pairs(list(zip(sets, several, strict=True)), fars=[0.1], replicates=20)
        write_result(result, tmp_path / folder)
        made[folder] = [evaluate_pairs([(pairs, each)], fars=[0.1], replicates=20) for each in several]
    rows = compare_results(read_result(tmp_path / "a"), read_result(tmp_path / "b"), replicates=30)
    found = {row.name: row.difference for row in rows}
    assert None not in found.values()
    for place, title in enumerate(("one", "two")):
        one, two = made["a"][place].items, made["b"][place].items
        assert found[f"{title}/accuracy"] == mcnemar(one["right"], two["right"])
        people = one["left_subject"], one["right_subject"]
        wanted = compare_tar(one["scores"], two["scores"], pairs.same, 0.1, subjects=people, replicates=30)
        assert found[f"{title}/tar@far=1e-1"] == wanted


def test_snapshots_are_compared_by_the_share_that_decides_rightly(pairs: PairList, tmp_path: Path) -> None:
    for folder, noise in (("a", 1.5), ("b", 0.5)):
        several = [made_up(pairs.names, noise=noise, seed=seed) for seed in (0, 1)]
        write_result(evaluate_pairs([(pairs, several)], fars=[0.1], replicates=20), tmp_path / folder)
    saved = read_result(tmp_path / "a"), read_result(tmp_path / "b")
    row = next(row for row in compare_results(*saved, replicates=30) if row.name == "mean_snapshot_accuracy")
    assert row.difference is not None
    assert row.difference.estimate.value == pytest.approx(row.second.value - row.first.value)
    assert row.difference.test == "paired bootstrap over subjects"


def test_estimates_of_one_result_alone_are_named(pairs: PairList, tmp_path: Path) -> None:
    evaluated(pairs, tmp_path / "a", 1)
    write_result(evaluate_pairs([(pairs, made_up(pairs.names))], fars=[0.1, 0.2], replicates=20), tmp_path / "b")
    saved = read_result(tmp_path / "a"), read_result(tmp_path / "b")
    words = Reader(write_comparison(compare_results(*saved, replicates=5), *saved, tmp_path / "c").read_text()).words
    assert "Not compared, only in a: tar@far=1e-3, fnmr@fmr=1e-3." in words
    assert "Not compared, only in b: tar@far=2e-1, fnmr@fmr=2e-1." in words


def test_p_at_the_floor_of_the_bootstrap_is_at_most(pairs: PairList, tmp_path: Path) -> None:
    evaluated(pairs, tmp_path / "a", 3)
    evaluated(pairs, tmp_path / "b", 0)
    saved = read_result(tmp_path / "a"), read_result(tmp_path / "b")
    rows = compare_results(*saved, replicates=99)
    cells = {row.name: difference_cells(row) for row in rows}
    assert cells["tar@far=1e-1"][1] == "at most 0.02"
    assert not cells["accuracy"][1].startswith("at most"), "McNemar's test is exact"
    words = Reader(write_comparison(rows, *saved, tmp_path / "c", command="hypersphere x").read_text()).words
    assert "at most 0.02" in words
    assert "fnmr@fmr" not in words, "TAR says it all"
    assert words.count("Not measurable with n=30: far=1e-3 (needs 3,000).") == 1
    top = words[: words.index("Metrics")]
    assert "hypersphere x" in top
    assert "made up" in top
    assert [row.name for row in shown_rows(rows)] == ["accuracy", "best_accuracy", "auc", "eer", "tar@far=1e-1"]


def test_units_come_back(tmp_path: Path) -> None:
    names = tuple(f"{k}.png" for k in range(120))
    embeddings = Embeddings(names, np.eye(4, dtype=np.float32).repeat(30, axis=0))
    result = Classify(tmp_path, names, np.arange(120) // 30).evaluate(embeddings, np.eye(4))
    write_result(result, tmp_path)
    metrics = read_result(tmp_path).metrics
    assert metrics == result.metrics
    assert {name: estimate.unit for name, estimate in metrics.items() if isinstance(estimate, Estimate)} == {
        "accuracy": "share",
        "class_margin": "degrees",
        "sample_margin": "cosine",
        "sample_margin_minimum": "cosine",
        "sample_margin_share_positive": "share",
    }


def test_what_was_not_saved_says_so(pairs: PairList, tmp_path: Path) -> None:
    for folder in "ab":
        evaluated(pairs, tmp_path / folder, 1)
    (tmp_path / "b" / "items.npz").unlink()
    saved = read_result(tmp_path / "a"), read_result(tmp_path / "b")
    rows = compare_results(*saved)
    assert {row.why_not for row in rows} == {NO_TEST["items"], NO_TEST["missing"]}
    words = Reader(write_comparison(rows, *saved, tmp_path / "c").read_text()).words
    assert NO_TEST["items"] in words


def shaken(embeddings: Embeddings, noise: float) -> Embeddings:
    spread = noise * embeddings.values.std() * np.random.default_rng(1).normal(size=embeddings.values.shape)
    return Embeddings(embeddings.names, embeddings.values + spread)


def blufr(folder: Path, noise: float) -> Result:
    embeddings = official.write_blufr(folder / "config.mat")
    return read_blufr(folder / "config.mat").evaluate(shaken(embeddings, noise))


def ijb(folder: Path, noise: float) -> Result:
    embeddings = official.write_ijb(folder)
    options = IjbOptions(search="both", tar_rule="interpolated")
    return read_ijb(folder).evaluate(shaken(embeddings, noise), options=options, fars=[0.1], fpirs=[0.1])


def megaface(folder: Path, noise: float) -> Result:
    near, far = official.write_megaface(folder)
    protocol = read_megaface(folder / "facescrub_features_list.json", folder / "megaface_features_list.json_400_1")
    return protocol.evaluate(shaken(near, noise), far, fars=[1e-2])


def reid(folder: Path, noise: float) -> Result:
    embeddings = official.write_market(folder / "market")
    return read_reid(folder / "market").evaluate(shaken(embeddings, noise))


def ytf(folder: Path, noise: float) -> Result:
    embeddings = official.write_ytf(folder / "splits.txt")
    return read_ytf(folder / "splits.txt").evaluate(shaken(embeddings, noise), fars=[0.1])


def classify(folder: Path, noise: float) -> Result:
    names = tuple(f"{k}.png" for k in range(120))
    rows = Embeddings(names, np.eye(4, dtype=np.float32).repeat(30, axis=0))
    protocol = Classify(folder, names, np.arange(120) // 30, np.array([200, 50, 40, 2]))
    return protocol.evaluate(shaken(rows, 3 * noise), np.eye(4))


@pytest.mark.parametrize("protocol", [blufr, ijb, megaface, reid, ytf, classify], ids=lambda each: each.__name__)
def test_estimates_of_every_protocol_are_paired(protocol: Callable[[Path, float], Result], tmp_path: Path) -> None:
    for name, noise in (("a", 0.6), ("b", 0.0)):
        write_result(protocol(tmp_path, noise), tmp_path / name)
    rows = compare_results(read_result(tmp_path / "a"), read_result(tmp_path / "b"), replicates=60)
    for row in rows:
        if row.difference is not None:
            assert isinstance(row.first, Estimate)
            assert isinstance(row.second, Estimate)
            assert row.difference.estimate.value == pytest.approx(row.second.value - row.first.value), row.name
            assert row.difference.estimate.n == row.first.n or row.name.startswith("accuracy_"), row.name
    alone = {row.name for row in rows if row.why_not not in ("", NO_TEST["missing"])}
    assert alone == {"ijb": {"auc", "eer"}, "classify": {"class_margin", "sample_margin_minimum"}}.get(
        protocol.__name__, set()
    )
    tests = {row.name.partition("@")[0]: row.difference.test for row in rows if row.difference is not None}
    assert tests == TESTS[protocol.__name__]


PEOPLE = "paired bootstrap over subjects"
TESTS = {
    "blufr": {
        "vr": "paired t over trials",
        "vr_less_sd": "paired bootstrap over trials",
        "dir": "paired t over trials",
        "dir_less_sd": "paired bootstrap over trials",
    },
    "ijb": dict.fromkeys(
        [
            *("tar", "fnmr", "rank-1", "rank-5", "rank-10", "tpir"),
            *("merged_rank-1", "merged_rank-5", "merged_rank-10", "merged_tpir"),
        ],
        PEOPLE,
    ),
    "megaface": dict.fromkeys(["rank-1", "rank-5", "rank-10", "tar"], PEOPLE),
    "reid": dict.fromkeys(["map", "rank-1", "rank-5", "rank-10"], PEOPLE),
    "ytf": {
        "accuracy": "mcnemar, exact",
        "accuracy_hik_svm": "mcnemar, exact",
        **dict.fromkeys(["auc", "eer", "tar", "fnmr"], PEOPLE),
    },
    "classify": {
        "accuracy": "mcnemar, exact",
        "sample_margin": "paired bootstrap over samples",
        "sample_margin_share_positive": "paired bootstrap over samples",
        **{f"accuracy_{group}": PEOPLE for group in ("many", "medium", "few", "all")},
    },
}


def test_mutated_results_are_compared_or_refused_by_name(pairs: PairList, tmp_path: Path) -> None:
    evaluated(pairs, tmp_path / "a", 1.5)
    evaluated(pairs, tmp_path / "b", 0.5)
    other = read_result(tmp_path / "b")
    for name, count in (("result.json", 120), ("items.npz", 60)):
        path = tmp_path / "a" / name
        good = path.read_bytes()
        for data in mutations(good, count, seed=17):
            path.write_bytes(data)
            try:
                first = read_result(tmp_path / "a")
                write_comparison(compare_results(first, other, replicates=2), first, other, tmp_path / "out")
            except ValueError as error:
                if str(tmp_path / "a") not in str(error):
                    raise AssertionError(f"no file in: {error}") from error
        path.write_bytes(good)


def test_items_of_another_evaluation_are_not_taken(pairs: PairList, tmp_path: Path) -> None:
    evaluated(pairs, tmp_path / "a", 1.5)
    evaluated(pairs, tmp_path / "b", 0.5)
    (tmp_path / "a" / "items.npz").write_bytes((tmp_path / "b" / "items.npz").read_bytes())
    with pytest.raises(ValueError, match=r"items\.npz: not the items of result\.json"):
        read_result(tmp_path / "a")
