"""The calibration of the model that comes with the package."""

from pathlib import Path

import hypersphere as hs
from hypersphere.models import load_thresholds
from hypersphere.recognition import calibration_path, decide, load_calibration


def test_it_is_of_the_starter_and_has_its_thresholds() -> None:
    made = load_calibration("starter", hs.load_model("starter").contract)
    assert made.table == load_thresholds("starter")
    for power, row in enumerate(made.table.thresholds, start=1):
        assert row.false_matches == made.table.impostors // 10**power  # no two scores are equal around these
    assert made.disjoint_from == ("the people trained on",)
    assert made.table.digest in (Path(__file__).parents[2] / "docs" / "starter.md").read_text()
    assert calibration_path("starter").stat().st_size < 20_000


def test_its_searches_rise_with_the_gallery() -> None:
    made = load_calibration("starter")
    for fpir in (0.1, 0.01):
        rows = [row for row in made.searches if row.fpir == fpir]
        assert [row.gallery_size for row in rows] == [10, 20, 50, 100, 200, 499]
        assert sorted(row.threshold for row in rows) == [row.threshold for row in rows]
        assert all(row.indicative == (fpir == 0.01) for row in rows)
    assert made.search_at(0.01, 1000).extrapolated
    assert 0.19 < made.llr.cllr_min < made.llr.cllr < 0.2
    assert decide(0.6, made).match
    assert not decide(0.55, made).match
