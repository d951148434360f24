"""Identities that two sets share: by name, or by the similarity of their mean embeddings."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_range


def fold_name(name: str) -> str:
    """A name without what spelling varies in: case, accents' encoding, underscores, spaces, hyphens and dots.

    Example:
        >>> fold_name("Aaron_Eckhart") == fold_name("aaron eckhart")
        True
    """
    return re.sub(r"[\s_.\-]+", "", unicodedata.normalize("NFKC", name).casefold())


def shared_names(first: Sequence[str], second: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of names, one of each set, that are alike by `fold_name`, sorted.

    A set whose identities have no names, only the numbers 0..K-1 (with leading zeros or without), cannot be compared
    this way.
    """
    for which, names in (("first", first), ("second", second)):
        if names and all(name.isdecimal() and name.lstrip("0") == str(k or "") for k, name in enumerate(names)):
            raise ValueError(f"the {which} set's identities are numbers, not names; compare embeddings (--model)")
    known: dict[str, list[str]] = {}
    for name in second:
        known.setdefault(fold_name(name), []).append(name)
    return sorted((name, other) for name in first for other in known.get(fold_name(name), []))


def similar_identities(
    first: npt.NDArray[Any], second: npt.NDArray[Any], threshold: float, chunk: int = 1024
) -> list[tuple[int, int, float]]:
    """Pairs of identities whose mean embeddings have at least this cosine, the most similar first.

    Args:
        first: (A, dim) the mean embedding of each identity of one set.
        second: (B, dim) of the other.
        threshold: the least cosine.
        chunk: rows of `first` compared at once; memory is chunk x B.

    Returns:
        index in `first`, index in `second`, cosine.
    """
    check_range("threshold", threshold, -1.0, 1.0)
    a, b = _unit("first", first), _unit("second", second)
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"embeddings of {a.shape[1]} and of {b.shape[1]} dimensions cannot be compared; use one model")
    found: list[tuple[int, int, float]] = []
    for start in range(0, len(a), chunk):
        cosines = a[start : start + chunk] @ b.T
        rows, columns = np.nonzero(cosines >= threshold)
        found += [(start + int(i), int(j), float(cosines[i, j])) for i, j in zip(rows, columns, strict=True)]
    return sorted(found, key=lambda pair: (-pair[2], pair[0], pair[1]))


def _unit(name: str, embeddings: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    if embeddings.ndim != 2 or not np.issubdtype(embeddings.dtype, np.floating):
        raise ValueError(f"{name} is {embeddings.dtype} {embeddings.shape}; expected floating (identities, dim)")
    wide = embeddings.astype(np.float64)
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(wide, axis=1, keepdims=True)
    bad = np.flatnonzero(~np.isfinite(norms[:, 0]) | (norms[:, 0] == 0))
    if len(bad):
        raise ValueError(f"{name}: the embedding of identity {bad[0]} is zero, NaN, infinite or too long")
    unit: npt.NDArray[np.float32] = (wide / norms).astype(np.float32)
    return unit
