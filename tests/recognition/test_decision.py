"""Decisions carry their threshold, rate, interval, calibration set and model."""

from typing import Any

import numpy as np
import pytest

from hypersphere.recognition import decide, decide_search, pool_template
from tests.recognition.made_up_people import calibrated, vectors


def test_a_decision_says_what_it_rests_on() -> None:
    made = calibrated()
    row = made.table.at(0.05)
    assert row.fmr == 0.01
    for score, match in ((row.threshold, True), (float(np.nextafter(row.threshold, -1)), False)):
        found = decide(score, made, fmr=0.05)
        assert found.match is match
        assert (found.fmr, found.fmr_low, found.fmr_high) == (row.fmr, row.fmr_low, row.fmr_high)
        assert found.llr == made.llr.at(score)
        assert (found.calibration, found.calibration_digest) == ("40 made-up people", "d" * 64)
        assert (found.model, found.contract) == ("0123456789abcdef", made.contract)
        assert found.as_dict()["liveness_checked"] is False
        assert str(found).startswith(("no match", "match")[match] + " at FMR 1e-02 [")
    assert decide(1.0, made, fmr=0.05).fmr_at_score == 3 / made.table.impostors
    assert decide(0.0, made, fmr=0.05).fmr_at_score == made.curve.fmr_at(0.0)
    with pytest.raises(ValueError, match="fmr=1e-09 is below"):
        decide(0.5, made, fmr=1e-9)


def test_nobody_is_an_answer() -> None:
    made = calibrated()
    found = decide_search([("ada", 0.1), ("bo", 0.2)], 12, made, fpir=0.1)
    assert not found.match
    assert found.candidates == ()
    assert found.best_score == 0.2
    assert (found.gallery_size, found.calibrated_size) == (12, 20)
    assert str(found).startswith("no match at FPIR 1e-01 [")
    assert "with N = 12, indicative (threshold" in str(found)
    empty = decide_search([], 0, made, fpir=0.1)
    assert not empty.match
    assert empty.best_score is None
    assert "with N = 0" in str(empty)


def test_candidates_are_people_and_not_templates() -> None:
    made = calibrated()
    found = decide_search([("ada", 0.97), ("bo", 0.99), ("ada", 0.98), ("cy", 0.0)], 30, made, fpir=0.1)
    assert [(each.subject, each.score) for each in found.candidates] == [("bo", 0.99), ("ada", 0.98)]
    assert found.match
    assert found.as_dict()["match"] is True
    assert "bo (0.990, LLR +" in str(found)


def test_an_extrapolated_search_says_so() -> None:
    found = decide_search([], 60, calibrated(), fpir=0.2)
    assert found.extrapolated
    assert "extrapolated, independence assumed" in str(found)


def test_a_template_is_pooled_as_ijb_pools() -> None:
    unit, media, quality = vectors()[:5], np.array([0, 0, 1, 2, 2]), np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    wide = unit.astype(np.float64) * quality[:, None]
    total = wide[:2].mean(0) + wide[2] + wide[3:].mean(0)
    pooled = pool_template(unit, media=media, quality=quality)
    np.testing.assert_allclose(pooled, total / np.linalg.norm(total), atol=1e-7)
    whole = unit.astype(np.float64).sum(0)
    np.testing.assert_allclose(pool_template(unit), whole / np.linalg.norm(whole), atol=1e-7)
    np.testing.assert_allclose(pool_template(unit[:1]), unit[0], atol=1e-7)


@pytest.mark.parametrize("quality", [[1.0], [1.0, 0.0], [1.0, np.nan]])
def test_a_quality_must_weigh(quality: list[float]) -> None:
    with pytest.raises(ValueError, match="quality"):
        pool_template(vectors()[:2], quality=quality)
    with pytest.raises(ValueError, match="zero vector"):
        pool_template([[1.0, 0.0], [-1.0, 0.0]])


@pytest.mark.parametrize("fmr", [2.0, -0.1, float("nan"), "often"])
def test_a_rate_is_a_share(fmr: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="fmr"):
        decide(0.5, calibrated(), fmr)
