"""The calibrations of the model that comes with the package."""

from pathlib import Path

import pytest

import hypersphere as hs
from hypersphere.models import load_thresholds
from hypersphere.recognition import SHIPPED, Recognizer, calibration_path, decide, load_calibration

PAGE = (Path(__file__).parents[2] / "docs" / "starter.md").read_text()


@pytest.mark.parametrize("kind", SHIPPED)
def test_each_is_of_the_starter_and_stands_in_its_page(kind: str) -> None:
    made = load_calibration(kind, hs.load_model("starter").contract)
    for power, row in enumerate(made.table.thresholds, start=1):
        assert row.false_matches == made.table.impostors // 10**power  # no two scores are equal around these
        assert f"| {row.threshold:.3f} |" in PAGE
    assert made.disjoint_from[0] == "the people trained on"
    assert made.table.digest in PAGE
    assert f"{made.table.impostors:,}" in PAGE
    assert (calibration_path("starter").parent / SHIPPED[kind]).stat().st_size < 20_000


def test_portraits_decide_unless_albums_are_named() -> None:
    portraits, albums = load_calibration("portraits"), load_calibration("albums")
    assert load_calibration("starter") == portraits
    assert portraits.table == load_thresholds("starter")
    assert (portraits.table.identities, albums.table.identities) == (2141, 267)
    assert decide(0.5, portraits).match
    assert not decide(0.5, albums).match  # children and relatives are more alike
    assert Recognizer(detector=None, calibration="albums").calibration == albums


@pytest.mark.parametrize(("kind", "sizes"), [("portraits", [10, 20, 50, 100, 200, 500, 1000, 2000, 2140]),
                                             ("albums", [10, 20, 50, 100, 200, 266])])  # fmt: skip
def test_its_searches_rise_with_the_gallery(kind: str, sizes: list[int]) -> None:
    made = load_calibration(kind)
    for fpir in (0.1, 0.01):
        rows = [row for row in made.searches if row.fpir == fpir]
        assert [row.gallery_size for row in rows] == sizes
        assert sorted(row.threshold for row in rows) == [row.threshold for row in rows]
        assert all(row.indicative == (fpir == 0.01 and kind == "albums") for row in rows)
    assert made.search_at(0.1, 5000).extrapolated
    assert 0 < made.llr.cllr_min < made.llr.cllr < 0.34
