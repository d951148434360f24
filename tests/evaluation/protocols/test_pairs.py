"""The pairs protocol against plain loops, alone, pooled, averaged and with images missing."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from hypersphere.evaluation import (
    Embeddings,
    Estimate,
    NotMeasurable,
    Result,
    concatenated,
    write_report,
    write_result,
)
from hypersphere.evaluation.metrics.similarity import Comparison
from hypersphere.evaluation.protocols import PairList, evaluate_pairs, read_pairs
from tests.evaluation.protocols.standins import (
    lfw_name,
    made_up,
    person,
    write_calfw_list,
    write_lfw_list,
)


@pytest.fixture
def lfw(tmp_path: Path) -> PairList:
    return read_pairs(write_lfw_list(tmp_path / "lfw.txt"))


def value(result: Result, name: str) -> float:
    estimate = result.metrics[name]
    assert isinstance(estimate, Estimate)
    return estimate.value


def loops(pairs: PairList, embeddings: Embeddings, center: bool = False) -> tuple[float, list[float], list[bool]]:
    """Accuracy, thresholds and decisions, by loops over folds, thresholds and pairs."""
    rows = {name: [float(v) for v in row] for name, row in zip(embeddings.names, embeddings.values, strict=True)}
    right: list[bool] = [False] * len(pairs)
    thresholds, accuracies = [], []
    for fold in sorted(set(pairs.folds.tolist())):
        train = [k for k in range(len(pairs)) if pairs.folds[k] != fold]
        mean = [0.0] * embeddings.dim
        if center:
            sides = [rows[side[k]] for k in train for side in (pairs.left, pairs.right)]
            mean = [sum(row[c] for row in sides) / len(sides) for c in range(embeddings.dim)]

        scored = []
        for names in zip(pairs.left, pairs.right, strict=True):
            one, two = ([v - m for v, m in zip(rows[name], mean, strict=True)] for name in names)
            dot = sum(a * b for a, b in zip(one, two, strict=True))
            scored.append(dot / math.sqrt(sum(a * a for a in one) * sum(b * b for b in two)))
        truth = pairs.same.tolist()
        scores = sorted({scored[k] for k in train})
        cuts = [scores[0], *((a + b) / 2 for a, b in pairwise(scores)), math.inf]
        hits = {cut: sum((scored[k] >= cut) == truth[k] for k in train) for cut in cuts}
        good = [cut for cut in reversed(cuts) if hits[cut] == max(hits.values())]
        threshold = good[(len(good) - 1) // 2]
        test = [k for k in range(len(pairs)) if pairs.folds[k] == fold]
        for k in test:
            right[k] = (scored[k] >= threshold) == truth[k]
        thresholds.append(threshold)
        accuracies.append(sum(right[k] for k in test) / len(test))
    return sum(accuracies) / len(accuracies), thresholds, right


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_accuracy_is_that_of_plain_loops(lfw: PairList, center: bool, seed: int) -> None:
    embeddings = made_up(lfw.names, seed=seed)
    result = evaluate_pairs([(lfw, embeddings)], Comparison(center=center), replicates=50)
    accuracy, thresholds, right = loops(lfw, embeddings, center)
    assert 0.5 < accuracy < 1, "the example must have errors"
    assert value(result, "accuracy") == pytest.approx(accuracy, abs=1e-12)
    assert result.items["right"].tolist() == right
    found = result.details["all"]["fold_thresholds"]
    if not center:
        assert found == pytest.approx(thresholds, abs=1e-9)
    folds = result.details["all"]["fold_accuracies"]
    deviation = math.sqrt(sum((a - accuracy) ** 2 for a in folds) / 9)
    assert result.details["all"]["deviation"] == pytest.approx(deviation)
    assert result.details["all"]["standard_error"] == pytest.approx(deviation / math.sqrt(10))


def test_the_result_says_all_it_depends_on(lfw: PairList) -> None:
    result = evaluate_pairs([(lfw, made_up(lfw.names))], Comparison(similarity="euclidean"), replicates=50)
    assert result.protocol == "pairs"
    assert result.options["similarity"] == "euclidean"
    assert result.options["embeddings"] == [{"model": "made up, seed 0"}]
    assert result.options["intervals"] == "50 draws of subjects"
    assert result.counts == {
        "pairs": 60,
        "genuine": 30,
        "impostors": 30,
        "repeated_pairs": 0,
        "images": 80,
        "missing_images": 0,
        "unreadable_images": 0,
        "pairs_left_out": 0,
    }
    assert result.metrics["tar@far=1e-3"] == NotMeasurable(30, 3000)
    accuracy = result.metrics["accuracy"]
    assert isinstance(accuracy, Estimate)
    assert accuracy.interval == "bootstrap over subjects"
    assert value(result, "best_accuracy") >= value(result, "accuracy") - 1e-12
    assert sum(result.histograms["all"].genuine) == 30
    assert any("other folds" in rule for rule in result.rules)


def test_best_accuracy_is_that_of_one_threshold(lfw: PairList) -> None:
    result = evaluate_pairs([(lfw, made_up(lfw.names))], replicates=50)
    scores, same = result.items["scores"], lfw.same
    best = max(np.mean((scores >= cut) == same) for cut in [*scores, 2.0])
    assert value(result, "best_accuracy") == pytest.approx(best)
    threshold = result.details["all"]["best_threshold"]
    assert np.mean((scores >= threshold) == same) == pytest.approx(best)


def test_worst_pairs_are_the_farthest_beyond_their_threshold(lfw: PairList) -> None:
    result = evaluate_pairs([(lfw, made_up(lfw.names, noise=2))], replicates=50)
    wrong = {k for k in range(60) if not result.items["right"][k]}
    for kind, same, sign in (("false matches", False, 1), ("false non-matches", True, -1)):
        shown = result.worst[kind]
        assert len(shown) == min(12, sum(lfw.same[k] == same for k in wrong))
        beyond = [sign * (pair.score - (pair.threshold or 0)) for pair in shown]
        assert beyond == sorted(beyond, reverse=True)
        assert min(beyond) >= 0
        pairs = {(lfw.left[k], lfw.right[k]) for k in wrong if lfw.same[k] == same}
        assert {(pair.left, pair.right) for pair in shown} <= pairs


def test_sets_alone_and_pooled(lfw: PairList, tmp_path: Path) -> None:
    calfw = read_pairs(write_calfw_list(tmp_path / "calfw.txt"))
    one, two = made_up(lfw.names), made_up(calfw.names, seed=3)
    seen: list[tuple[int, int]] = []
    sets = [(lfw, [one]), (calfw, [two])]
    result = evaluate_pairs(sets, replicates=50, progress=lambda *done: seen.append(done))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    for pairs, embeddings in ((lfw, one), (calfw, two)):
        alone = evaluate_pairs([(pairs, embeddings)], replicates=50)
        assert result.metrics[f"{pairs.title}/accuracy"] == alone.metrics["accuracy"]
        assert result.metrics[f"{pairs.title}/eer"] == alone.metrics["eer"]
    names = [f"lfw: {name}" for name in one.names] + [f"calfw: {name}" for name in two.names]
    pooled = PairList(
        "pooled",
        [f"lfw: {name}" for name in lfw.left] + [f"calfw: {name}" for name in calfw.left],
        [f"lfw: {name}" for name in lfw.right] + [f"calfw: {name}" for name in calfw.right],
        np.concatenate([lfw.same, calfw.same]),
        np.concatenate([lfw.folds, calfw.folds]),
        [""] * 100,
    )
    accuracy, _, right = loops(pooled, Embeddings(names, np.concatenate([one.values, two.values])))
    assert value(result, "accuracy") == pytest.approx(accuracy)
    assert result.items["right"].tolist() == right
    assert result.counts["pairs"] == 100
    assert set(result.curves) == {"all", "lfw", "calfw"}
    assert result.options["sets"] == ["lfw", "calfw"]
    assert any(rule.startswith("Pooled") for rule in result.rules)
    everyone = {*result.items["left_subject"].tolist(), *result.items["right_subject"].tolist()}
    assert len(everyone) == 20, "a person of one name in two sets is one person"
    with pytest.raises(ValueError, match="sets must have different titles: lfw, lfw"):
        evaluate_pairs([(lfw, [one]), (lfw, [one])])
    with pytest.raises(ValueError, match="widths or numbers differ"):
        evaluate_pairs([(lfw, [one]), (calfw, [made_up(calfw.names, dim=7)])])


def test_snapshots_are_averaged_in_their_scores(lfw: PairList) -> None:
    several = [made_up(lfw.names, seed=k) for k in range(3)]
    result = evaluate_pairs([(lfw, several)], replicates=50)
    own = [evaluate_pairs([(lfw, each)], replicates=50) for each in several]
    np.testing.assert_allclose(result.items["scores"], np.mean([each.items["scores"] for each in own], axis=0))
    assert value(result, "mean_snapshot_accuracy") == pytest.approx(np.mean([value(each, "accuracy") for each in own]))
    assert result.details["all"]["snapshot_accuracies"] == pytest.approx([value(each, "accuracy") for each in own])
    assert result.options["merge"] == "mean of scores"
    assert value(result, "accuracy") > value(result, "mean_snapshot_accuracy")


def test_intervals_of_accuracies_draw_people(lfw: PairList) -> None:
    several = [made_up(lfw.names, noise=1.5, seed=k) for k in range(2)]
    result = evaluate_pairs([(lfw, several)], replicates=20)
    shares = [loops(lfw, each)[2] for each in several]
    threshold = result.details["all"]["best_threshold"]
    best = [(score >= threshold) == same for score, same in zip(result.items["scores"], lfw.same, strict=True)]
    wanted = {
        "accuracy": result.items["right"].tolist(),
        "best_accuracy": best,
        "mean_snapshot_accuracy": [(one + two) / 2 for one, two in zip(*shares, strict=True)],
    }
    sides = [[name.partition("/")[0] for name in side] for side in (lfw.left, lfw.right)]
    everyone = sorted({*sides[0], *sides[1]})
    draws, drawn = np.random.default_rng(0), []
    for _ in range(1000):
        chosen = draws.integers(len(everyone), size=len(everyone)).tolist()
        times = {who: chosen.count(place) for place, who in enumerate(everyone)}
        drawn.append([times[a] if a == b else times[a] * times[b] for a, b in zip(*sides, strict=True)])
    for name, values in wanted.items():
        means = [sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights) for weights in drawn]
        estimate = result.metrics[name]
        assert isinstance(estimate, Estimate)
        assert estimate.interval == "bootstrap over subjects"
        assert estimate.low < estimate.value < estimate.high
        low, high = np.percentile(means, [2.5, 97.5])
        assert (estimate.low, estimate.high) == pytest.approx((min(low, estimate.value), max(high, estimate.value))), (
            name
        )


@pytest.mark.parametrize("similarity", ["cosine", "euclidean", "inner_product"])
@pytest.mark.parametrize("row", [[1.0, 0.0], [-3.0, 4.0]])
def test_embeddings_that_are_all_the_same(lfw: PairList, similarity: str, row: list[float], tmp_path: Path) -> None:
    embeddings = Embeddings(lfw.names, np.tile(row, (len(lfw.names), 1)))
    result = evaluate_pairs([(lfw, embeddings)], Comparison(similarity=similarity), fars=[0.1], replicates=20)
    assert len(set(result.items["scores"].tolist())) == 1
    for name, wanted in (("accuracy", 0.5), ("best_accuracy", 0.5), ("auc", 0.5), ("eer", 0.5), ("tar@far=1e-1", 0)):
        assert value(result, name) == wanted, name
    histogram = result.histograms["all"]
    assert (histogram.genuine.sum(), histogram.impostors.sum()) == (30, 30)
    write_result(result, tmp_path)
    assert write_report(result, tmp_path).stat().st_size > 10_000


def test_patches_side_by_side_have_the_sum_of_inner_products(lfw: PairList) -> None:
    one, two = made_up(lfw.names), made_up(lfw.names, seed=1, dim=3)
    how = Comparison(similarity="inner_product", normalize=False)
    parts = [evaluate_pairs([(lfw, each)], how, replicates=50).items["scores"] for each in (one, two)]
    whole = evaluate_pairs([(lfw, concatenated([one, two]))], how, replicates=50)
    np.testing.assert_allclose(whole.items["scores"], parts[0] + parts[1], rtol=1e-6)


def without(embeddings: Embeddings, *lost: str) -> Embeddings:
    kept = [k for k, name in enumerate(embeddings.names) if not name.startswith(lost)]
    return Embeddings([embeddings.names[k] for k in kept], embeddings.values[kept])


def test_missing_images_are_named_or_counted(lfw: PairList) -> None:
    embeddings = without(made_up(lfw.names), lfw_name(0, 3))
    with pytest.raises(ValueError, match=r"lfw\.txt, line 3: there is no '.*A_0003\.jpg'; 1 images of 1 pairs"):
        evaluate_pairs([(lfw, embeddings)])
    with pytest.raises(
        ValueError, match=r"lfw\.txt, line 4: nobody called 'Person_B' is known \(.*; 4 images of 4 pairs"
    ):
        evaluate_pairs([(lfw, without(made_up(lfw.names), f"{person(1)}/"))])
    result = evaluate_pairs([(lfw, embeddings)], allow_missing=True, replicates=50)
    assert (result.counts["missing_images"], result.counts["pairs_left_out"], result.counts["pairs"]) == (1, 1, 59)
    assert result.options["allow_missing"] is True
    kept = lfw.some(np.arange(60) != 1)
    assert value(result, "accuracy") == pytest.approx(loops(kept, embeddings)[0])
    gone = without(made_up(lfw.names), f"{person(0)}/", f"{person(1)}/")
    with pytest.raises(ValueError, match="8 images are missing, which leaves 54 of 60 pairs in 9 of 10 folds"):
        evaluate_pairs([(lfw, gone)], allow_missing=True)


def test_the_digest_is_of_the_pairs(lfw: PairList) -> None:
    one, two = (evaluate_pairs([(lfw, made_up(lfw.names, seed=k))], replicates=50) for k in (0, 1))
    other = evaluate_pairs([(lfw.some(np.arange(60) != 1), made_up(lfw.names))], replicates=50)
    assert one.items_digest == two.items_digest != other.items_digest
