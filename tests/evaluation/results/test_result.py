"""result.json: what the schema promises, written whole."""

import json
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from hypersphere.evaluation import (
    Result,
    ScoredPair,
    SortedScores,
    curve_metrics,
    roc_curve,
    score_histogram,
    write_result,
)
from hypersphere.evaluation.results.measurement import LeftOut
from hypersphere.evaluation.results.result import RULE_SENTENCES, thinned


def example() -> Result:
    rng = np.random.default_rng(0)
    same = np.arange(4000) % 2 == 0
    scores = rng.normal(size=4000) + 2 * same
    roc = roc_curve(scores, same)
    return Result(
        "pairs",
        curve_metrics(roc, [1e-2, 1e-6]),
        {"similarity": "cosine", "pca": None, "dim": np.int64(3), "models": ("a", "b")},
        counts={"pairs": 4000, "pairs_left_out": LeftOut(3)},
        details={"fold_accuracies": np.array([0.5, 1.0]), "threshold": np.inf},
        curves={"all": roc},
        cmc={"rank": np.array([0.5, 1.0])},
        histograms={
            "all": score_histogram(SortedScores(scores[same]), SortedScores(scores[~same]), np.linspace(-9, 9, 7)).at(
                0.25, "a guess"
            )
        },
        worst={"false matches": [ScoredPair("a", "b", 0.9, 0.5)], "mistakes": [ScoredPair("c", "d", 1, 0, "e")]},
        items={"right": same, "scores": scores},
        items_digest="abc",
    )


def test_the_file_has_what_the_schema_promises(tmp_path: Path) -> None:
    path = write_result(example(), tmp_path / "new")
    table = json.loads(path.read_text())
    assert (table["schema"], table["protocol"], table["items_digest"]) == (1, "pairs", "abc")
    assert table["metrics"]["tar@far=1e-6"] == {"not_measurable": True, "n": 2000, "needed": 3_000_000}
    tar = table["metrics"]["tar@far=1e-2"]
    assert tar["low"] <= tar["value"] <= tar["high"]
    assert (tar["n"], tar["interval"], tar["unit"]) == (2000, "wilson", "share")
    assert table["counts"] == {"pairs": 4000, "pairs_left_out": 3}
    assert table["counts_left_out"] == ["pairs_left_out"]
    assert table["command"] == ""
    assert datetime.strptime(table["date"], "%Y-%m-%d %H:%M UTC").year >= 2026
    assert table["options"] == {"similarity": "cosine", "pca": None, "dim": 3, "models": ["a", "b"]}
    assert table["details"] == {"fold_accuracies": [0.5, 1.0], "threshold": "inf"}
    assert table["rules"] == list(RULE_SENTENCES)
    assert table["cmc"] == {"rank": [0.5, 1.0]}
    assert sum(table["histograms"]["all"]["genuine"]) == 2000
    drawn = table["histograms"]["all"]
    assert (drawn["threshold"], drawn["threshold_rule"], drawn["kinds"]) == (
        0.25,
        "a guess",
        ["one person", "two people"],
    )
    assert table["worst"]["mistakes"] == [{"left": "c", "right": "d", "score": 1, "threshold": 0, "note": "e"}]
    assert table["worst"]["false matches"] == [{"left": "a", "right": "b", "score": 0.9, "threshold": 0.5}]
    curve = table["curves"]["all"]
    assert curve["thresholds"][0] == "inf"
    assert (curve["true_accepts"][-1], curve["false_accepts"][-1]) == (2000, 2000)
    with np.load(tmp_path / "new" / "items.npz", allow_pickle=False) as items:
        assert items["right"].sum() == 2000


def test_rules_are_whole_sentences() -> None:
    assert len(RULE_SENTENCES) == 6
    assert all("\n" not in rule and rule.endswith(".") for rule in RULE_SENTENCES)


def test_a_second_result_replaces_the_first_and_leaves_no_items_behind(tmp_path: Path) -> None:
    write_result(example(), tmp_path)
    write_result(Result("classify", {}, {}), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_an_array_of_objects_is_not_written(tmp_path: Path) -> None:
    bad = Result("pairs", {}, {}, items={"names": np.array([{}], dtype=object)})
    with pytest.raises(ValueError, match="items 'names' hold objects"):
        write_result(bad, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_thinned_curve_keeps_points_of_the_curve_and_both_ends() -> None:
    roc = example().curves["all"]
    few = thinned(roc, 100)
    assert 20 < len(few.thresholds) <= 102
    points = set(zip(roc.false_accepts.tolist(), roc.true_accepts.tolist(), strict=True))
    assert set(zip(few.false_accepts.tolist(), few.true_accepts.tolist(), strict=True)) <= points
    assert few.true_accepts[0] == 0
    assert few.true_accepts[-1] == few.genuine
    assert thinned(roc, 10_000) is roc
