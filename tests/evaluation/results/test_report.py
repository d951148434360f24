"""report.html: everything on one page, nothing fetched."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from hypersphere.evaluation import Estimate, NotMeasurable, Result
from hypersphere.evaluation.protocols import evaluate_pairs, read_pairs
from hypersphere.evaluation.results.measurement import LeftOut
from hypersphere.evaluation.results.metric_tables import (
    estimate_cells,
    metric_tables,
    not_measurable,
    without_complements,
)
from hypersphere.evaluation.results.origin import origin
from hypersphere.evaluation.results.report import flat, write_report
from hypersphere.version import __version__
from tests.evaluation.protocols.standins import made_up, write_lfw_list
from tests.plots.reader import Reader


@pytest.fixture
def result(tmp_path: Path) -> Result:
    pairs = read_pairs(write_lfw_list(tmp_path / "lfw.txt"))
    return evaluate_pairs([(pairs, made_up(pairs.names, noise=2))], replicates=20)


def test_the_page_has_it_all(result: Result, tmp_path: Path) -> None:
    picture = np.zeros((4, 4, 3), np.uint8)
    counted = dataclasses.replace(
        result, counts={**result.counts, "missing_images": LeftOut(3)}, cmc={"a": np.array([0.5])}
    )
    page = write_report(counted, tmp_path / "out", title="pairs: lfw", pictures=lambda _: picture)
    reader = Reader(page.read_text())
    images = sum(len(pairs) for pairs in result.worst.values())
    assert images > 2
    assert reader.tags.count("li") == images
    assert reader.tags.count("img") == 2 * images + 4
    for text in (
        "Not all of the protocol was measured: 3 missing images.",
        "accuracy",
        "Not measurable with n=30: far=1e-2",
    ):
        assert text in reader.words
    assert "Scores of all; the line is the mean of the folds' thresholds (" in reader.words
    assert reader.words.count("Not measurable") == 1
    assert "at" + "tarfnmrn" in reader.words, "FNMR stands beside TAR"
    for pair in (pair for pairs in result.worst.values() for pair in pairs):
        assert pair.threshold is not None
        sign = "≥" if pair.score >= pair.threshold else "<"
        assert f"{pair.score:.3f} {sign} {pair.threshold:.3f}" in reader.words
    for text in ("made up, seed 0", "similarity", "Threshold rule", "Folds", "Worst false non-matches", "60 pairs"):
        assert text in reader.words
    assert "script" not in reader.tags


def test_without_pictures_the_worst_pairs_are_a_table(result: Result, tmp_path: Path) -> None:
    for pictures in (None, lambda _: None):
        reader = Reader(write_report(result, tmp_path, pictures=pictures).read_text())
        assert "li" not in reader.tags
        assert result.worst["false matches"][0].left in reader.words
    name = result.worst["false matches"][0].left
    picture = np.zeros((4, 4, 3), np.uint8)
    some = write_report(result, tmp_path, pictures=lambda each: None if each == name else picture)
    reader = Reader(some.read_text())
    assert "li" in reader.tags
    assert name in reader.words
    words = Reader(write_report(dataclasses.replace(result, worst={"false matches": []}), tmp_path).read_text()).words
    assert "Worst false matches\nNone." in words


def test_a_page_says_whose_it_is(result: Result, tmp_path: Path) -> None:
    asked = dataclasses.replace(result, command="hypersphere evaluate pairs --out x", date="2026-01-02 03:04 UTC")
    words = Reader(write_report(asked, tmp_path).read_text()).words
    top = words[: words.index("Metrics")]
    for text in ("hypersphere evaluate pairs --out x", "2026-01-02 03:04 UTC", f"hypersphere {__version__}", "lfw.txt"):
        assert text in top
    assert "made up, seed 0" in top, "the model"


@pytest.mark.parametrize(
    ("made", "model", "data"),
    [
        (
            [{"model": "m.onnx", "images": "a.tar", "contract": {"digest": "0ba9"}}],
            "m.onnx (weights 0ba9)",
            "a.tar, l.txt",
        ),
        ({"embeddings": "E.npy", "list": "n.txt"}, "E.npy (ready embeddings)", "l.txt"),
        (
            [{"concatenated": [{"model": "a", "images": "i"}, {"model": "b", "images": "i"}]}],
            "a, b",
            "i, l.txt",
        ),
        ([], "", "l.txt"),
    ],
)
def test_model_and_data_come_from_the_options(made: object, model: str, data: str) -> None:
    files = {"l.txt": "", **({"E.npy": "", "n.txt": ""} if isinstance(made, dict) else {})}
    found = origin({"options": {"embeddings": made}, "files": files, "hypersphere": "1"})
    assert (found["model"], found["data"], found["version"]) == (model, data, "hypersphere 1")


def test_a_result_of_estimates_alone(tmp_path: Path) -> None:
    estimates = {
        "top1": Estimate(0.5, 0.4, 0.6, 10, "wilson"),
        "class_margin": Estimate(71.5, 71.5, 71.5, 9, "exact", "degrees"),
        "sample_margin_share_positive": Estimate(0.99999, 0.9, 1, 9, "wilson"),
    }
    words = Reader(write_report(Result("classify", estimates, {"a": 1}), tmp_path).read_text()).words  # type: ignore[arg-type]
    assert "50.00 %40.00 % to 60.00 %10wilson" in words
    assert "71.5°71.5° to 71.5°9exact" in words
    assert "99.999 %90.00 % to 100.00 %9wilson" in words


def test_what_cannot_be_measured_is_one_sentence(tmp_path: Path) -> None:
    metrics = {
        "tar@far=1e-3": NotMeasurable(30, 3000),
        "fnmr@fmr=1e-3": NotMeasurable(30, 3000),
        "vr@far=1e-1": Estimate(0.5, 0.4, 0.6, 10, "wilson"),
        "dir@far=1e-1": NotMeasurable(9, 30),
        "a/tpir@fpir=1e-1": NotMeasurable(9, 30),
    }
    assert not_measurable(metrics) == (  # type: ignore[arg-type]
        "Not measurable with n=30: far=1e-3 (needs 3,000); with n=9: dir@far=1e-1 (needs 30), a/fpir=1e-1 (needs 30)."
    )
    assert not_measurable({"vr@far=1e-1": metrics["vr@far=1e-1"]}) == ""  # type: ignore[dict-item]
    (table,) = metric_tables(metrics)  # type: ignore[arg-type]
    assert (table.header, table.rows) == (["at", "vr", "n"], [["far=1e-1", "50.00 %\n[40.00, 60.00]", "10"]])
    nothing = {name: estimate for name, estimate in metrics.items() if isinstance(estimate, NotMeasurable)}
    assert "Not measurable" in Reader(write_report(Result("x", nothing, {}), tmp_path).read_text()).words  # type: ignore[arg-type]


def test_fnmr_stands_beside_its_tar_in_every_set() -> None:
    estimate = Estimate(0.5, 0.4, 0.6, 10, "wilson")
    names = ["tar@far=1e-3", "fnmr@fmr=1e-3", "a/tar@far=1e-3", "a/fnmr@fmr=1e-3", "tpir@fpir=1e-2"]
    metrics = dict.fromkeys(names, estimate)
    first, second = metric_tables(metrics)
    assert [row[0] for row in first.rows] == ["far=1e-3", "a/far=1e-3"]
    assert first.header == ["at", "tar", "fnmr", "n"]
    assert second.header == ["at", "tpir", "n"]
    assert without_complements(metrics) == ["tar@far=1e-3", "a/tar@far=1e-3", "tpir@fpir=1e-2"]
    assert without_complements({"fnmr@fmr=1e-3": estimate}) == ["fnmr@fmr=1e-3"]


def test_words() -> None:
    assert estimate_cells(NotMeasurable(30, 3000)) == ["not measurable with n=30", "", "30", "needs n=3,000"]
    assert flat({"a": {"b": 1}, "c": [{"d": 2}, {"d": 3}], "e": [4, 5]}) == {
        "a.b": 1,
        "c.1.d": 2,
        "c.2.d": 3,
        "e": "4, 5",
    }
