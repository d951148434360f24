"""Exact top-k search in memory: a first pass in integers, and exact scores for whatever it cannot rule out."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hypersphere.core import check_choice, check_integer

FIRST_PASSES = ("int8", "float32")
_BLOCK = 1 << 16
"""Rows of one step of the first pass."""
_SAMPLE = 2048
"""Rows that a first idea of the k best is taken from."""
_FEW = 4
"""Up to so many probes are multiplied one by one: a matrix product of so few is slower than dot products of rows."""
_SLACK = 1e-6
"""Above the rounding of the first pass's own float32 arithmetic: three roundings of numbers of at most about 1."""
_LARGEST = 127
_ARRAYS = ("_rows", "_digits", "_scales", "_norms", "_errors", "_alive")

Found = tuple[NDArray[np.int64], NDArray[np.float64]]


@cache
def multiplies_integers() -> bool:
    """Return whether `torch._int_mm` multiplies 8-bit integers exactly on this processor.

    Processors without VNNI may add pairs of products in 16 bits, which saturate: largest numbers would show it.
    """
    draw = np.random.default_rng(0)
    left, right = (draw.choice(np.array([-127, 127], np.int8), (rows, 512)) for rows in (33, 70))
    right[:33] = left
    wanted = left.astype(np.int64) @ right.astype(np.int64).T
    try:
        for rows in (1, 8, 33):
            found = torch._int_mm(torch.from_numpy(left[:rows]), torch.from_numpy(right).T).numpy()
            if not np.array_equal(found, wanted[:rows]):
                return False
    except (RuntimeError, AttributeError):
        return False
    return True


