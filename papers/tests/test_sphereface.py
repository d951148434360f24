"""SphereFace's properties: the grid on the circle, the paper's inequalities and its two bounds agree."""

import math
from pathlib import Path

import numpy as np
import pytest

from hypersphere.training import load_recipe
from hypersphere_papers.sphereface.mathematics import (
    BINARY_BOUND,
    MULTI_CLASS_BOUND,
    angular_margin,
    constraint,
    least_margin,
    spread_and_gap,
)


@pytest.mark.parametrize("margin", [2.0, 3.0, 4.0, 5.5])
@pytest.mark.parametrize("between", [0.3, 1.0, 2.0, 2.9, math.pi])
def test_the_inequalities_are_the_measured_arcs(margin: float, between: float) -> None:
    """Eqs. 8 and 9, both cases, against the regions themselves."""
    spread, gap = spread_and_gap(margin, [0.0, between])
    inside, outside = constraint(margin, between)
    assert spread == pytest.approx(inside, abs=2e-4)
    behind = 2 * math.pi - between - 2 * (inside - between / (margin + 1))
    assert gap == pytest.approx(min(outside, behind), abs=2e-4)


def test_the_bound_of_property_2_solves_equation_8() -> None:
    for between in (0.2, 1.0, 2.2):
        inside, outside = constraint(BINARY_BOUND, between)
        assert inside == pytest.approx(outside, rel=1e-12)
        inside, outside = constraint(BINARY_BOUND - 0.1, between)
        assert inside > outside
        inside, outside = constraint(BINARY_BOUND + 0.1, between)
        assert inside < outside


@pytest.mark.parametrize("between", [0.3, 1.3, 2.2])
def test_property_2_on_the_circle(between: float) -> None:
    assert least_margin([0.0, between], points=40_001) == pytest.approx(BINARY_BOUND, abs=0.01)


@pytest.mark.parametrize("count", [3, 4, 8])
def test_property_3_on_the_circle(count: int) -> None:
    prototypes = 2 * math.pi * np.arange(count) / count
    assert least_margin(prototypes, points=40_001) == pytest.approx(MULTI_CLASS_BOUND, abs=0.01)


def test_opposite_classes_need_less() -> None:
    assert least_margin([0.0, math.pi], points=40_001) == pytest.approx(3.0, abs=0.01)


def test_larger_m_larger_margin() -> None:
    margins = [angular_margin(m, 1.0) for m in (1, 2, 3, 4)]
    assert margins == pytest.approx([0, 1 / 3, 1 / 2, 3 / 5])


RECIPES = Path(__file__).parents[1] / "recipes"


@pytest.mark.parametrize("path", sorted(RECIPES.glob("sphereface-casia-*.toml")), ids=lambda path: path.stem)
def test_recipes_put_an_image_and_its_mirror_image_side_by_side(path: Path) -> None:
    """Sec. 4.1: "concatenating its original face features and its horizontally flipped features"."""
    validation = load_recipe(path, []).data.validation
    assert (validation.flip, validation.flip_merge) == (True, "concat")


def test_the_contrastive_loss_is_of_embeddings_as_they_are_and_the_triplet_loss_is_alone() -> None:
    """Sec. 3.5: "Euclidean margin to the learned features (w/o normalization)"; Table 4 has a row "Triplet Loss"."""
    contrastive = load_recipe(RECIPES / "sphereface-casia-contrastive.toml", []).head["add"]["contrastive"]
    assert contrastive["distance"] == "euclidean"
    triplet = load_recipe(RECIPES / "sphereface-casia-triplet.toml", [])
    assert (triplet.head["name"], triplet.head.get("add"), triplet.train.images_per_identity) == ("triplet", None, 4)
