"""Re-identification against plain loops and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from hypersphere.evaluation import average_precision, retrieve


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 999), st.sampled_from(["step", "trapezoid"]))
def test_against_loops(seed: int, area: str) -> None:
    generator = np.random.default_rng(seed)
    queries, gallery = (generator.integers(-2, 3, (n, 3)).astype(np.float32) for n in (10, 40))
    people, known = generator.integers(1, 6, 10), generator.integers(-1, 5, 40)
    cameras, seen = generator.integers(0, 3, 10), generator.integers(0, 3, 40)
    precisions, firsts = [], []
    for query in range(10):
        scores = gallery @ queries[query]
        place, hits, total, first, old = 0, 0, 0.0, 0, 1.0
        for j in sorted(range(40), key=lambda j: (-scores[j], j)):
            if known[j] == -1 or (known[j] == people[query] and seen[j] == cameras[query]):
                continue
            place += 1
            mate = known[j] == people[query]
            hits += mate
            if mate:
                first = first or place
                total += hits / place if area == "step" else (old + hits / place) / 2
            old = hits / place
        precisions.append(total / hits if hits else np.nan)
        firsts.append(first)
    if not any(firsts):
        with pytest.raises(ValueError, match="no query has a mate"):
            retrieve(queries, gallery, people, known, cameras, seen, area=area)
        return
    result = retrieve(queries, gallery, people, known, cameras, seen, area=area)
    np.testing.assert_allclose(result.average_precisions, precisions)
    assert result.first_ranks.tolist() == firsts
    assert result.without_mate == firsts.count(0)
    assert result.mean_ap.value == pytest.approx(np.nanmean(precisions))
    answered = [first for first in firsts if first]
    assert result.cmc[5].value == pytest.approx(sum(first <= 5 for first in answered) / len(answered))


def test_average_precision_is_scikit_learns() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        scores, mates = generator.random(30), generator.random(30) < 0.3
        if mates.any():
            ranks = np.flatnonzero(mates[np.argsort(-scores)]) + 1
            assert average_precision(ranks) == pytest.approx(metrics.average_precision_score(mates, scores))


def test_by_hand() -> None:
    assert average_precision(np.array([1, 3])) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision(np.array([2]), "trapezoid") == pytest.approx(1 / 4)


def test_bad_input() -> None:
    one = np.ones((1, 2))
    with pytest.raises(ValueError, match="query_ids holds -1"):
        retrieve(one, one, [-1], [1], [0], [1])
    with pytest.raises(ValueError, match="area='round' is unknown"):
        retrieve(one, one, [1], [1], [0], [1], area="round")
    with pytest.raises(ValueError, match="gallery_cameras has shape"):
        retrieve(one, one, [1], [1], [0], [1, 2])
