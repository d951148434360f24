"""report.html: everything on one page, nothing fetched."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from hypersphere.evaluation import Figure, NotMeasurable, Result
from hypersphere.evaluation.protocols import read_pairs
from hypersphere.evaluation.report import figure_cells, flat, write_report
from tests.evaluation.protocols.standins import made_up, write_lfw_list
from tests.plots.reader import Reader


@pytest.fixture
def result(tmp_path: Path) -> Result:
    pairs = read_pairs(write_lfw_list(tmp_path / "lfw.txt"))
    return pairs.evaluate(made_up(pairs.names, noise=2), replicates=20)


def test_the_page_has_it_all(result: Result, tmp_path: Path) -> None:
    picture = np.zeros((4, 4, 3), np.uint8)
    counted = dataclasses.replace(result, counts={**result.counts, "missing_images": 3}, cmc={"a": np.array([0.5])})
    page = write_report(counted, tmp_path / "out", title="pairs: lfw", pictures=lambda _: picture)
    reader = Reader(page.read_text())
    images = sum(len(pairs) for pairs in result.worst.values())
    assert images > 2
    assert reader.tags.count("li") == images
    assert reader.tags.count("img") == 2 * images + 4
    for text in ("Not all of the protocol was measured: 3 missing images.", "accuracy", "not measurable with n=30"):
        assert text in reader.words
    assert "Scores of all; the line is the mean of the folds' thresholds." in reader.words
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


def test_a_result_of_figures_alone(tmp_path: Path) -> None:
    figures = {"top1": Figure(0.5, 0.4, 0.6, 10, "wilson"), "class_margin": Figure(71.5, 71.5, 71.5, 9, "exact")}
    words = Reader(write_report(Result("classify", figures, {"a": 1}), tmp_path).read_text()).words
    assert "50.00 %40.00 % to 60.00 %10wilson" in words
    assert "71.571.5 to 71.59exact" in words


def test_words() -> None:
    assert figure_cells("tar@far=1e-6", NotMeasurable(30, 3000)) == [
        "not measurable with n=30",
        "",
        "30",
        "needs n=3,000",
    ]
    assert flat({"a": {"b": 1}, "c": [{"d": 2}, {"d": 3}], "e": [4, 5]}) == {
        "a.b": 1,
        "c.1.d": 2,
        "c.2.d": 3,
        "e": "4, 5",
    }
