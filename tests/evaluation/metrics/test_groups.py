"""Error rates of groups against plain counting, and lists of groups that are refused."""

from pathlib import Path

import numpy as np
import pytest

from hypersphere.evaluation import all_pairs, draw_groups, impostor_thresholds, rates_by_group
from hypersphere.evaluation import read_groups as read
from hypersphere.evaluation.metrics.calibrate import calibrate_pairs


def people(count: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Impostor pairs of people of two groups, those of one group nearer to each other; of every fifth none is known."""
    rng = np.random.default_rng(0)
    groups = ["" if k % 5 == 0 else "ab"[k % 2] for k in range(count)]
    centres = {name: rng.normal(size=8) for name in ("", "a", "b")}
    unit = np.stack([centres[name] + rng.normal(size=8) for name in groups])
    scores, left, right = all_pairs(unit / np.linalg.norm(unit, axis=1, keepdims=True), np.arange(count))
    return scores, left, right, groups


def test_rates_are_plain_counts() -> None:
    scores, left, right, groups = people()
    rates = rates_by_group(scores > 0.5, left, right, groups, replicates=200)
    assert [each.group for each in rates][-1] == "across groups"
    assert rates[0].rate.value >= rates[1].rate.value, "the worst group comes first"
    for each in rates:
        compared = errors = 0
        for score, i, j in zip(scores, left, right, strict=True):
            two = {groups[i], groups[j]}
            if "" in two or (two != {each.group} if each.group in "ab" else len(two) == 1):
                continue
            compared, errors = compared + 1, errors + int(score > 0.5)
        assert (each.comparisons, each.errors) == (compared, errors)
        assert each.rate.low <= each.rate.value <= each.rate.high
    assert [each.people for each in rates] == [24, 24, 48]


def test_genuine_pairs_have_groups_too() -> None:
    rates = rates_by_group([True, False, False], [0, 0, 1], [0, 0, 1], ["a", "b"])
    assert [(each.group, each.errors, each.comparisons) for each in rates] == [("a", 1, 2), ("b", 0, 1)]


def test_groups_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="groups has 1 entries, but there is a person 1"):
        rates_by_group([True], [0], [1], ["a"])
    with pytest.raises(ValueError, match="no pair of people whose groups are known"):
        rates_by_group([True], [0], [1], ["a", ""])


def test_the_picture_has_every_group() -> None:
    pytest.importorskip("matplotlib")
    scores, left, right, groups = people()
    figure = draw_groups(rates_by_group(scores > 0.5, left, right, groups, replicates=50), "FMR, %")
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels[-1] == "across groups (48 people)"


def test_lists_of_groups(tmp_path: Path) -> None:
    path = tmp_path / "groups.csv"
    path.write_text("file,sex,born\nx/a.jpg,F,1950\nb.jpg,,\n\na.png,F,1950\n")
    assert read(path) == {"a": "F", "b": ""}
    assert read(path, "born") == {"a": "1950", "b": ""}
    with pytest.raises(ValueError, match=r"groups\.csv: there is no column 'age'"):
        read(path, "age")
    path.write_text("file,sex\na.jpg,F\na.png,M\n")
    with pytest.raises(ValueError, match=r"groups\.csv, line 3: 'a\.png' is in two groups"):
        read(path)
    path.write_text("file,sex\na.jpg\n")
    with pytest.raises(ValueError, match=r"groups\.csv, line 2: 1 cells; the first line names 2 columns"):
        read(path)
    path.write_text("file\na.jpg\n")
    with pytest.raises(ValueError, match="must name at least two columns"):
        read(path)


def test_thresholds_of_impostors_are_those_of_whole_calibrations() -> None:
    scores, left, right, _ = people()
    own = impostor_thresholds(scores, left, right, replicates=200)
    own_pairs = np.arange(3)
    whole = calibrate_pairs(
        np.concatenate([scores, np.ones(3, np.float32)]),
        np.concatenate([left, own_pairs]),
        np.concatenate([right, own_pairs]),
        replicates=200,
    )
    assert [(row.fmr, row.threshold, row.false_matches, row.indicative) for row in own] == [
        (row.fmr, row.threshold, row.false_matches, row.indicative) for row in whole
    ]
    for row, other in zip(own, whole, strict=True):
        assert (row.fmr_low, row.fmr_high) == pytest.approx((other.fmr_low, other.fmr_high), rel=1e-9)
    with pytest.raises(ValueError, match="scores must be of pairs of two people"):
        impostor_thresholds(np.ones(2), [0, 1], [0, 2])
