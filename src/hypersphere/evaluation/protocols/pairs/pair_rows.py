"""Pairs with the embeddings of their images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hypersphere.evaluation.arrays import Array, Ints
from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.evaluation.protocols.official_files import missing_images
from hypersphere.evaluation.protocols.pairs.pair_list import PairList


@dataclass(frozen=True, eq=False)
class PairRows:
    """Pairs, and where the embeddings of their images are.

    Args:
        pairs: those whose images all have embeddings.
        names: (images,) of them.
        values: the (images, dim) embeddings, of one model or of several.
        left, right: (pairs,) rows of the two images.
        missing: names of images that were left out, and of those that could not be read the causes.
        missing_pairs: how many were left out with them.
    """

    pairs: PairList
    names: Sequence[str]
    values: Sequence[Array]
    left: Ints
    right: Ints
    missing: Mapping[str, Sequence[str]]
    missing_pairs: int

    @property
    def several(self) -> bool:
        """Whether there are embeddings of more than one model."""
        return len(self.values) > 1

    @classmethod
    def of(cls, pairs: PairList, embeddings: Sequence[Embeddings], allow_missing: bool) -> PairRows:
        """Find every image; a missing one is an error, or, with `allow_missing`, costs its pairs."""
        if not embeddings:
            raise ValueError(f"{pairs.title}: no embeddings")
        every = pairs.names
        rows = np.min([made.find(every) for made in embeddings], axis=0)
        missing = missing_images(every, rows, embeddings)
        lost = set(missing["missing_images"])
        sides = zip(pairs.left, pairs.right, strict=True)
        kept = np.array([one not in lost and two not in lost for one, two in sides], dtype=bool)
        if not allow_missing:
            pairs.check_images(lost, embeddings[0].names)
        chosen = pairs.some(kept)
        _check_left_over(pairs, chosen, len(lost))
        names = chosen.names
        place = {name: row for row, name in enumerate(names)}
        left, right = (np.array([place[name] for name in side], dtype=np.int64) for side in (chosen.left, chosen.right))
        return cls(
            pairs=chosen,
            names=names,
            values=[made.of(names) for made in embeddings],
            left=left,
            right=right,
            missing=missing,
            missing_pairs=len(pairs) - len(chosen),
        )


def _check_left_over(pairs: PairList, chosen: PairList, lost: int) -> None:
    counts = [len(np.unique(each.folds)) for each in (pairs, chosen)]
    if not chosen.same.any() or chosen.same.all() or counts[1] < counts[0]:
        raise ValueError(
            f"{pairs.title}: {lost:,} images are missing, which leaves {len(chosen):,} of {len(pairs):,} pairs in "
            f"{counts[1]} of {counts[0]} folds; too few to evaluate"
        )


def pooled(sets: Sequence[PairRows]) -> PairRows:
    """All pairs of all sets as one; images are called `set: name`, people of one name are one person."""
    counts, widths = ({len(one.values) for one in sets}, {one.values[0].shape[1] for one in sets})
    if len(counts) > 1 or len(widths) > 1:
        raise ValueError("sets can be pooled only if their embeddings are of the same models: widths or numbers differ")
    starts = np.cumsum([0, *(len(one.names) for one in sets)])

    def side(names: str) -> list[str]:
        return [f"{one.pairs.title}: {name}" for one in sets for name in getattr(one.pairs, names)]

    people = None
    if all(one.pairs.subjects is not None for one in sets):
        sides = [[name for one in sets for name in (one.pairs.subjects or ([], []))[k]] for k in (0, 1)]
        people = sides[0], sides[1]
    pairs = PairList(
        title="pooled",
        left=side("left"),
        right=side("right"),
        same=np.concatenate([one.pairs.same for one in sets]),
        folds=np.concatenate([np.unique(one.pairs.folds, return_inverse=True)[1] for one in sets]),
        where=[place for one in sets for place in one.pairs.where],
        subjects=people,
        files={f"{one.pairs.title}: {name}": own for one in sets for name, own in one.pairs.files.items()},
    )
    lost = sets[0].missing
    return PairRows(
        pairs=pairs,
        names=[f"{one.pairs.title}: {name}" for one in sets for name in one.names],
        values=[np.concatenate(parts) for parts in zip(*(one.values for one in sets), strict=True)],
        left=np.concatenate([one.left + start for one, start in zip(sets, starts[:-1], strict=True)]),
        right=np.concatenate([one.right + start for one, start in zip(sets, starts[:-1], strict=True)]),
        missing={kind: [f"{one.pairs.title}: {name}" for one in sets for name in one.missing[kind]] for kind in lost},
        missing_pairs=sum(one.missing_pairs for one in sets),
    )
