"""Templates: the media of one person, pooled into one vector."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hypersphere.core import check_choice
from hypersphere.evaluation.arrays import Array, Floats, Ints
from hypersphere.evaluation.embeddings import Embeddings

FLIPS = ("given", "first", "sum", "mean")
MEDIA = ("mean", "unit", "none")
_IMAGES = 8192


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """How the images of a template become one vector, in this order.

    Args:
        flip: `given`: embeddings as they are; otherwise they hold image and mirror image side by side, of which
            `first` takes the image, `sum` adds, `mean` averages the two.
        keep_norm: whether lengths weigh; otherwise every image is normalised first.
        detector_score: whether the score of the face detector weighs.
        media: `mean`: the mean of each medium, then their sum; `unit`: each mean is normalised before the sum;
            `none`: all images alike.
    """

    flip: str = "given"
    keep_norm: bool = True
    detector_score: bool = True
    media: str = "mean"

    def __post_init__(self) -> None:
        check_choice("flip", self.flip, FLIPS)
        check_choice("media", self.media, MEDIA)


def left_to_do(pooling: Pooling, embeddings: Embeddings) -> Pooling:
    """The pooling of embeddings that say how mirror images were merged: without what is done already.

    Args:
        pooling: what is wanted.
        embeddings: made by a model whose contract is among their options; of others nothing is known, and what is
            wanted is done.
    """
    contract = embeddings.options.get("contract")
    made = contract.get("flip") if isinstance(contract, Mapping) else None
    if pooling.flip == "given" or made in (None, "concat"):
        return pooling
    if made == ("none" if pooling.flip == "first" else pooling.flip):
        return dataclasses.replace(pooling, flip="given")
    raise ValueError(
        f"embeddings were made with flip={made!r}; flip={pooling.flip!r} needs those of image and mirror image side by "
        f"side (concat), or merged so already"
    )


def pool_templates(
    embeddings: Embeddings, rows: Ints, templates: Ints, media: Ints, weights: Floats | None, pooling: Pooling
) -> tuple[Ints, Array]:
    """The different templates, rising, and their unit vectors (float32); sums are float64.

    Args:
        embeddings: of the images.
        rows: (images,) where they are, -1 for missing ones, which are left out.
        templates: (images,) numbers.
        media: (images,) numbers.
        weights: (images,) scores of the detector, where there are any.
        pooling: what is done.
    """
    if pooling.flip != "given" and embeddings.dim % 2:
        raise ValueError(f"embeddings have dimension {embeddings.dim}; flip={pooling.flip!r} needs two equal halves")
    if pooling.detector_score and weights is None:
        raise ValueError("detector_score=True needs the list with the detector's scores (..._name_5pts_score.txt)")
    kinds = np.zeros_like(media) if pooling.media == "none" else media
    order = np.lexsort((kinds, templates))
    order = order[rows[order] >= 0]
    starts = _starts(templates[order])
    names = templates[order][starts].astype(np.int64)
    vectors = []
    for low, high in _chunks(starts, len(order)):
        images = order[low:high]
        called = [embeddings.names[row] for row in rows[images]]
        block = _images(embeddings.values[rows[images]].astype(np.float64), pooling, called)
        if pooling.detector_score and weights is not None:
            block *= weights[images, None]
        groups = _starts(templates[images], kinds[images])
        means = np.add.reduceat(block, groups) / np.diff(np.append(groups, len(images)))[:, None]
        if pooling.media == "unit":
            means = _units(means, [f"{called[place]}, with the other images of its medium," for place in groups])
        vectors.append(np.add.reduceat(means, _starts(templates[images][groups])))
    return names, _units(np.concatenate(vectors), [f"template {name}" for name in names]).astype(np.float32)


def _images(block: Floats, pooling: Pooling, called: Sequence[str]) -> Floats:
    if pooling.flip != "given":
        half = block.shape[1] // 2
        block = block[:, :half] + (0 if pooling.flip == "first" else block[:, half:])
        block = block / 2 if pooling.flip == "mean" else block
    return block if pooling.keep_norm else _units(block, called)


def _starts(*columns: Array) -> Ints:
    """Where a new run of equal values begins."""
    new = np.ones(len(columns[0]), dtype=bool)
    new[1:] = False
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(new)


def _chunks(starts: Ints, total: int) -> Iterator[tuple[int, int]]:
    """Ranges of whole templates, each of about as many images as one step takes."""
    cut = 0
    while cut < total:
        after = int(np.searchsorted(starts, cut + _IMAGES))
        end = int(starts[after]) if after < len(starts) else total
        yield cut, end
        cut = end


def _units(rows: Floats, called: Sequence[str]) -> Floats:
    lengths: Floats = np.linalg.norm(rows, axis=1, keepdims=True)
    if not lengths.all():
        raise ValueError(f"{called[int(np.argmin(lengths))]} is the zero vector, which has no direction")
    return rows / lengths
