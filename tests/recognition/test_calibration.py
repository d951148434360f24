"""Calibrations: what they hold, against plain computations; where they lie, and what is refused."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from hypersphere.evaluation import calibrate_thresholds
from hypersphere.recognition import (
    CalibrationSet,
    calibrate_scores,
    calibration_path,
    load_calibration,
    save_calibration,
    score_curve,
)
from tests.recognition.made_up_people import CONTRACT, PERSON, calibrated, vectors

LEFT, RIGHT = np.triu_indices(len(PERSON), 1)
COSINES = (vectors().astype(np.float64) @ vectors().astype(np.float64).T)[LEFT, RIGHT]
SAME = PERSON[LEFT] == PERSON[RIGHT]


def test_the_table_is_that_of_all_pairs() -> None:
    made = calibrated()
    assert list(made.table.thresholds) == calibrate_thresholds(vectors(), PERSON, replicates=60)
    assert (made.table.identities, made.table.genuine, made.table.impostors) == (40, SAME.sum(), (~SAME).sum())
    impostors = np.sort(COSINES[~SAME])[::-1]
    genuine = COSINES[SAME]
    for row in made.table.thresholds:
        taken = math.floor(row.fmr * len(impostors))
        after = impostors[taken]  # nextafter of this is the lowest threshold that the rate allows
        assert row.threshold == pytest.approx(after, abs=1e-6)
        assert row.false_matches == taken
        assert row.fnmr == pytest.approx((genuine <= after).mean())


def test_pairs_of_a_list_give_the_same_as_all_pairs() -> None:
    order = np.random.default_rng(0).permutation(len(LEFT))
    cosines = np.array([float(vectors()[j] @ vectors()[i]) for i, j in zip(LEFT, RIGHT, strict=True)], np.float32)
    about = CalibrationSet(people="40 made-up people", digest="d" * 64, images=len(PERSON))
    sides = PERSON[LEFT[order]], PERSON[RIGHT[order]]
    listed = calibrate_scores(cosines[order], *sides, CONTRACT, about, replicates=60)
    whole = calibrated()
    assert listed.searches == ()
    for one, two in zip(listed.table.thresholds, whole.table.thresholds, strict=True):
        assert dataclasses.astuple(one) == pytest.approx(dataclasses.astuple(two), abs=1e-6)
    assert listed.llr.slope == pytest.approx(whole.llr.slope, rel=1e-5)


def test_the_curve_against_plain_counts() -> None:
    curve = score_curve(COSINES.astype(np.float32), PERSON[LEFT], PERSON[RIGHT], replicates=40, seed=3)
    generator = np.random.default_rng(3)
    draws = [np.bincount(generator.integers(40, size=40), minlength=40) for _ in range(40)]
    assert (sum(curve.genuine), sum(curve.impostors)) == (SAME.sum(), (~SAME).sum())
    for place in range(0, len(curve.genuine), 20):
        accepted = COSINES.astype(np.float32) >= curve.edges[place]
        assert curve.fmr[place] == pytest.approx(accepted[~SAME].mean(), abs=1e-12)
        assert curve.fnmr[place] == pytest.approx(1 - accepted[SAME].mean(), abs=1e-12)
        rates = []
        for drawn in draws:
            weights = np.where(SAME, drawn[PERSON[LEFT]], drawn[PERSON[LEFT]] * drawn[PERSON[RIGHT]])
            kinds = [(weights * accepted)[kind].sum() / weights[kind].sum() for kind in (~SAME, SAME)]
            rates.append((kinds[0], 1 - kinds[1]))
        low, high = np.quantile(rates, [0.025, 0.975], axis=0)
        point = curve.fmr[place], curve.fnmr[place]
        bounds = (curve.fmr_low, curve.fnmr_low), (curve.fmr_high, curve.fnmr_high)
        assert [each[place] for each in bounds[0]] == pytest.approx(np.minimum(low, point), rel=1e-3, abs=1e-9)
        assert [each[place] for each in bounds[1]] == pytest.approx(np.maximum(high, point), rel=1e-3, abs=1e-9)
    assert curve.fmr_at(2.0) == curve.fmr[-1]
    assert curve.fmr_at(-2.0) == 1
    low, high = curve.fmr_bounds(curve.edges[50] + 1e-4)
    assert (low, high) == (curve.fmr_low[51], curve.fmr_high[50])


def test_a_search_takes_the_next_larger_gallery_that_was_measured() -> None:
    made = calibrated()
    assert made.search_at(0.1, 10).gallery_size == 10
    assert made.search_at(0.15, 11).gallery_size == 20
    assert made.search_at(0.1, 0).gallery_size == 10
    assert not made.search_at(0.1, 39).extrapolated


def test_beyond_the_measured_galleries_independence_is_assumed() -> None:
    made = calibrated()
    impostors = np.sort(COSINES[~SAME])[::-1]
    fmr = 1 - 0.8 ** (1 / 60)
    taken = math.floor(fmr * len(impostors))
    row = made.search_at(0.2, 60)
    rank = max(rank for rank in made.tail_ranks if rank <= taken + 1)
    assert row.extrapolated
    assert row.fnir is None
    assert row.gallery_size == 60
    assert row.threshold == pytest.approx(impostors[rank - 1], abs=1e-6)
    assert row.threshold > impostors[taken] - 1e-7
    assert row.fpir_low < 0.2 < row.fpir_high
    assert row.indicative == (taken < 30)
    with pytest.raises(ValueError, match=r"fpir=0\.01 in a gallery of 1,000,000 needs a false-match rate of 1\.0e-08"):
        made.search_at(0.01, 1_000_000)


def test_it_comes_back_from_its_file(tmp_path: Path) -> None:
    made = calibrated()
    save_calibration(made, tmp_path / "calibration.json")
    assert load_calibration(tmp_path, CONTRACT) == made
    assert load_calibration(tmp_path / "calibration.json") == made
    assert calibration_path("models/face.onnx") == Path("models/face.calibration.json")
    other = dataclasses.replace(CONTRACT, flip="sum")
    with pytest.raises(ValueError, match=r"calibration\.json: the calibration is of contract .* calibrate it"):
        load_calibration(tmp_path, other)
    with pytest.raises(ValueError, match="is missing: the model was not calibrated"):
        load_calibration(tmp_path / "face.onnx")


@pytest.mark.parametrize("text", ["[]", "{}", '{"contract": 3}'])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "calibration.json").write_text(text)
    with pytest.raises(ValueError, match=r"calibration\.json: "):
        load_calibration(tmp_path)


def test_lists_of_unequal_lengths_are_refused(tmp_path: Path) -> None:
    for change in ({"tail_ranks": [1]}, {"curve": {**dataclasses.asdict(calibrated().curve), "genuine": [1]}}):
        (tmp_path / "calibration.json").write_text(json.dumps({**dataclasses.asdict(calibrated()), **change}))
        with pytest.raises(ValueError, match=r"calibration\.json: (tail_scores|curve: genuine) has"):
            load_calibration(tmp_path)


def test_people_of_the_training_set_are_refused() -> None:
    about = CalibrationSet(people="three", digest="", images=9, names=("Ada Byron", "Grace_Hopper", "Mary"))
    assert about.disjoint(["Alan Turing"], "the training set").disjoint_from == ("the training set",)
    with pytest.raises(ValueError, match="shares 2 people with lfw-people.txt: Ada Byron, Grace_Hopper"):
        about.disjoint(["ada_byron", "grace hopper"], "lfw-people.txt")


def test_too_few_pairs() -> None:
    about = CalibrationSet(people="two", digest="", images=4)
    with pytest.raises(ValueError, match="4 pairs of different people are too few"):
        calibrate_scores([0.9, 0.8, 0.1, 0.2, 0.1, 0.3], [0, 1, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1], CONTRACT, about)


@pytest.mark.parametrize("fpir", [0.2, 0.1, 0.05])
@pytest.mark.parametrize("size", [600, 5_000])
def test_a_gallery_that_is_too_large_is_told_what_is_supported(fpir: float, size: int) -> None:
    made = calibrated()
    with pytest.raises(ValueError, match=r"pairs support: up to .* templates are; ask for fpir=") as refused:
        made.search_at(fpir, size)
    largest = made.largest_gallery(fpir)
    assert f"up to {largest:,} templates" in str(refused.value)
    assert made.search_at(fpir, largest).fpir <= fpir
    with pytest.raises(ValueError, match="pairs support"):
        made.search_at(fpir, largest + 1)
    offered = float(str(refused.value).rpartition("fpir=")[2].partition(",")[0])
    assert fpir < offered <= 1
    assert made.search_at(offered, size).fpir <= offered


def test_no_rate_is_offered_where_none_is_supported() -> None:
    with pytest.raises(ValueError, match="templates are; calibrate on more people"):
        calibrated().search_at(0.2, 1_000_000)
