"""Group faces by person without names: at a threshold that states its false-match rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_choice, check_range
from hypersphere.evaluation.arrays import finite_rows, labels_for

LINKAGES = ("average", "single")
"""`average`: two groups are one while the mean cosine between them reaches the threshold (agglomerative clustering);
`single`: two faces are in one group if a chain of pairs that reach it leads from one to the other (connected
components)."""
_BLOCK = 2048
Ints = npt.NDArray[np.int64]


def cluster_faces(unit: npt.ArrayLike, threshold: float, *, linkage: str = "average") -> Ints:
    """(faces,) the group of each face, from 0, the largest group first; equally large ones by their first face.

    Cosines are computed in blocks; only those that reach the threshold are kept. Groups of `average` linkage lie within
    connected components, for a mean that reaches the threshold has a pair that does: each component is clustered on its
    own, with m (m - 1) / 2 distances of its m faces in memory.

    Args:
        unit: (faces, dim) unit vectors.
        threshold: a cosine, such as `calibration.table.at(1e-4).threshold`.
        linkage: one of `LINKAGES`.

    Example:
        >>> cluster_faces([[1, 0], [0, 1], [0.99, 0.14], [1, 0]], 0.5)
        array([0, 1, 0, 0])
    """
    check_choice("linkage", linkage, LINKAGES)
    check_range("threshold", threshold, -1, 1)
    rows = finite_rows("unit", unit)
    groups = _components(rows, threshold)
    if linkage == "average":
        groups = _average(rows, groups, threshold)
    return _by_size(groups)


def _components(rows: npt.NDArray[Any], threshold: float) -> Ints:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    parts = [np.empty((2, 0), np.int64)]
    for top in range(0, len(rows), _BLOCK):
        for left in range(top, len(rows), _BLOCK):
            close = rows[top : top + _BLOCK] @ rows[left : left + _BLOCK].T >= threshold
            first, second = np.nonzero(np.triu(close, 1) if left == top else close)
            parts.append(np.stack([first + top, second + left]))
    first, second = np.concatenate(parts, axis=1)
    graph = coo_array((np.ones(len(first), bool), (first, second)), shape=(len(rows), len(rows)))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _average(rows: npt.NDArray[Any], components: Ints, threshold: float) -> Ints:
    from scipy.cluster.hierarchy import fcluster, linkage

    groups = np.empty(len(rows), np.int64)
    order = np.argsort(components, kind="stable")
    used = 0
    for members in np.split(order, np.flatnonzero(np.diff(components[order])) + 1):
        if len(members) == 1:
            found = np.zeros(1, np.int64)
        else:
            found = fcluster(linkage(_distances(rows[members]), "average"), 1 - threshold, "distance") - 1
        groups[members] = used + found
        used += int(found.max()) + 1
    return groups


def _distances(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """1 - cosine of every row with every later one, in one list."""
    wide = rows.astype(np.float64)
    found = np.empty(len(wide) * (len(wide) - 1) // 2)
    start = 0
    for place in range(len(wide) - 1):
        end = start + len(wide) - 1 - place
        # Unit vectors in single precision: the cosine of two copies of a photo may lie just above 1.
        found[start:end] = np.maximum(0, 1 - wide[place + 1 :] @ wide[place])
        start = end
    return found


def _by_size(groups: Ints) -> Ints:
    _, first, found, sizes = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    place = np.empty(len(sizes), np.int64)
    place[np.lexsort((first, -sizes))] = np.arange(len(sizes))
    return place[found]


@dataclass(frozen=True)
class ClusterQuality:
    """How well groups agree with people: shares from 0 to 1.

    Args:
        pair_precision: of the pairs of faces in one group, those of one person.
        pair_recall: of the pairs of faces of one person, those in one group.
        bcubed_precision: mean over faces of the share of its group that is of its person (B-cubed).
        bcubed_recall: mean over faces of the share of its person that is in its group.
        groups, people: how many.
    """

    pair_precision: float
    pair_recall: float
    bcubed_precision: float
    bcubed_recall: float
    groups: int
    people: int

    @property
    def pair_f1(self) -> float:
        """The harmonic mean of pairwise precision and recall."""
        return _harmonic(self.pair_precision, self.pair_recall)

    @property
    def bcubed_f1(self) -> float:
        """The harmonic mean of B-cubed precision and recall."""
        return _harmonic(self.bcubed_precision, self.bcubed_recall)


def cluster_quality(groups: npt.ArrayLike, people: npt.ArrayLike) -> ClusterQuality:
    """Compare groups with who is on the faces.

    Args:
        groups: (faces,) whole numbers.
        people: (faces,) whole numbers.

    References:
        Bagga and Baldwin 1998 (B-cubed).

    Example:
        >>> cluster_quality([0, 0, 1, 1], [0, 0, 0, 1]).bcubed_precision
        0.75
    """
    found = np.asarray(groups)
    found = np.unique(labels_for("groups", found, len(found)), return_inverse=True)[1]
    truth = np.unique(labels_for("people", people, len(found)), return_inverse=True)[1]
    width = int(truth.max()) + 1
    _cells, where, both = np.unique(found * width + truth, return_inverse=True, return_counts=True)
    in_group, of_person = np.bincount(found), np.bincount(truth)
    pairs, grouped, own = (int((each * (each - 1) // 2).sum()) for each in (both, in_group, of_person))
    shared = both[where]
    return ClusterQuality(
        pair_precision=pairs / grouped if grouped else 1.0,
        pair_recall=pairs / own if own else 1.0,
        bcubed_precision=float((shared / in_group[found]).mean()),
        bcubed_recall=float((shared / of_person[truth]).mean()),
        groups=len(in_group),
        people=width,
    )


def members_of(groups: Ints) -> list[list[int]]:
    """The faces of each group."""
    found: list[list[int]] = [[] for _ in range(int(groups.max(initial=-1)) + 1)]
    for face, group in enumerate(groups.tolist()):
        found[group].append(face)
    return found


def _harmonic(first: float, second: float) -> float:
    return 2 * first * second / (first + second) if first + second else 0.0
