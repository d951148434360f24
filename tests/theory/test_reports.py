"""Reports: their table, the packings, and that every item runs."""

import math

import pytest

from hypersphere.theory import ITEMS, Report, Row
from hypersphere.theory.tammes import BEST_KNOWN, _fejes_toth, packing_degrees


def test_a_table_is_aligned() -> None:
    report = Report("title", [Row("short", "1.0", "2.00", "differs"), Row("much longer", "10.25")])
    assert report.table().splitlines() == [
        "              ours  paper",
        "short          1.0   2.00  differs",
        "much longer  10.25",
    ]


def test_a_table_fits_a_narrow_terminal() -> None:
    report = Report("title", [Row("a number with a long name", "1.0", "2.00", "differs"), Row("short", "10.25")])
    assert report.table(35).splitlines() == [
        "                        ours  paper",
        "a number with a long",
        "name                     1.0   2.00",
        "    differs",
        "short                  10.25",
    ]


@pytest.mark.parametrize("count", [2, 4, 6, 7, 15, 17])
def test_packings_reach_the_best_known(count: int) -> None:
    assert packing_degrees(count, restarts=6) == pytest.approx(BEST_KNOWN[count], abs=1e-4)


def test_no_packing_is_above_the_bound() -> None:
    for count, best in BEST_KNOWN.items():
        if count > 2:
            assert best <= _fejes_toth(count) + 1e-6
    for count in (3, 4, 6, 12):  # where it is sharp
        assert _fejes_toth(count) == pytest.approx(BEST_KNOWN[count], abs=1e-5)
    assert math.isclose(BEST_KNOWN[12], math.degrees(math.atan(2)), abs_tol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ITEMS))
def test_every_item_runs_draws_and_holds(name: str) -> None:
    report = ITEMS[name].run()
    assert report.rows
    assert "DID NOT" not in report.table()
    for draw in report.figures.values():
        assert draw().axes
