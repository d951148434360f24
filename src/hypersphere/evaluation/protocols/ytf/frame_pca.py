"""Principal components of the frames of videos, learned once for every split from the videos of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from hypersphere.core import check_integer
from hypersphere.evaluation.arrays import Array, Bools, Floats


@dataclass(frozen=True)
class Projection:
    """Values less a mean, in some directions.

    Args:
        mean: (dim,).
        directions: (dim, components).
    """

    mean: Floats
    directions: Floats

    def __call__(self, values: Array) -> Array:
        projected: Array = (values - self.mean) @ self.directions
        return projected


def projections(videos: Mapping[str, Bools], frames_of: Callable[[str], Array], components: int) -> list[Projection]:
    """Return what each split projects with; every frame counts once.

    Args:
        videos: (splits,) for which splits a video is one of those to learn from, by its name.
        frames_of: the (frames, dim) embeddings of a video.
        components: how many directions are kept.
    """
    check_integer("pca", components, 1)
    splits, dim = (len(next(iter(videos.values()))), frames_of(next(iter(videos))).shape[1])
    counts, sums, products = np.zeros(splits), np.zeros((splits, dim)), np.zeros((splits, dim, dim))
    for video, learned_from in videos.items():
        rows = frames_of(video).astype(np.float64)
        product = rows.T @ rows
        for split in np.flatnonzero(learned_from):
            counts[split] += len(rows)
            sums[split] += rows.sum(0)
            products[split] += product
    made = []
    for count, total, product in zip(counts, sums, products, strict=True):
        most = min(len(total), int(count) - 1)
        if components > most:
            raise ValueError(
                f"pca={components}: the {int(count)} frames of the other splits, of width {len(total)}, give {most}"
            )
        mean = total / count
        _, directions = np.linalg.eigh(product - count * np.outer(mean, mean))
        made.append(Projection(mean, directions[:, ::-1][:, :components]))
    return made
