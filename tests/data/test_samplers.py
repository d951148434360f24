"""Samplers: nothing twice, nothing lost, and the same after a restart and on any number of ranks."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersphere.data.samplers import ClassBalancedBatches, IdentityBatches, ShuffledBatches

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(-1, 12), np.arange(3, 16)))
MAKERS: dict[str, Callable[..., Any]] = {
    "shuffled": lambda **options: ShuffledBatches(101, 12, **{"seed": 5, **options}),
    "uneven": lambda **options: ShuffledBatches(101, 12, drop_last=False, **{"seed": 5, **options}),
    "balanced": lambda **options: ClassBalancedBatches(LABELS, 12, **{"seed": 5, **options}),
    "identity": lambda **options: IdentityBatches(LABELS, 6, 2, **{"seed": 5, **options}),
}
every = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def take(batches: Any, count: int) -> list[list[int]]:
    return [batch.tolist() for batch in itertools.islice(batches, count)]


@every
def test_the_order_follows_from_the_seed_and_changes_by_epoch(make: Callable[..., Any]) -> None:
    batches = make()
    first = take(batches, batches.batches_per_epoch)
    assert (batches.epoch, batches.position) == (1, 0)
    second = take(batches, batches.batches_per_epoch)
    again = make()
    assert take(again, again.batches_per_epoch) == first
    assert second != first
    assert take(make(seed=6), again.batches_per_epoch) != first


@every
def test_batches_are_int64_arrays_that_may_be_changed(make: Callable[..., Any]) -> None:
    batches, twin = make(), make()
    batch = batches.next_batch()
    assert batch.dtype == np.int64
    batch[:] = 0
    twin.next_batch()
    assert np.array_equal(batches.next_batch(), twin.next_batch())


@every
@pytest.mark.parametrize("steps", [0, 1, 5, 40])
def test_resuming_anywhere_is_never_having_stopped(make: Callable[..., Any], steps: int) -> None:
    batches = make()
    take(batches, steps)
    state = json.loads(json.dumps(batches.state_dict()))
    rest = take(batches, 2 * batches.batches_per_epoch)
    resumed = make()
    take(resumed, 3)
    assert take(resumed.load_state_dict(state), len(rest)) == rest


@every
@pytest.mark.parametrize("world_size", [2, 3, 6])
def test_ranks_share_the_batch_of_one_process(make: Callable[..., Any], world_size: int) -> None:
    alone = make()
    ranks = [make(rank=rank, world_size=world_size) for rank in range(world_size)]
    for _ in range(2 * alone.batches_per_epoch):
        parts = [rank.next_batch() for rank in ranks]
        whole = alone.next_batch()
        assert np.array_equal(np.concatenate(parts), whole)
        assert max(map(len, parts)) - min(map(len, parts)) <= (len(whole) % world_size > 0)
    assert all(rank.state_dict() == alone.state_dict() for rank in ranks)


def test_a_run_may_resume_on_another_number_of_ranks() -> None:
    alone = MAKERS["shuffled"]()
    take(alone, 3)
    halves = [MAKERS["shuffled"](rank=rank, world_size=2).load_state_dict(alone.state_dict()) for rank in (0, 1)]
    assert np.array_equal(np.concatenate([half.next_batch() for half in halves]), alone.next_batch())


@given(
    num_samples=st.integers(1, 200),
    each=st.integers(1, 20),
    world_size=st.integers(1, 5),
    drop_last=st.booleans(),
    seed=st.integers(0, 2**40),
)
@settings(deadline=None)
def test_shuffled_sees_every_sample_at_most_once(
    num_samples: int, each: int, world_size: int, drop_last: bool, seed: int
) -> None:
    size = each * world_size
    if drop_last and size > num_samples:
        return
    ranks = [
        ShuffledBatches(num_samples, size, seed, rank=rank, world_size=world_size, drop_last=drop_last)
        for rank in range(world_size)
    ]
    seen = np.concatenate([rank.next_batch() for _ in range(ranks[0].batches_per_epoch) for rank in ranks])
    assert len(np.unique(seen)) == len(seen)
    assert len(seen) == (num_samples // size * size if drop_last else num_samples)
    assert seen.min() >= 0
    assert seen.max() < num_samples
    assert ranks[0].epoch == 1


def test_classes_are_balanced_whatever_their_size() -> None:
    labels = np.repeat([0, 1, 2, -1], [100, 10, 2, 20])
    batches = ClassBalancedBatches(labels, 12, seed=0)
    assert batches.batches_per_epoch == 112 // 12
    drawn = np.concatenate(take(batches, batches.batches_per_epoch))
    assert np.bincount(labels[drawn], minlength=3).tolist() == [36, 36, 36]
    times = np.bincount(drawn, minlength=132)
    assert set(times[:100]) == {0, 1}
    assert set(times[100:110]) <= {3, 4}
    assert times[110:112].tolist() == [18, 18]
    assert not times[112:].any()


def test_every_round_of_classes_is_shuffled() -> None:
    labels = np.repeat(np.arange(8), 8)
    rounds = labels[np.array(take(ClassBalancedBatches(labels, 8, seed=1), 8))]
    assert (np.sort(rounds, axis=1) == np.arange(8)).all()
    assert len({tuple(each) for each in rounds}) == 8


@given(
    counts=st.lists(st.integers(0, 25), min_size=2, max_size=15),
    wide=st.integers(1, 4),
    deep=st.integers(1, 5),
    world_size=st.integers(1, 2),
    seed=st.integers(0, 1000),
)
@settings(deadline=None)
def test_identity_batches_hold_p_times_k(counts: list[int], wide: int, deep: int, world_size: int, seed: int) -> None:
    wide *= world_size
    if np.count_nonzero(counts) < wide:
        return
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    ranks = [IdentityBatches(labels, wide, deep, seed, rank=rank, world_size=world_size) for rank in range(world_size)]
    times = np.zeros(len(labels), int)
    for _ in range(ranks[0].batches_per_epoch):
        parts = [rank.next_batch() for rank in ranks]
        assert {len(part) for part in parts} == {wide * deep // world_size}
        groups = np.concatenate(parts).reshape(wide, deep)
        assert (labels[groups] == labels[groups[:, :1]]).all()
        assert len(set(labels[groups[:, 0]])) == wide
        np.add.at(times, groups, 1)
    few = np.array(counts)[labels] < deep
    assert times[~few].max(initial=0) <= 1
    assert times[few].max(initial=0) <= deep
    assert ranks[0].epoch == 1


def test_an_epoch_of_identities_uses_all_it_can() -> None:
    batches = IdentityBatches(np.repeat(np.arange(8), 12), 4, 3, seed=0)
    assert batches.batches_per_epoch == 8
    assert len(np.unique(np.concatenate(take(batches, 8)))) == 96
    giant = IdentityBatches(np.repeat(np.arange(3), [1000, 8, 8]), 2, 4, seed=0)
    assert giant.batches_per_epoch == 4


def test_identities_meet_different_company() -> None:
    labels = np.repeat(np.arange(20), 4)
    batches = IdentityBatches(labels, 2, 4, seed=0)
    together = {tuple(sorted(set(labels[batch].tolist()))) for batch in itertools.islice(batches, 300)}
    assert len(together) > 120


@every
def test_another_setting_is_refused(make: Callable[..., Any]) -> None:
    state = make().state_dict()
    for name in set(state) - {"epoch", "position"}:
        with pytest.raises(ValueError, match=name):
            make().load_state_dict({**state, name: state[name] + 1})
    with pytest.raises(ValueError, match="position=1000"):
        make().load_state_dict({**state, "position": 1000})
    with pytest.raises(ValueError, match="epoch=-1"):
        make().load_state_dict({**state, "epoch": -1})
    with pytest.raises(ValueError, match="sampler state has"):
        make().load_state_dict({"epoch": 0})


def test_changed_labels_are_refused() -> None:
    state = IdentityBatches(LABELS, 6, 2, seed=5).state_dict()
    with pytest.raises(ValueError, match="labels"):
        IdentityBatches(LABELS[::-1].copy(), 6, 2, seed=5).load_state_dict(state)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ShuffledBatches(0, 1, 0), "num_samples=0"),
        (lambda: ShuffledBatches(10, 0, 0), "batch_size=0"),
        (lambda: ShuffledBatches(10, 11, 0), "batch_size=11 is more than num_samples=10"),
        (lambda: ShuffledBatches(10, 4, -1), "seed=-1"),
        (lambda: ShuffledBatches(10, 4, 0, rank=2, world_size=2), "rank=2 must be below world_size=2"),
        (lambda: ShuffledBatches(10, 5, 0, world_size=2), "batch_size=5 must be a multiple of world_size=2"),
        (lambda: ShuffledBatches(10, 2.5, 0), "batch_size=2.5 must be an integer"),  # type: ignore[arg-type]
        (lambda: ClassBalancedBatches([-1, -1], 1, 0), "labels are all -1"),
        (lambda: ClassBalancedBatches([0, 1, -1], 3, 0), "batch_size=3 is more than the 2 labelled"),
        (lambda: ClassBalancedBatches([0, -2], 1, 0), "label -2"),
        (lambda: IdentityBatches([0, 0, 1], 3, 1, 0), "identities_per_batch=3, but there are only 2"),
        (lambda: IdentityBatches([0, 0, 1], 2, 0, 0), "images_per_identity=0"),
        (lambda: IdentityBatches([0, 1, 2], 3, 1, 0, world_size=2), "identities_per_batch=3 must be a multiple"),
    ],
)
def test_bad_settings(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