class ExactSearch:
    r"""Unit rows in memory, and the k rows of largest inner product with a probe: exactly, whatever the first pass.

    The first pass computes for every row x an approximate score a(x) with |<p, x> - a(x)| <= b(x). Whatever is among
    the k best has a(x) + b(x) at least the k-th largest a - b; all such rows are scored in float64, which decides.

    - `int8`: p ~ s_p z_p and x ~ s_x z_x with integers |z| <= 127, a = s_p s_x <z_p, z_x> (the sum is exact), and by
      Cauchy-Schwarz b = ||p - s_p z_p|| ||s_x z_x|| + ||p|| ||x - s_x z_x||. Rows are kept in float16 too: 3 bytes
      for each number.
    - `float32`: a is the product in float32, and b = d 2^-23 ||p|| ||x|| bounds its rounding in any order of summation.
      4 bytes for each number.

    Rows that are removed are set to zero and never found.

    Args:
        dim: width of the rows.
        first_pass: `int8` or `float32`; the latter also where a processor does not multiply integers exactly.

    Example:
        >>> rows = ExactSearch(2)
        >>> rows.append(np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float16))
        >>> [(positions, scores)] = rows.search(np.array([[0, 1]], np.float32), 2)
        >>> positions.tolist(), scores.round(3).tolist()
        ([1, 2], [1.0, 0.8])
    """

    def __init__(self, dim: int, *, first_pass: str = "int8") -> None:
        check_choice("first_pass", first_pass, FIRST_PASSES)
        self.dim = check_integer("dim", dim, 1)
        self.first_pass = first_pass if multiplies_integers() else "float32"
        self.size = self.removed = 0
        kind = np.float16 if self.first_pass == "int8" else np.float32
        self._rows = np.empty((0, dim), kind)
        self._digits = np.empty((0, dim if self.first_pass == "int8" else 0), np.int8)
        self._scales, self._norms, self._errors = (np.empty(0, np.float32) for _ in range(3))
        self._alive = np.empty(0, np.bool_)

    def append(self, rows: NDArray[np.float16]) -> None:
        """Add rows after the last one; their positions go on from `size`."""
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise ValueError(f"rows have shape {rows.shape}; expected (n, {self.dim})")
        end = self.size + len(rows)
        if end > len(self._rows):
            self._grow(max(end, len(self._rows) + len(self._rows) // 4))
        for top in range(0, len(rows), _BLOCK):
            part = np.asarray(rows[top : top + _BLOCK])
            place = slice(self.size + top, self.size + top + len(part))
            self._rows[place] = part
            self._alive[place] = True
            digits, self._scales[place], self._norms[place], self._errors[place] = _quantised(part.astype(np.float32))
            self._digits[place] = digits[:, : self._digits.shape[1]]
        self.size = end

    def reserve(self, count: int) -> None:
        """Take memory for `count` rows at once, where it is known that so many will be appended."""
        if count > len(self._rows):
            self._grow(count)

    def remove(self, positions: NDArray[np.int64]) -> None:
        """Forget rows: their numbers become zeros, their positions are not used again."""
        self.removed += int(np.count_nonzero(self._alive[positions]))
        for name in _ARRAYS:
            getattr(self, name)[positions] = 0

    def search(self, probes: NDArray[np.float32], k: int, *, allowed: NDArray[np.bool_] | None = None) -> list[Found]:
        """For each probe the positions of the k largest scores and those scores, largest first, then lowest position.

        Every row that ties with the k-th is returned too: whoever orders ties by something else can.

        Args:
            probes: (n, dim).
            k: how many rows are wanted; fewer are returned where fewer remain.
            allowed: which rows may be found, `size` flags; all that are not removed by default.
        """
        probes = np.ascontiguousarray(probes, np.float32)
        if probes.ndim != 2 or probes.shape[1] != self.dim:
            raise ValueError(f"probes have shape {probes.shape}; expected (n, {self.dim})")
        check_integer("k", k, 1)
        alive = self._alive[: self.size]
        allowed = alive if allowed is None else alive & allowed
        k = min(k, int(np.count_nonzero(allowed)))
        if k == 0:
            return [(np.empty(0, np.int64), np.empty(0))] * len(probes)
        chosen = None if allowed.all() else allowed
        found: list[Found] = []
        for top in range(0, len(probes), 64):
            part = probes[top : top + 64]
            found += [
                self._exact(probe, near, k) for probe, near in zip(part, self._near(part, k, chosen), strict=True)
            ]
        return found

    def _near(self, probes: NDArray[np.float32], k: int, allowed: NDArray[np.bool_] | None) -> list[NDArray[np.int64]]:
        """For each probe a superset of the k best rows and of those that tie with them, by the first pass."""
        first = _Int8Pass(probes) if self.first_pass == "int8" else _Float32Pass(probes)
        best = np.full((len(probes), k), -np.inf, np.float32)
        kept: list[list[tuple[NDArray[np.int64], NDArray[np.float32]]]] = [[] for _ in probes]
        for top in range(0, self.size, _BLOCK):
            place = slice(top, min(top + _BLOCK, self.size))
            scores = first.scores(self._rows[place], self._digits[place], self._scales[place])
            if allowed is not None:
                scores[:, ~allowed[place]] = -np.inf
            rows = np.broadcast_to(first.row_bounds(self._norms[place], self._errors[place]), scores.shape[1])
            scores += rows
            common = first.probe_bounds(self._norms[place])
            for number, (upper, off) in enumerate(zip(scores, common, strict=True)):
                least = best[number, 0]
                if least == -np.inf:
                    start = slice(0, max(_SAMPLE, k))
                    least = _largest(best[number], upper[start] - 2 * rows[start] - off)[0]
                hits = np.flatnonzero(upper >= least - off if least > -np.inf else upper > -np.inf)
                best[number] = _largest(best[number], upper[hits] - 2 * rows[hits] - off)
                kept[number].append((hits + top, upper[hits] + off))
        return [_joined(parts, least) for parts, least in zip(kept, best[:, 0], strict=True)]

    def _exact(self, probe: NDArray[np.float32], near: NDArray[np.int64], k: int) -> Found:
        """The k best of these rows by their float64 scores, and the ties of the last."""
        wide = probe.astype(np.float64)
        scores = np.empty(len(near))
        for top in range(0, len(near), _BLOCK):
            part = slice(top, top + _BLOCK)
            scores[part] = np.einsum("nd,d->n", self._rows[near[part]].astype(np.float64), wide)
        last = np.partition(scores, len(scores) - k)[len(scores) - k]
        best = np.flatnonzero(scores >= last)
        best = best[np.lexsort((near[best], -scores[best]))]
        return near[best], scores[best]

    def _grow(self, capacity: int) -> None:
        for name in _ARRAYS:
            old = getattr(self, name)
            new = np.zeros((capacity, *old.shape[1:]), old.dtype)
            new[: self.size] = old[: self.size]
            setattr(self, name, new)


class _Int8Pass:
    """Scores of 8-bit integers, and how far they are off at most."""

    def __init__(self, probes: NDArray[np.float32]) -> None:
        digits, scale, norm, error = _quantised(probes)
        self._digits = torch.from_numpy(digits)
        self._scale = torch.from_numpy(scale[:, None])
        self._norm, self._error = (norm + error).max(), error

    def scores(self, _: NDArray[Any], digits: NDArray[np.int8], scales: NDArray[np.float32]) -> NDArray[np.float32]:
        product = torch._int_mm(self._digits, torch.from_numpy(digits).T).float()
        scores: NDArray[np.float32] = product.mul_(self._scale).mul_(torch.from_numpy(scales)).numpy()
        return scores

    def row_bounds(self, _: NDArray[np.float32], errors: NDArray[np.float32]) -> NDArray[np.float32]:
        """At least ||p|| ||x - s_x z_x|| for each row and any of the probes."""
        bounds: NDArray[np.float32] = errors * self._norm + np.float32(_SLACK)
        return bounds

    def probe_bounds(self, norms: NDArray[np.float32]) -> NDArray[np.float32]:
        """At least ||p - s_p z_p|| ||s_x z_x|| for each probe and any of the rows."""
        bounds: NDArray[np.float32] = self._error * norms.max()
        return bounds


class _Float32Pass:
    """Scores of float32, and how far rounding may bring them off."""

    def __init__(self, probes: NDArray[np.float32]) -> None:
        self._probes = probes
        self._norm = np.linalg.norm(probes, axis=1).max()

    def scores(self, rows: NDArray[np.float32], _: NDArray[np.int8], __: NDArray[np.float32]) -> NDArray[np.float32]:
        if len(self._probes) <= _FEW and hasattr(np, "vecdot"):
            return np.stack([np.vecdot(rows, probe) for probe in self._probes])
        return (torch.from_numpy(rows) @ torch.from_numpy(self._probes).T).T.contiguous().numpy()

    def row_bounds(self, *_: NDArray[np.float32]) -> NDArray[np.float32]:
        """Nothing that differs from row to row."""
        return np.zeros(1, np.float32)

    def probe_bounds(self, norms: NDArray[np.float32]) -> NDArray[np.float32]:
        """At least d 2^-24 / (1 - d 2^-24) ||p|| ||x|| for any probe and row.

        The norms are those of s_x z_x, which are more than half of ||x||: hence 2^-23.
        """
        bound = self._probes.shape[1] * 2.0**-23 * self._norm * norms.max() + _SLACK
        return np.full(len(self._probes), bound, np.float32)


def _largest(best: NDArray[np.float32], others: NDArray[np.float32]) -> NDArray[np.float32]:
    """The largest of both, as many as `best` has, the least of them first."""
    return np.partition(np.concatenate([best, others]), len(others))[len(others) :]


def _joined(parts: list[tuple[NDArray[np.int64], NDArray[np.float32]]], least: np.float32) -> NDArray[np.int64]:
    rows, upper = (np.concatenate(each) for each in zip(*parts, strict=True))
    return rows[upper >= least]


def _quantised(
    rows: NDArray[np.float32],
) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Integers z, and for each row s, ||s z|| and ||x - s z|| with x ~ s z; both norms are rounded up."""
    scale = np.abs(rows).max(axis=1) / np.float32(_LARGEST)
    scale[scale == 0] = 1
    digits = np.rint(rows / scale[:, None]).clip(-_LARGEST, _LARGEST)
    near = digits * scale[:, None]
    return digits.astype(np.int8), scale, _norm_above(near), _norm_above(rows - near)


def _norm_above(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Norms rounded up: by more than float32 may be off, in the rows (2^-24 of about 1) and in the sums (d 2^-24)."""
    norms: NDArray[np.float32] = np.sqrt(np.einsum("nd,nd->n", rows, rows)) * np.float32(1 + 2e-3) + np.float32(_SLACK)
    return norms
