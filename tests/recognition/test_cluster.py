"""Groups of faces against plain agglomeration, and their quality against plain counts."""

import itertools

import numpy as np
import pytest

from hypersphere.recognition import cluster as module
from hypersphere.recognition import cluster_faces, cluster_quality
from tests.recognition.made_up_people import PERSON, vectors


def plain(unit: np.ndarray, threshold: float, linkage: str) -> set[frozenset[int]]:
    """Merge the closest two groups while they reach the threshold."""
    cosines = unit.astype(np.float64) @ unit.astype(np.float64).T
    groups = [frozenset([k]) for k in range(len(unit))]
    while len(groups) > 1:
        near = {}
        for one, two in itertools.combinations(groups, 2):
            between = cosines[np.ix_(sorted(one), sorted(two))]
            near[one, two] = between.mean() if linkage == "average" else between.max()
        (one, two), best = max(near.items(), key=lambda each: each[1])
        if best < threshold:
            break
        groups = [group for group in groups if group not in (one, two)] + [one | two]
    return set(groups)


@pytest.mark.parametrize("linkage", ["average", "single"])
@pytest.mark.parametrize("threshold", [0.3, 0.6])
def test_groups_are_those_of_plain_agglomeration(
    linkage: str, threshold: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BLOCK", 7)
    unit = vectors()[:45]
    found = cluster_faces(unit, threshold, linkage=linkage)
    assert {frozenset(np.flatnonzero(found == k).tolist()) for k in range(found.max() + 1)} == plain(
        unit, threshold, linkage
    )
    sizes = np.bincount(found)
    assert (np.diff(sizes) <= 0).all()


def test_extreme_thresholds() -> None:
    unit = vectors()[:10]
    assert cluster_faces(unit, -1.0).tolist() == [0] * 10
    assert cluster_faces(unit, 1.0).tolist() == list(range(10))
    assert cluster_faces(unit[:1], 0.5).tolist() == [0]


@pytest.mark.parametrize(("option", "value"), [("threshold", 2.0), ("linkage", "ward")])
def test_bad_options_are_named(option: str, value: object) -> None:
    with pytest.raises(ValueError, match=option):
        cluster_faces(vectors(), **{"threshold": 0.5, option: value})  # type: ignore[arg-type]


def test_quality_against_loops() -> None:
    groups = np.random.default_rng(0).integers(0, 30, len(PERSON))
    found = cluster_quality(groups, PERSON)
    pairs = list(itertools.combinations(range(len(PERSON)), 2))
    together = {pair for pair in pairs if groups[pair[0]] == groups[pair[1]]}
    same = {pair for pair in pairs if PERSON[pair[0]] == PERSON[pair[1]]}
    assert found.pair_precision == pytest.approx(len(together & same) / len(together))
    assert found.pair_recall == pytest.approx(len(together & same) / len(same))
    precision, recall = [], []
    for face in range(len(PERSON)):
        group, own = set(np.flatnonzero(groups == groups[face])), set(np.flatnonzero(PERSON[face] == PERSON))
        precision.append(len(group & own) / len(group))
        recall.append(len(group & own) / len(own))
    assert found.bcubed_precision == pytest.approx(np.mean(precision))
    assert found.bcubed_recall == pytest.approx(np.mean(recall))
    assert (found.groups, found.people) == (len(set(groups.tolist())), 40)
    assert found.pair_f1 == pytest.approx(2 / (1 / found.pair_precision + 1 / found.pair_recall))
    perfect = cluster_quality(PERSON, PERSON)
    assert (perfect.pair_f1, perfect.bcubed_f1) == (1, 1)


def test_copies_of_one_photo_are_one_group() -> None:
    """Their cosine may be rounded to more than 1, which is a negative distance."""
    row = np.full(3, np.float32(0.5773503))
    assert float(row.astype(np.float64) @ row) > 1
    assert cluster_faces(np.stack([row, row, -row]), 0.5).tolist() == [0, 0, 1]
