"""Scores counted as they come: the exact multiset of any number of float32 scores, in bounded memory, never sorted.

A float32 is turned into an unsigned integer of the same order. The upper 16 bits name a page, the lower 16 a place on
it. A page with few scores is a list of places; one with many is 65,536 counters of the narrowest integers that hold
them. So a score costs at most 4 bytes, and a page at most what its counters take: cosines between 2^-12 and 1 in size
fall on 3,072 pages, 200 MB of one-byte counters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_integer
from hypersphere.evaluation.arrays import Array, Floats, Ints
from hypersphere.evaluation.statistics.scores import just_above, round_up

_PLACES = 1 << 16
_LIST = _PLACES // 2
"""Pages with fewer scores than this are lists (2 bytes a score), others counters (at least 1 byte a place)."""
_SIGN = np.uint32(1 << 31)

Keys = npt.NDArray[np.uint32]


class ScoreCounts:
    """Counts float32 scores that arrive in blocks; a curve from it equals the one from all of them in memory.

    Args:
        buffer_size: scores that wait before they are counted together.

    Example:
        >>> genuine, impostors = ScoreCounts(), ScoreCounts()
        >>> for block, same in blocks:
        ...     genuine.add(block[same])
        ...     impostors.add(block[~same])
        >>> point = roc_from(genuine, impostors).operating_point(1e-3)
    """

    def __init__(self, buffer_size: int = 1 << 22) -> None:
        self._buffer = np.empty(check_integer("buffer_size", buffer_size, 1), dtype=np.float32)
        self._waiting = 0
        self._counted = 0
        self._pages: dict[int, Array] = {}
        self._directory: tuple[Ints, Ints] | None = None

    def add(self, scores: Array) -> None:
        """Count a block of any shape.

        Args:
            scores: float32 (or float16). float64 is refused: rounding it here could make ties that are not there.
        """
        block = np.asarray(scores)
        if block.dtype not in (np.float32, np.float16):
            raise ValueError(f"scores are {block.dtype}; counted scores must be float32 (round them with astype)")
        flat = block.reshape(-1)
        if not np.isfinite(flat).all():
            place = self.total + int(np.argmin(np.isfinite(flat)))
            raise ValueError(f"scores hold NaN or infinity, first in position {place} of all that were added")
        while len(flat):
            part = flat[: len(self._buffer) - self._waiting]
            self._buffer[self._waiting : self._waiting + len(part)] = part
            self._waiting += len(part)
            flat = flat[len(part) :]
            if self._waiting == len(self._buffer):
                self._count()

    @property
    def total(self) -> int:
        """How many were added."""
        return self._counted + self._waiting

    def distinct(self) -> Floats:
        """The different ones, rising."""
        pages, _ = self._index()
        parts = [_scores_on(page, _places(self._pages[page])) for page in pages.tolist()]
        return np.concatenate(parts) if parts else np.empty(0)

    def at_least(self, thresholds: npt.ArrayLike) -> Ints:
        """How many are >= each threshold."""
        pages, tails = self._index()
        keys = _keys(round_up(np.asarray(thresholds, dtype=np.float64)))
        result = tails[np.searchsorted(pages, keys >> 16, side="right")]
        for page, members in self._by_page(keys):
            places = (keys[members] & 0xFFFF).astype(np.int64)
            result[members] += _tail(self._pages[page], places)
        return result

    def beside(self, values: Floats) -> Floats:
        """The nearest ones below and above each value, and the lowest and the highest of all; different, rising."""
        lower = self._nearest(np.append(values, np.inf), below=True)
        return np.union1d(lower, self._nearest(np.append(just_above(values), -np.inf), below=False))

    def kth_largest(self, k: int) -> float:
        """The k-th largest score, k = 1 being the largest."""
        if not 1 <= k <= self.total:
            raise ValueError(f"k={k} must lie between 1 and the number of scores, {self.total}")
        pages, tails = self._index()
        slot = int(np.flatnonzero(tails >= k)[-1])
        page = int(pages[slot])
        places = _places(self._pages[page])
        accepted = _tail(self._pages[page], places.astype(np.int64)) + tails[slot + 1]
        return float(_scores_on(page, places[np.flatnonzero(accepted >= k)[-1:]])[0])

    def _count(self) -> None:
        keys = np.sort(_keys(self._buffer[: self._waiting]))
        pages, starts = np.unique(keys >> 16, return_index=True)
        places = keys.astype(np.uint16)
        for page, part in zip(pages.tolist(), np.split(places, starts[1:]), strict=True):
            self._pages[page] = _added(self._pages.get(page), part)
        self._counted += self._waiting
        self._waiting = 0
        self._directory = None

    def _index(self) -> tuple[Ints, Ints]:
        """The pages, rising, and the scores on each and all later ones, with a 0 at the end."""
        if self._waiting:
            self._count()
        if self._directory is None:
            pages = np.array(sorted(self._pages), dtype=np.int64)
            sizes = [_size(self._pages[page]) for page in pages.tolist()]
            tails = np.cumsum([0, *sizes[::-1]], dtype=np.int64)[::-1]
            self._directory = pages, tails
        return self._directory

    def _nearest(self, values: Floats, *, below: bool) -> Floats:
        """The different scores that are the largest below, or else the smallest not below, one of the values."""
        pages, _ = self._index()
        keys = _keys(round_up(values))
        slots = np.searchsorted(pages, keys >> 16, side="left" if below else "right") - below
        found = []
        for page, members in self._by_page(keys):
            places = _places(self._pages[page])
            position = np.searchsorted(places, keys[members] & 0xFFFF, side="left") - below
            inside = (position >= 0) & (position < len(places))
            found.append(_scores_on(page, places[np.unique(position[inside])]))
            slots[members[inside]] = -1
        for page in pages[np.unique(slots[(slots >= 0) & (slots < len(pages))])].tolist():
            places = _places(self._pages[page])
            found.append(_scores_on(page, places[-1:] if below else places[:1]))
        return np.unique(np.concatenate(found))

    def _by_page(self, keys: Keys) -> list[tuple[int, Ints]]:
        """The positions in `keys` that fall on each page there is."""
        order = np.argsort(keys, kind="stable")
        pages, starts = np.unique(keys[order] >> 16, return_index=True)
        groups = zip(pages.tolist(), np.split(order, starts[1:]), strict=True)
        return [(page, members) for page, members in groups if page in self._pages]


def _keys(scores: npt.NDArray[np.float32]) -> Keys:
    """Unsigned integers in the order of the scores; -0 counts as 0."""
    bits = (scores + np.float32(0)).view(np.uint32)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _scores_on(page: int, places: npt.NDArray[np.uint16]) -> Floats:
    keys = places.astype(np.uint32) | np.uint32(page << 16)
    return np.where(keys & _SIGN, keys ^ _SIGN, ~keys).view(np.float32).astype(np.float64)


def _added(page: Array | None, places: npt.NDArray[np.uint16]) -> Array:
    """A page with more places on it, which come sorted."""
    if page is None or len(page) < _PLACES:
        merged = places.copy() if page is None else np.concatenate([page, places])
        if len(merged) < _LIST:
            return merged
        page, places = np.zeros(_PLACES, dtype=np.uint8), np.sort(merged)
    different, counts = np.unique(places, return_counts=True)
    sums = page[different].astype(np.int64) + counts
    highest = int(sums.max())
    if highest > np.iinfo(page.dtype).max:
        page = page.astype(np.min_scalar_type(highest))
    page[different] = sums
    return page


def _size(page: Array) -> int:
    return int(page.sum(dtype=np.int64)) if len(page) == _PLACES else len(page)


def _places(page: Array) -> npt.NDArray[np.uint16]:
    """The different places on a page, rising."""
    used: npt.NDArray[Any] = np.flatnonzero(page) if len(page) == _PLACES else np.unique(page)
    return used.astype(np.uint16)


def _tail(page: Array, places: Ints) -> Ints:
    """How many scores lie on each place and the later ones of its page."""
    if len(page) == _PLACES:
        tails: Ints = np.cumsum(page[::-1], dtype=np.int64)[::-1]
        return tails[places]
    return len(page) - np.searchsorted(np.sort(page), places, side="left").astype(np.int64)
