"""Decision margins, against a plain loop and closed forms."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from hypersphere.geometry import uniform_sphere
from hypersphere.theory import ExpectedSoftmax
from hypersphere_papers.ampface.decision_margins import cap_boundary, decide, equatorial_prototypes

TWO = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], dtype=torch.float64)


@pytest.mark.parametrize("margins", [{}, {"m0": 0.35}, {"m1": 1.85}, {"m2": 0.6}, {"m3": 0.5}], ids=str)
def test_against_a_loop(margins: dict[str, Any]) -> None:
    g = torch.Generator().manual_seed(0)
    cosines = uniform_sphere(200, 3, generator=g) @ uniform_sphere(5, 3, generator=g).T
    m = {"m0": 1.0, "m1": 1.0, "m2": 0.0, "m3": 0.0, **margins}
    wanted = []
    for row in cosines.tolist():
        fits = [
            i
            for i, c in enumerate(row)
            if m["m0"] * math.cos(m["m1"] * math.acos(c) + m["m2"]) - m["m3"] > max(row[:i] + row[i + 1 :])
        ]
        wanted.append(max(fits, key=lambda i: row[i]) if fits else -1)
    assert decide(cosines, ExpectedSoftmax(**margins)).tolist() == wanted
    assert -1 in wanted or not margins


def test_margins_on_the_great_circle_have_closed_forms() -> None:
    """At right angles SphereFace ends at 90/(m+1), ArcFace at (90 - m2)/2, CosFace where cos - sin = m3."""
    for margins, edge in (
        ({"m1": 3.0}, math.pi / 8),
        ({"m2": 0.6}, (math.pi / 2 - 0.6) / 2),
        ({"m3": 0.5}, math.acos(0.5 / math.sqrt(2)) - math.pi / 4),
        ({"m0": 0.35}, math.atan(0.35)),
    ):
        found = cap_boundary(TWO, ExpectedSoftmax(**margins), directions=1, steps=20_001)  # type: ignore[arg-type]
        assert found[0] == pytest.approx(edge, abs=2e-4)


def test_many_prototypes_leave_a_cap() -> None:
    nearest = math.radians(79)
    prototypes = equatorial_prototypes(200, nearest)
    polar = prototypes[1:, 2].arccos()
    assert polar.min() >= nearest
    assert polar.max() <= math.pi - nearest
    assert prototypes.norm(dim=1).tolist() == pytest.approx([1.0] * 201)
    for margins in ({}, {"m2": 0.6}, {"m3": 0.5}):
        edge = np.degrees(cap_boundary(prototypes, ExpectedSoftmax(**margins), directions=36, steps=451))  # type: ignore[arg-type]
        assert edge.std() < 2


def test_one_class_is_refused() -> None:
    with pytest.raises(ValueError, match="2 classes or more"):
        decide(torch.ones(3, 1), ExpectedSoftmax())
