"""Array types of this room, and the checks every metric makes of its input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]


def finite_scores(name: str, values: npt.ArrayLike) -> Array:
    """A list of finite numbers; float32 stays float32, everything else becomes float64."""
    scores = np.asarray(values)
    if scores.dtype.kind not in "biuf":
        raise ValueError(f"{name} have dtype {scores.dtype}; they must be real numbers")
    if scores.dtype != np.float32:
        scores = scores.astype(np.float64)
    if scores.ndim != 1:
        raise ValueError(f"{name} has shape {scores.shape}; it must be a list of numbers")
    if not np.isfinite(scores).all():
        raise ValueError(f"{name} hold NaN or infinity, first in position {int(np.argmin(np.isfinite(scores)))}")
    return scores


def scored_pairs(scores: npt.ArrayLike, same: npt.ArrayLike) -> tuple[Array, Bools]:
    """Finite scores of pairs and their truth, both kinds of pairs among them."""
    similarity, truth = finite_scores("scores", scores), np.asarray(same, dtype=bool)
    if similarity.shape != truth.shape:
        raise ValueError(f"scores {similarity.shape} and same {truth.shape} must be two lists of one length")
    if truth.all() or not truth.any():
        raise ValueError("same must hold pairs of one person and pairs of two")
    return similarity, truth


def finite_rows(name: str, values: npt.ArrayLike, dim: int | None = None) -> Array:
    """(rows, dim) finite float32 vectors; a float32 array, mapped from a file or not, is not copied."""
    rows = np.asarray(values)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"{name} has shape {rows.shape}; it must be (rows, dim), neither of them 0")
    if dim is not None and rows.shape[1] != dim:
        raise ValueError(f"{name} has dimension {rows.shape[1]}; it must be {dim}")
    if rows.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {rows.dtype}; it must hold real numbers")
    with np.errstate(over="ignore"):
        rows = rows.astype(np.float32, copy=False)
    for start in range(0, len(rows), 8192):
        finite = np.isfinite(rows[start : start + 8192]).all(axis=1)
        if not finite.all():
            raise ValueError(f"{name} row {start + int(np.argmin(finite))} is not finite")
    return rows


def numbered(names: Sequence[str]) -> Ints:
    """The place of each name among the different ones, sorted; without an array of strings, as wide as the longest."""
    number = {name: place for place, name in enumerate(sorted(set(names)))}
    return np.array([number[name] for name in names], dtype=np.int64)


def labels_for(name: str, values: npt.ArrayLike, count: int) -> Ints:
    """(count,) whole numbers."""
    labels = np.asarray(values)
    if labels.shape != (count,):
        raise ValueError(f"{name} has shape {labels.shape}; {count} of them are needed")
    if labels.dtype.kind not in "iu":
        raise ValueError(f"{name} has dtype {labels.dtype}; it must hold integers")
    return labels.astype(np.int64, copy=False)
