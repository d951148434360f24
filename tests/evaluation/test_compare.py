"""Two results side by side: the tests are those of the paired room, on the saved items."""

import json
from pathlib import Path

import numpy as np
import pytest

from hypersphere.evaluation import Figure, Result, compare_tar, mcnemar, write_result
from hypersphere.evaluation.compare import _difference, compare_results, read_result, write_comparison
from hypersphere.evaluation.protocols import PairList, read_pairs
from tests.evaluation.protocols.standins import made_up, write_lfw_list
from tests.plots.reader import Reader


@pytest.fixture
def pairs(tmp_path: Path) -> PairList:
    return read_pairs(write_lfw_list(tmp_path / "lfw.txt"))


def evaluated(pairs: PairList, folder: Path, noise: float) -> Result:
    result = pairs.evaluate(made_up(pairs.names, noise=noise), fars=[0.1, 1e-3], replicates=20)
    write_result(result, folder)
    return result


def test_tests_are_those_of_the_saved_items(pairs: PairList, tmp_path: Path) -> None:
    one, two = evaluated(pairs, tmp_path / "a", 1.5), evaluated(pairs, tmp_path / "b", 0.5)
    saved = [read_result(tmp_path / name) for name in "ab"]
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
    assert found["eer"] is None
    page = Reader(write_comparison(rows, *saved, tmp_path / "c").read_text())
    assert "mcnemar, exact" in page.words
    assert "embeddings.1.model" not in page.words, "the same option in both"


def test_other_pairs_cannot_be_compared(pairs: PairList, tmp_path: Path) -> None:
    evaluated(pairs, tmp_path / "a", 1)
    evaluated(pairs.some(np.arange(60) != 1), tmp_path / "b", 1)
    with pytest.raises(ValueError, match=r"a and .*b are results of different pairs"):
        compare_results(read_result(tmp_path / "a"), read_result(tmp_path / "b" / "result.json"))
    write_result(Result("classify", {"accuracy": Figure(1, 1, 1, 1, "exact")}, {}), tmp_path / "c")
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
        (json.dumps({**table, "metrics": {"a": {}}}), "metrics are damaged"),
    ]:
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_result(path)
    path.write_text(json.dumps(table))
    (tmp_path / "a" / "items.npz").write_bytes(b"PK nonsense")
    with pytest.raises(ValueError, match=r"items\.npz: damaged"):
        read_result(tmp_path / "a")


def test_ranks_and_precisions_are_tested_too() -> None:
    rng = np.random.default_rng(0)
    people = np.arange(60) // 3
    one = {"right": rng.random(60) < 0.6, "average_precisions": rng.random(60) * 0.5}
    two = {"right": one["right"] | (rng.random(60) < 0.5), "average_precisions": one["average_precisions"] + 0.2}
    for items in (one, two):
        items |= {"left_subject": people, "right_subject": people}
    rank = _difference("rank-1", one, two, 200)
    assert rank == mcnemar(one["right"], two["right"])
    mean = _difference("map", one, two, 200)
    assert mean is not None
    assert (mean.figure.value, mean.figure.low, mean.figure.high) == pytest.approx((0.2, 0.2, 0.2))
    assert _difference("rank-5", one, two, 200) is None
