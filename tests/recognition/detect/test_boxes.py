"""Boxes against plain loops in float64."""

import numpy as np
import pytest

from hypersphere.recognition.detect.boxes import Overlap, keep_best, regressed, squared


def plainly_kept(boxes: np.ndarray, scores: np.ndarray, limit: float, relative_to: str) -> list[int]:
    kept: list[int] = []
    for k in sorted(range(len(boxes)), key=lambda k: (-scores[k], k)):
        a = boxes[k]
        for other in kept:
            b = boxes[other]
            width, height = (min(a[i + 2], b[i + 2]) - max(a[i], b[i]) for i in (0, 1))
            both = max(width, 0) * max(height, 0)
            areas = [(c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)]
            if both > limit * (sum(areas) - both if relative_to == "union" else min(areas)):
                break
        else:
            kept.append(k)
    return kept


@pytest.mark.parametrize("relative_to", ["union", "smaller"])
@pytest.mark.parametrize("limit", [0.3, 0.7])
def test_suppression_keeps_what_a_plain_loop_keeps(relative_to: Overlap, limit: float) -> None:
    random = np.random.default_rng(1)
    corner = random.uniform(0, 60, (80, 2))
    boxes = np.concatenate([corner, corner + random.uniform(5, 60, (80, 2))], 1).astype(np.float32)
    scores = (random.integers(0, 20, 80) / 20).astype(np.float32)  # with ties
    kept = keep_best(boxes, scores, limit, relative_to=relative_to)
    assert kept.tolist() == plainly_kept(boxes.astype(np.float64), scores, limit, relative_to)
    assert 1 < len(kept) < 80


def test_suppression_of_nothing() -> None:
    assert keep_best(np.empty((0, 4), np.float32), np.empty(0, np.float32), 0.5).tolist() == []


def test_regression_moves_edges_by_shares_of_the_sides() -> None:
    boxes = np.array([[10, 20, 30, 60]], np.float32)
    assert regressed(boxes, np.array([[0.5, -0.25, 0.1, 1]], np.float32)).tolist() == [[20, 10, 32, 100]]


def test_squares_have_the_centre_and_the_longer_side() -> None:
    assert squared(np.array([[0, 0, 10, 30], [0, 0, 8, 2]], np.float32)).tolist() == [[-10, 0, 20, 30], [0, -3, 8, 5]]
