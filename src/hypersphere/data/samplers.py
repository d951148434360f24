"""Which images make the next batch.

A sampler is endless: `next_batch()` gives the indices of this rank's part of the next batch, epoch after epoch. The
order of an epoch follows from (seed, epoch) alone, so a sampler's state is its place in it, and is the same on every
rank. Batch sizes are global: the ranks' parts of a batch are disjoint, and together they are the batch that a single
process would see.
"""

from __future__ import annotations

import threading
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Self

import numpy as np

from hypersphere.core import check_integer
from hypersphere.data.corrupt import Integers, IntegersLike, check_labels


class _Batches(ABC):
    """What the samplers share: the place in the epoch, the part of a rank, and the state."""

    batches_per_epoch: int

    def __init__(self, seed: int, rank: int, world_size: int) -> None:
        check_integer("seed", seed, 0)
        check_integer("world_size", world_size, 1)
        check_integer("rank", rank, 0)
        if rank >= world_size:
            raise ValueError(f"rank={rank} must be below world_size={world_size}")
        self.seed, self.rank, self.world_size = seed, rank, world_size
        self.epoch = 0
        self.position = 0
        self._ordered: dict[int, Integers] = {}
        self._lock = threading.Lock()

    @abstractmethod
    def settings(self) -> dict[str, int]:
        """What the order depends on, besides the epoch."""

    @abstractmethod
    def _order(self, rng: np.random.Generator) -> Integers:
        """The indices of an epoch."""

    @abstractmethod
    def _bounds(self, position: int) -> tuple[int, int]:
        """Where a batch lies in the epoch's order."""

    def next_batch(self) -> Integers:
        """The indices of this rank's part of the next batch."""
        step = self.epoch * self.batches_per_epoch + self.position
        self.go_to(step + 1)
        return self.batch_at(step)

    def go_to(self, step: int) -> None:
        """Make the batch of a step, counted from the first of epoch 0, the next one."""
        self.epoch, self.position = divmod(step, self.batches_per_epoch)

    def batch_at(self, step: int) -> Integers:
        """The indices of this rank's part of any batch; the place in the epoch stays. Threads may call it."""
        epoch, position = divmod(step, self.batches_per_epoch)
        with self._lock:
            if epoch not in self._ordered:
                self._ordered = {at: order for at, order in self._ordered.items() if abs(at - epoch) == 1}
                self._ordered[epoch] = self._order(np.random.default_rng([self.seed, epoch]))
            order = self._ordered[epoch]
        start, end = self._bounds(position)
        count = end - start
        part = slice(start + count * self.rank // self.world_size, start + count * (self.rank + 1) // self.world_size)
        return order[part].copy()

    def __iter__(self) -> Iterator[Integers]:
        """Batch after batch, without end."""
        while True:
            yield self.next_batch()

    def state_dict(self) -> dict[str, int]:
        """The place in the epoch and the settings: plain integers, the same on every rank and for any world size."""
        state = {"epoch": self.epoch, "position": self.position, **self.settings()}
        return {name: int(value) for name, value in state.items()}

    def load_state_dict(self, state: Mapping[str, int]) -> Self:
        """Continue where `state` was taken; the settings must be the same."""
        own = self.state_dict()
        if set(state) != set(own):
            raise ValueError(f"sampler state has {sorted(state)}; {type(self).__name__} has {sorted(own)}")
        for name, value in self.settings().items():
            if state[name] != value:
                raise ValueError(f"sampler state was taken with {name}={state[name]}, but this sampler has {value}")
        check_integer("epoch", state["epoch"], 0)
        check_integer("position", state["position"], 0)
        if state["position"] >= self.batches_per_epoch:
            raise ValueError(f"position={state['position']} must be below the {self.batches_per_epoch} of an epoch")
        self.epoch, self.position = state["epoch"], state["position"]
        return self


class ShuffledBatches(_Batches):
    """Every image once an epoch, in random order.

    Args:
        num_samples: number of images; those labelled -1 count like any other.
        batch_size: of all ranks together; a multiple of `world_size`.
        seed: of the order.
        rank, world_size: this process and the number of processes.
        drop_last: leave the last, smaller batch out. Otherwise it is split as evenly as it can be, without repeats, and
            a rank's part may be smaller than another's, or empty.

    Example:
        >>> batches = ShuffledBatches(len(source), 256, seed=0)
        >>> images = source.batch(batches.next_batch())
    """

    def __init__(
        self,
        num_samples: int,
        batch_size: int,
        seed: int,
        *,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = True,
    ) -> None:
        super().__init__(seed, rank, world_size)
        check_integer("num_samples", num_samples, 1)
        _check_split("batch_size", batch_size, world_size)
        self.num_samples, self.batch_size, self.drop_last = num_samples, batch_size, bool(drop_last)
        if drop_last and num_samples < batch_size:
            raise ValueError(f"batch_size={batch_size} is more than num_samples={num_samples}: drop_last leaves none")
        self.batches_per_epoch = num_samples // batch_size if drop_last else -(-num_samples // batch_size)

    def settings(self) -> dict[str, int]:
        return {
            "seed": self.seed,
            "num_samples": self.num_samples,
            "batch_size": self.batch_size,
            "drop_last": int(self.drop_last),
        }

    def _order(self, rng: np.random.Generator) -> Integers:
        return rng.permutation(self.num_samples)

    def _bounds(self, position: int) -> tuple[int, int]:
        return position * self.batch_size, min((position + 1) * self.batch_size, self.num_samples)


class ClassBalancedBatches(_Batches):
    """Every class equally often, whatever its number of images (the second stage of cRT).

    The classes come round after round, each round in random order; a class hands out its images in random order and
    starts again when all have been used. An epoch is as long as the number of labelled images allows whole batches.

    Args:
        labels: (N,); images labelled -1 are left out.
        batch_size: of all ranks together; a multiple of `world_size`.
        seed: of the order.
        rank, world_size: this process and the number of processes.

    References:
        Kang et al., Decoupling Representation and Classifier for Long-Tailed Recognition, ICLR 2020, secs. 3, 4.1.

    Example:
        >>> batches = ClassBalancedBatches(source.labels, 128, seed=0)
    """

    def __init__(self, labels: IntegersLike, batch_size: int, seed: int, *, rank: int = 0, world_size: int = 1) -> None:
        super().__init__(seed, rank, world_size)
        _check_split("batch_size", batch_size, world_size)
        self.batch_size = batch_size
        self.labels = check_labels(labels)
        self.members, self.starts, self.counts = _by_class(self.labels)
        if len(self.members) < batch_size:
            raise ValueError(f"batch_size={batch_size} is more than the {len(self.members)} labelled images")
        self.batches_per_epoch = len(self.members) // batch_size

    def settings(self) -> dict[str, int]:
        return {"seed": self.seed, "labels": _digest(self.labels), "batch_size": self.batch_size}

    def _order(self, rng: np.random.Generator) -> Integers:
        members = _shuffled_within(rng, self.members, self.counts)
        classes = len(self.counts)
        rounds = -(-self.batches_per_epoch * self.batch_size // classes)
        order = rng.permuted(np.tile(np.arange(classes), (rounds, 1)), axis=1)
        turn = np.arange(rounds)[:, None] % self.counts[order]
        drawn: Integers = members[self.starts[order] + turn].ravel()
        return drawn

    def _bounds(self, position: int) -> tuple[int, int]:
        return position * self.batch_size, (position + 1) * self.batch_size


class IdentityBatches(_Batches):
    """P identities with K images each (re-identification, pair losses).

    An identity's images are dealt in groups of K, and a batch holds P groups of P different identities; within an
    epoch an image is used at most once, but for an identity with fewer than K images, which repeats them to fill its
    one group. An epoch has as many batches as that allows.

    Args:
        labels: (N,); images labelled -1 are left out.
        identities_per_batch: P, of all ranks together; a multiple of `world_size`.
        images_per_identity: K.
        seed: of the order.
        rank, world_size: this process and the number of processes; an identity's images stay on one rank.

    References:
        Hermans et al., In Defense of the Triplet Loss for Person Re-Identification, 2017, sec. 2.

    Example:
        >>> batches = IdentityBatches(source.labels, identities_per_batch=16, images_per_identity=4, seed=0)
    """

    def __init__(
        self,
        labels: IntegersLike,
        identities_per_batch: int,
        images_per_identity: int,
        seed: int,
        *,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        super().__init__(seed, rank, world_size)
        _check_split("identities_per_batch", identities_per_batch, world_size)
        check_integer("images_per_identity", images_per_identity, 1)
        self.identities_per_batch, self.images_per_identity = identities_per_batch, images_per_identity
        self.labels = check_labels(labels)
        self.members, self.starts, self.counts = _by_class(self.labels)
        if len(self.counts) < identities_per_batch:
            raise ValueError(f"identities_per_batch={identities_per_batch}, but there are only {len(self.counts)}")
        groups = np.maximum(self.counts // images_per_identity, 1)
        self.batches_per_epoch = _most_batches(groups, identities_per_batch)
        self.groups = np.minimum(groups, self.batches_per_epoch)

    def settings(self) -> dict[str, int]:
        return {
            "seed": self.seed,
            "labels": _digest(self.labels),
            "identities_per_batch": self.identities_per_batch,
            "images_per_identity": self.images_per_identity,
        }

    def _order(self, rng: np.random.Generator) -> Integers:
        """Deal the groups round the batches, identity by identity: none has more groups than there are batches, so no
        batch gets two of one identity."""
        members = _shuffled_within(rng, self.members, self.counts)
        wide, many = self.identities_per_batch, self.batches_per_epoch
        shuffled = rng.permutation(len(self.groups))
        identity = np.repeat(shuffled, self.groups[shuffled])
        ends = np.cumsum(self.groups[shuffled])
        number = np.arange(len(identity)) - np.repeat(ends - self.groups[shuffled], self.groups[shuffled])
        place = number[:, None] * self.images_per_identity + np.arange(self.images_per_identity)
        images = members[self.starts[identity][:, None] + place % self.counts[identity][:, None]]
        batches = images[: wide * many].reshape(wide, many, -1).swapaxes(0, 1)
        columns = rng.permuted(np.tile(np.arange(wide), (many, 1)), axis=1)
        dealt: Integers = batches[rng.permutation(many)[:, None], columns].ravel()
        return dealt

    def _bounds(self, position: int) -> tuple[int, int]:
        size = self.identities_per_batch * self.images_per_identity
        return position * size, (position + 1) * size


def _check_split(name: str, value: int, world_size: int) -> None:
    check_integer(name, value, 1)
    if value % world_size:
        raise ValueError(
            f"{name}={value} must be a multiple of world_size={world_size}: every rank takes an equal part"
        )


def _by_class(labels: Integers) -> tuple[Integers, Integers, Integers]:
    """The labelled images sorted by class, and where each class that occurs starts and how many images it has."""
    members = np.argsort(labels, kind="stable")[np.count_nonzero(labels < 0) :]
    _, starts, counts = np.unique(labels[members], return_index=True, return_counts=True)
    if not len(members):
        raise ValueError("labels are all -1: there is no class to draw")
    return members, starts, counts


def _shuffled_within(rng: np.random.Generator, members: Integers, counts: Integers) -> Integers:
    """The members of each class, in random order within the class."""
    classes = np.repeat(np.arange(len(counts)), counts)
    shuffled = rng.permutation(len(members))
    return members[shuffled[np.argsort(classes[shuffled], kind="stable")]]


def _most_batches(groups: Integers, wide: int) -> int:
    """The most batches of `wide` groups, no two of one identity: the largest b with sum of min(groups, b) >= wide b."""
    low, high = 1, int(groups.sum()) // wide
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(groups, middle).sum() >= wide * middle else (low, middle - 1)
    return low


def _digest(labels: Integers) -> int:
    return zlib.crc32(labels.astype("<i8").tobytes())
