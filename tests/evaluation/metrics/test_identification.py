"""Search, CMC and open-set rates against plain loops; whole numbers make products exact and ties many."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersphere.evaluation import (
    Estimate,
    Matches,
    NotMeasurable,
    OperatingPoint,
    cmc,
    mate_ranks,
    mated,
    open_set_rate,
    open_set_roc,
    ranks_among,
    search_gallery,
)


def vectors(seed: int, count: int, dim: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).integers(-2, 3, (count, dim)).astype(np.float32)


def ordered(scores: np.ndarray) -> list[int]:
    return sorted(range(len(scores)), key=lambda j: (-scores[j], j))


@settings(deadline=None)
@given(st.integers(0, 999), st.integers(1, 9), st.integers(1, 30), st.integers(1, 12), st.data())
def test_search_against_a_full_sort(seed: int, probes: int, entries: int, block: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, entries))
    left, right = vectors(seed, probes), vectors(seed + 1, entries)
    calls: list[tuple[int, int]] = []
    found = search_gallery(left, right, k, block=block, progress=lambda done, total: calls.append((done, total)))
    for probe in range(probes):
        scores = right @ left[probe]
        assert found.indices[probe].tolist() == ordered(scores)[:k]
        assert found.scores[probe].tolist() == scores[ordered(scores)[:k]].tolist()
    assert calls[-1][0] == calls[-1][1] == -(-entries // block)


def test_probes_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = vectors(0, 11), vectors(1, 50)
    expected = search_gallery(left, right, 4)
    monkeypatch.setattr("hypersphere.evaluation.metrics.search._PROBES", 3)
    found = search_gallery(left, right, 4, block=7)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_euclidean_distance_as_a_product() -> None:
    left, right = vectors(3, 6), vectors(4, 20)
    distances = ((left[:, None] - right) ** 2).sum(axis=-1)
    extended = np.hstack([2 * left, -np.ones((6, 1))]), np.hstack([right, (right**2).sum(1, keepdims=True)])
    found = search_gallery(*extended, 20)
    for probe in range(6):
        assert found.indices[probe].tolist() == ordered(-distances[probe])


@settings(deadline=None)
@given(st.integers(0, 999), st.integers(1, 4))
def test_ranks_and_open_set_against_loops(seed: int, rank: int) -> None:
    generator = np.random.default_rng(seed)
    left, right = vectors(seed, 25), vectors(seed + 1, 12)
    people, enrolled = generator.integers(0, 12, 25), generator.integers(0, 8, 12)
    matches = search_gallery(left, right, 5)
    ranks = mate_ranks(matches, people, enrolled)
    known, tops, expected = [], [], []
    for probe in range(25):
        scores = right @ left[probe]
        order = ordered(scores)
        places = [place for place, j in enumerate(order, 1) if enrolled[j] == people[probe]]
        expected.append(places[0] if places and places[0] <= 5 else 0)
        if people[probe] in enrolled:
            hit = bool(places) and places[0] <= rank
            known.append(scores[order[places[0] - 1]] if hit else None)
        else:
            tops.append(scores[order[0]])
    assert ranks.tolist() == expected
    estimates = cmc(ranks[mated(people, enrolled)], (1, 3, 5)) if known else {}
    for r, estimate in estimates.items():
        hits = [0 < place <= r for place, p in zip(expected, people, strict=True) if p in enrolled]
        assert estimate.value == sum(hits) / len(hits)
    if not known or not tops:
        with pytest.raises(ValueError, match="people who are enrolled and people who are not"):
            open_set_roc(matches, people, enrolled, rank)
        return
    roc = open_set_roc(matches, people, enrolled, rank)
    for fpir in (0.0, 0.1, 0.25, 0.5, 1.0):
        best = 0.0
        for threshold in {*tops, *(k for k in known if k is not None)}:
            if sum(top >= threshold for top in tops) / len(tops) <= fpir:
                best = max(best, sum(k is not None and k >= threshold for k in known) / len(known))
        assert roc.tar_at(fpir) == best


def test_an_open_set_by_hand() -> None:
    scores = np.array([[0.9, 0.2], [0.7, 0.6], [0.5, 0.4], [0.8, 0.1], [0.3, 0.2], [0.2, 0.1]], dtype=np.float32)
    indices = np.array([[0, 1], [1, 0], [0, 1], [0, 1], [1, 0], [0, 1]])
    matches, people, enrolled = Matches(indices, scores), [10, 10, 10, 99, 98, 97], [10, 11]
    first, second = open_set_roc(matches, people, enrolled), open_set_roc(matches, people, enrolled, rank=2)
    assert first.tar_at(0.0) == pytest.approx(1 / 3)
    assert first.tar_at(1 / 3) == pytest.approx(2 / 3)
    assert second.tar_at(1 / 3) == 1
    assert first.tar_at(1.0) == pytest.approx(2 / 3)
    assert first.operating_point(0.1) == NotMeasurable(3, 30)
    assert isinstance(first.operating_point(1.0), OperatingPoint)
    with pytest.raises(ValueError, match="open-set"):
        first.auc()


def test_the_open_set_interval_draws_people() -> None:
    generator = np.random.default_rng(0)
    people = np.repeat(np.arange(60), 5)
    gallery = generator.normal(size=(30, 8))
    likeness = np.where(people < 30, generator.random(60)[people] * 2, 0)
    probes = likeness[:, None] * gallery[people % 30] + generator.normal(size=(300, 8))
    matches = search_gallery(probes, gallery, 3)
    point = open_set_roc(matches, people, np.arange(30)).operating_point(0.1)
    assert isinstance(point, OperatingPoint)
    estimate = open_set_rate(matches, people, np.arange(30), 0.1, replicates=200)
    assert isinstance(estimate, Estimate)
    assert (estimate.value, estimate.n) == (point.tar.value, 150)
    assert estimate.low < estimate.value < estimate.high
    assert estimate.high - estimate.low > point.tar.high - point.tar.low
    assert open_set_rate(matches, people, np.arange(30), 0.01) == NotMeasurable(150, 300)
    with pytest.raises(ValueError, match="must be below 1"):
        open_set_rate(matches, people, np.arange(30), 1.0)


def test_nobody_found() -> None:
    matches = Matches(np.array([[1], [1]]), np.array([[0.5], [0.4]], dtype=np.float32))
    roc = open_set_roc(matches, [10, 99], [10, 11])
    assert roc.tar_at(1.0) == 0


def test_a_mate_among_distractors_loses_ties() -> None:
    distractors = Matches(np.array([[0, 1, 2]] * 4), np.array([[0.9, 0.5, 0.5]] * 4, dtype=np.float32))
    assert ranks_among([0.95, 0.6, 0.5, 0.1], distractors).tolist() == [1, 2, 4, 4]


def test_cmc_with_subjects_and_bad_input() -> None:
    estimate = cmc([1, 2, 0, 1], (1, 2), subjects=[5, 5, 6, 7])
    assert (estimate[1].value, estimate[2].value) == (0.5, 0.75)
    assert estimate[1].interval == "bootstrap over subjects"
    with pytest.raises(ValueError, match="at least one rank"):
        cmc([])
    with pytest.raises(ValueError, match="k=3"):
        search_gallery(np.ones((1, 2)), np.ones((2, 2)), 3)
    with pytest.raises(ValueError, match="gallery has dimension 3; it must be 2"):
        search_gallery(np.ones((1, 2)), np.ones((2, 3)), 1)
    with pytest.raises(ValueError, match="gallery row 1 is not finite"):
        search_gallery(np.ones((1, 1)), np.array([[1.0], [np.nan]]), 1)
    with pytest.raises(ValueError, match="rank=2"):
        open_set_roc(Matches(np.array([[0]]), np.array([[0.5]], dtype=np.float32)), [1], [1], rank=2)
    with pytest.raises(ValueError, match="gallery_ids has shape"):
        mate_ranks(Matches(np.array([[3]]), np.array([[0.5]], dtype=np.float32)), [1], [1])
