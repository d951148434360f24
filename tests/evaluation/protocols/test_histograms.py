"""The histograms of reports: counts of plain loops, and the threshold at which the report's estimate is read."""

import json
from pathlib import Path

import numpy as np
import pytest

from hypersphere.evaluation import Result, write_result
from hypersphere.evaluation.metrics.roc import roc_curve
from hypersphere.evaluation.protocols import IjbOptions, evaluate_pairs, read_blufr, read_ijb, read_megaface, read_pairs
from hypersphere.evaluation.protocols.megaface import protocol as megaface
from hypersphere.evaluation.statistics.histogram import ScoreHistogram, score_histogram
from hypersphere.evaluation.statistics.scores import SortedScores
from tests.evaluation.protocols.loops import unit
from tests.evaluation.protocols.official import write_blufr, write_ijb, write_megaface
from tests.evaluation.protocols.standins import made_up, write_lfw_list


def accepted(result: Result, name: str, rate: str) -> tuple[ScoreHistogram, float]:
    """A histogram, and the share of genuine scores that its threshold accepts by the curve of the same name."""
    drawn, roc = result.histograms[name], result.curves[name]
    assert drawn.threshold is not None
    assert drawn.threshold_rule == f"the threshold of {rate}"
    assert (drawn.genuine.sum(), drawn.impostors.sum(), drawn.outside) == (roc.genuine, roc.impostors, 0)
    return drawn, float(roc.tar[np.flatnonzero(roc.thresholds >= drawn.threshold)[-1]])


def test_the_line_is_at_the_lowest_rate_that_can_be_measured() -> None:
    scores = np.arange(60) / 60
    same = np.arange(60) % 2 == 1
    plain = score_histogram(SortedScores(scores[same]), SortedScores(scores[~same]), [0, 1])
    roc = roc_curve(scores, same)
    line = plain.at_lowest(roc, [0.5, 0.1, 0.01], "FMR")
    assert (line.threshold, line.threshold_rule) == (scores[53], "the threshold of FMR=1e-1")
    assert np.count_nonzero(scores[~same] >= scores[53]) == 3
    assert plain.at_lowest(roc, [0.01]) is plain


def test_pairs(tmp_path: Path) -> None:
    pairs = read_pairs(write_lfw_list(tmp_path / "lfw.txt"))
    result = evaluate_pairs([(pairs, made_up(pairs.names))], replicates=5)
    drawn = result.histograms["all"]
    assert drawn.threshold == pytest.approx(np.mean(result.details["all"]["fold_thresholds"]))
    assert drawn.threshold_rule == "the mean of the folds' thresholds"


def test_blufr(tmp_path: Path) -> None:
    embeddings = write_blufr(tmp_path / "config.mat", people=40, each=4)
    result = read_blufr(tmp_path / "config.mat").evaluate(embeddings, fars=[1e-2, 1e-3], open_set_fars=[0.1, 1e-3])
    _, share = accepted(result, "verification, trial 1", "FAR=1e-3")
    assert share == result.details["vr@far=1e-3"]["trials"][0]
    drawn, roc = result.histograms["open set, trial 1"], result.curves["open set, trial 1"]
    assert drawn.threshold_rule == "the threshold of FAR=1e-1"
    assert drawn.kinds == ("mates that were found", "best entries of strangers")
    assert drawn.impostors.sum() == roc.impostors
    assert drawn.genuine.sum() == roc.true_accepts[-1] < roc.genuine


def test_ijb(tmp_path: Path) -> None:
    embeddings = write_ijb(tmp_path)
    options = IjbOptions(search="both")
    result = read_ijb(tmp_path).evaluate(embeddings, options=options, fars=[1e-1, 1e-2, 1e-5], fpirs=[0.5, 0.1])
    drawn, share = accepted(result, "1:1", "FAR=1e-2")
    assert share == pytest.approx(result.metrics["tar@far=1e-2"].value)
    assert np.histogram(result.items["genuine_scores"], drawn.edges)[0].tolist() == drawn.genuine.tolist()
    for name in ("G1", "G2"):
        each, curve = result.histograms[f"1:N, {name}"], result.curves[f"1:N, {name}"]
        assert each.threshold == curve.thresholds[curve.point_at(0.1)]
        assert each.threshold_rule == "the threshold of FPIR=1e-1"
        assert each.genuine.sum() == curve.true_accepts[-1]
    merged = result.histograms["1:N, merged"]
    assert (merged.genuine.sum(), merged.impostors.sum()) == (72, 72 * 23)
    assert merged.threshold_rule == "the threshold of merged FPIR=1e-1"
    table = json.loads(write_result(result, tmp_path / "out").read_text())["histograms"]["1:1"]
    assert (table["threshold"], table["threshold_rule"]) == (drawn.threshold, "the threshold of FAR=1e-2")


def test_megaface(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = write_megaface(tmp_path)
    protocol = read_megaface(tmp_path / "facescrub_features_list.json", tmp_path / "megaface_features_list.json_400_1")
    result = protocol.evaluate(near, far, fars=[1e-2, 1e-3, 1e-6])
    drawn, roc = result.histograms[megaface.CURVE], result.curves[megaface.CURVE]
    scores = [float(unit(one) @ unit(two)) for one in near.values for two in far.values]
    assert np.abs(np.histogram(scores, drawn.edges)[0] - drawn.impostors).max() <= 1
    assert drawn.impostors.sum() == len(scores)
    assert drawn.kinds[1] == "two people"
    assert drawn.threshold == roc.thresholds[roc.point_at(1e-3)]
    assert drawn.threshold_rule == "the threshold of FAR=1e-3"
    monkeypatch.setattr(megaface, "_SAMPLED", len(scores) // 4)
    few = protocol.evaluate(near, far, fars=[1e-2, 1e-3, 1e-6])
    assert few.metrics == result.metrics
    assert few.histograms[megaface.CURVE].impostors.sum() == len(scores) // 4
    assert few.histograms[megaface.CURVE].kinds[1] == "two people, 1 distractor in 4"
