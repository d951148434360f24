"""Packings of points in 3-D beside the best known."""

import math

import pytest

from hypersphere.theory import BEST_KNOWN
from hypersphere_papers.largest_margins.mathematics import fejes_toth_bound, packing_degrees


@pytest.mark.parametrize("count", [2, 4, 6, 7, 15, 17])
def test_packings_reach_the_best_known(count: int) -> None:
    assert packing_degrees(count, restarts=6) == pytest.approx(BEST_KNOWN[count], abs=1e-4)


def test_no_packing_is_above_the_bound() -> None:
    for count, best in BEST_KNOWN.items():
        if count > 2:
            assert best <= fejes_toth_bound(count) + 1e-6
    for count in (3, 4, 6, 12):  # where it is sharp
        assert fejes_toth_bound(count) == pytest.approx(BEST_KNOWN[count], abs=1e-5)
    assert math.isclose(BEST_KNOWN[12], math.degrees(math.atan(2)), abs_tol=1e-6)
