"""How two embeddings are compared: what is learned from training folds, normalisation, similarity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_choice, check_integer
from hypersphere.evaluation.arrays import Array, Bools, Floats, Ints

SIMILARITIES = ("cosine", "inner_product", "euclidean")
_BLOCK = 16384


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The choices, in the order in which they act on embeddings.

    Args:
        center: subtract the mean of the embeddings on both sides of the training folds' pairs, as SphereFace does.
        pca: subtract that mean and keep so many principal components of them (NormFace sec. 5.1, which states no
            number; all of them are `center` turned, which changes no similarity).
        fit: (images, dim) embeddings of other people, such as the training set's, that mean and PCA are learned from
            instead of the training folds: then no pair of the test has a part in them.
        normalize: make unit vectors; NormFace Table 1 has inner product and Euclidean distance before and after.
        similarity: `cosine`, always of unit vectors; `inner_product`; `euclidean`, the negative distance.

    Example:
        >>> distances = Comparison(similarity="euclidean", normalize=False)
    """

    center: bool = False
    pca: int | None = None
    fit: Array | None = field(default=None, repr=False, compare=False)
    normalize: bool = True
    similarity: str = "cosine"

    def __post_init__(self) -> None:
        check_choice("similarity", self.similarity, SIMILARITIES)
        if self.pca is not None:
            check_integer("pca", self.pca, 1)
        if self.fit is not None and not self.learns:
            raise ValueError("fit is what center or pca learn from: ask for one of them")
        if self.similarity == "cosine" and not self.normalize:
            raise ValueError("normalize=False has no effect on cosines; take similarity='inner_product'")

    @property
    def learns(self) -> bool:
        """Whether a mean or principal components are learned."""
        return self.center or self.pca is not None

    def fold_scores(self, values: Array, left: Ints, right: Ints, folds: Ints, names: Sequence[str] = ()) -> Floats:
        """Similarities of pairs: (pairs,), or (folds, pairs) where something is learned from the other folds.

        What is learned from `fit` is the same for all folds.

        Args:
            values: (images, dim) embeddings.
            left, right: (pairs,) rows of them.
            folds: (pairs,) the fold of each pair; row k is made with what the folds other than the k-th teach.
            names: (images,) for messages.
        """
        if not self.learns or self.fit is not None:
            return self.scores(values, left, right, names=names)
        rows = [self.scores(values, left, right, folds != fold, names=names) for fold in np.unique(folds)]
        return np.stack(rows)

    def scores(
        self, values: Array, left: Ints, right: Ints, train: Bools | None = None, names: Sequence[str] = ()
    ) -> Floats:
        """(pairs,) similarities in float64, higher for more alike.

        Args:
            values, left, right, names: as in `fold_scores`.
            train: (pairs,) which pairs to learn from.
        """
        wide = values.astype(np.float64)
        if self.learns:
            both = np.concatenate([left, right] if train is None else [left[train], right[train]])
            wide = self._fitted(wide, np.bincount(both, minlength=len(values)))
        if self.normalize or self.similarity == "cosine":
            norms = np.linalg.norm(wide, axis=1, keepdims=True)
            if not norms.all():
                place = int(np.argmin(norms))
                what = repr(names[place]) if len(names) else f"image {place}"
                raise ValueError(f"the embedding of {what} is zero, which has no direction to compare")
            wide /= norms
        found = np.empty(len(left))
        for start in range(0, len(left), _BLOCK):
            part = slice(start, start + _BLOCK)
            found[part] = self._similarity(wide[left[part]], wide[right[part]])
        return found

    def _similarity(self, left: Floats, right: Floats) -> Floats:
        if self.similarity == "euclidean":
            distances: Floats = np.linalg.norm(left - right, axis=1)
            return -distances
        products: Floats = np.einsum("nd,nd->n", left, right)
        return products

    def _fitted(self, values: Floats, weights: npt.NDArray[np.intp]) -> Floats:
        """The values less a mean, and projected: learned from themselves with weights, or from `fit`."""
        known = values
        if self.fit is not None:
            known, weights = self.fit.astype(np.float64), np.ones(len(self.fit), dtype=np.intp)
            if known.ndim != 2 or known.shape[1] != values.shape[1] or not np.isfinite(known).all():
                raise ValueError(f"fit has shape {known.shape}: expected finite (images, {values.shape[1]})")
        mean: Floats = weights @ known / weights.sum()
        if self.pca is None:
            return values - mean
        most = min(values.shape[1], int(np.count_nonzero(weights)) - 1)
        if self.pca > most:
            raise ValueError(
                f"pca={self.pca}: {np.count_nonzero(weights)} images of width {values.shape[1]} give {most}"
            )
        centred = known - mean
        _, directions = np.linalg.eigh((centred.T * weights) @ centred)
        projected: Floats = (values - mean) @ directions[:, ::-1][:, : self.pca]
        return projected


def own_scores(scores: npt.ArrayLike, folds: Ints) -> Array:
    """(pairs,) of (folds, pairs) scores each pair's own: those made without its fold; (pairs,) scores as they are."""
    table = np.asarray(scores)
    if table.ndim != 2:
        return table
    numbers, member = np.unique(folds, return_inverse=True)
    if table.shape != (len(numbers), len(folds)):
        raise ValueError(f"scores {table.shape} must be ({len(numbers)}, {len(folds)}): a row for every fold")
    own: Array = table[member, np.arange(len(folds))]
    return own
