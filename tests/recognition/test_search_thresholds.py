"""Thresholds of searches against plain loops over the same random galleries."""

import numpy as np
import pytest

from hypersphere.recognition.search_thresholds import calibrate_searches, gallery_sizes
from tests.recognition.made_up_people import PERSON, vectors

GALLERIES, REPLICATES = 4, 30


def galleries(size: int) -> list[tuple[list[int], list[int]]]:
    """People and enrolled images of each gallery, drawn as the library draws them."""
    generator = np.random.default_rng([0, size])
    drawn = []
    for _ in range(GALLERIES):
        people = generator.permutation(40)[: size + 1]
        own = [np.flatnonzero(p == PERSON) for p in people]
        firsts = np.array([np.searchsorted(PERSON, p) for p in people])
        entries = generator.integers(firsts, firsts + [len(images) for images in own])
        drawn.append((people.tolist(), entries.tolist()))
    return drawn


@pytest.mark.parametrize("size", [10, 39])
def test_against_plain_loops(size: int) -> None:
    unit = vectors()
    wide = unit.astype(np.float64)
    strangers, mates = [], []
    for people, entries in galleries(size):
        for image, person in enumerate(PERSON.tolist()):
            rivals = [e for p, e in zip(people, entries, strict=True) if p != person]
            others = rivals if person in people else rivals[:-1]
            assert len(others) == size
            strangers.append(max(wide[image] @ wide[e] for e in others))
            if person not in people or image in entries:
                continue
            mate = wide[image] @ wide[entries[people.index(person)]]
            left_out = entries[0] if people[-1] == person else entries[-1]
            best = max(wide[image] @ wide[e] for e in rivals if e != left_out)
            mates.append(mate if mate > best else -np.inf)
    rows = {row.fpir: row for row in calibrate_searches(unit, PERSON, galleries=GALLERIES, replicates=REPLICATES)
            if row.gallery_size == size}  # fmt: skip
    assert set(rows) == {rate for rate in (0.1, 0.01) if len(PERSON) * rate >= 3}
    for fpir, row in rows.items():
        taken = int(fpir * len(strangers))
        cut = sorted(strangers)[::-1][taken]
        assert row.threshold == pytest.approx(cut, abs=1e-6)
        assert sum(score > cut + 1e-9 for score in strangers) <= taken
        assert row.fnir == pytest.approx(np.mean([mate <= cut for mate in mates]), abs=1e-12)
        assert row.fpir_low <= taken / len(strangers) <= row.fpir_high
        assert row.fnir_low is not None
        assert row.fnir is not None
        assert row.fnir_high is not None
        assert row.fnir_low <= row.fnir <= row.fnir_high
        assert (row.searches, row.extrapolated) == (len(PERSON), False)
        assert row.indicative == (len(PERSON) * fpir < 30)


def test_a_larger_gallery_needs_a_higher_threshold() -> None:
    rows = [row for row in calibrate_searches(vectors(), PERSON, galleries=8, replicates=10) if row.fpir == 0.1]
    assert [row.gallery_size for row in rows] == [10, 20, 39]
    assert sorted(row.threshold for row in rows) == [row.threshold for row in rows]


def test_the_sizes_that_can_be_measured() -> None:
    assert gallery_sizes(500) == [10, 20, 50, 100, 200, 499]
    assert gallery_sizes(4) == [3]


def test_images_that_are_all_equal_reach_no_threshold() -> None:
    unit = np.zeros((40, 2), np.float32)
    unit[:, 0] = 1
    rows = calibrate_searches(unit, np.arange(40), galleries=2, replicates=5)
    above = float(np.nextafter(np.float32(1), np.float32(2)))
    assert [(row.fpir, row.threshold, row.fpir_low) for row in rows] == [(0.1, above, 0.0)] * 3
    assert {row.fnir for row in rows} == {None}  # nobody has a second image


def test_few_people_measure_nothing() -> None:
    assert calibrate_searches(vectors()[:2], np.array([0, 1]), galleries=2, replicates=5) == []
