"""What the papers prove: every theorem is computed, drawn, and holds."""

import math

import pytest

from hypersphere_papers.ampface import angle_curves, decision_regions
from hypersphere_papers.laboratory import THEOREMS
from hypersphere_papers.largest_margins import theorems as largest_margins
from hypersphere_papers.largest_margins.mathematics import Solution

SHORT = {"caps": 0, "curves": 0, "termination": 0, "normface": 4, "sphereface": 10, "sphereface2": 5}
"""Those that take a second or so, and how many statements of theirs are judged."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SHORT else pytest.mark.slow) for name in THEOREMS]
)
def test_every_theorem_is_computed_drawn_and_holds(name: str) -> None:
    outcome = THEOREMS[name].compute()
    assert outcome.findings
    assert all(finding.verdict in (None, "held") for finding in outcome.findings)
    if name in SHORT:
        assert sum(finding.verdict == "held" for finding in outcome.findings) == SHORT[name]
    for draw in outcome.figures.values():
        assert draw().axes


def test_a_statement_that_fails_is_contradicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypersphere_papers.normface.theorems.check_agents", lambda: (1.5, 0.1))
    verdicts = {finding.what: finding.verdict for finding in THEOREMS["normface"].compute().findings}
    assert verdicts["Prop. 3: largest distortion / bound"] == "contradicted"
    assert verdicts["Prop. 1: least gain of P_i by scaling, no bias"] == "held"


def test_the_nearest_angle_is_shown_beside_the_papers() -> None:
    first = THEOREMS["nearest"].compute().findings[0]
    assert (first.ours, first.paper, first.note) == ("79.00", "78.64", "not reproduced")


def test_a_packing_below_the_best_known_is_shown_and_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    known = largest_margins.BEST_KNOWN  # type: ignore[attr-defined]
    monkeypatch.setattr(largest_margins, "packing_degrees", lambda count: known[count] - 0.01 * (count == 19))
    verdicts = [finding.verdict for finding in THEOREMS["tammes"].compute().findings]
    assert verdicts == [None if count == 19 else "held" for count in known]


@pytest.mark.parametrize(("margin", "near"), [(109.471, True), (109.3, False)])
def test_near_is_near_in_both_margins(margin: float, near: bool) -> None:
    found = {"value": 0.0, "prototypes": None, "features": None, "class_margin_degrees": margin}
    assert largest_margins._near(Solution(**found, sample_margin=4 / 3)) is near  # type: ignore[arg-type]
    assert not largest_margins._near(Solution(**found, sample_margin=1.3))  # type: ignore[arg-type]


def test_a_margin_that_never_ends_has_no_angle() -> None:
    assert math.isnan(angle_curves.termination_degrees("m3", 2.5, "exact"))
    assert angle_curves.termination_degrees("m3", 0.5, "approximation") == pytest.approx(39.3, abs=0.1)


@pytest.mark.slow
def test_a_larger_margin_leaves_less_of_a_class() -> None:
    found = decision_regions.regions()
    none = found.pop("no margin")
    assert none.gap == pytest.approx(0.0, abs=0.02)
    assert all(region.gap > 10 and region.ends < none.ends for region in found.values())
