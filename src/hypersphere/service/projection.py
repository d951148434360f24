"""The templates of a gallery in three dimensions, to look at."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np

from hypersphere.recognition.gallery.stored_template import Record, unpacked

MOST_POINTS = 2000


@dataclass(frozen=True)
class ProjectedTemplate:
    """Where a template of a subject lies: inside the unit ball."""

    subject: str
    x: float
    y: float
    z: float


@dataclass(frozen=True, kw_only=True)
class Projection:
    """Templates on their three principal axes through the centre of the sphere.

    Args:
        points: a projected unit vector is as long as the part of it that the axes hold.
        shares: of the squared length of all of them, for each axis.
        shown: how many templates these are: the first ones, where the gallery has more.
        method: in words.
    """

    points: tuple[ProjectedTemplate, ...]
    shares: tuple[float, float, float]
    shown: int
    method: str = "uncentred PCA: the three directions through the centre of the sphere that hold most of the templates"


def project(records: Iterable[Record], dim: int) -> Projection:
    """Project at most `MOST_POINTS` templates, without those that have expired.

    With the singular values sigma of the templates as rows, axis k holds the share sigma_k^2 / sum of sigma^2. The sign
    of an axis is such that the templates' sum is on its positive side.

    Args:
        records: of a gallery.
        dim: width of a template.
    """
    now = time.time()
    alive = (record for record in records if record.expires is None or record.expires > now)
    chosen = list(islice(alive, MOST_POINTS))
    if not chosen:
        return Projection(points=(), shares=(0.0, 0.0, 0.0), shown=0)
    unit = unpacked([record.vector for record in chosen], dim).astype(np.float64)
    _, sizes, axes = np.linalg.svd(unit, full_matrices=False)
    signs = np.where(axes @ unit.sum(axis=0) < 0, -1.0, 1.0)
    at = np.zeros((len(unit), 3))
    shares = np.zeros(3)
    used = min(3, len(axes))
    at[:, :used] = unit @ (signs[:used, None] * axes[:used]).T
    shares[:used] = sizes[:used] ** 2 / np.sum(sizes**2)
    points = (ProjectedTemplate(each.subject, *row) for each, row in zip(chosen, at.round(3).tolist(), strict=True))
    first, second, third = shares.round(4).tolist()
    return Projection(points=tuple(points), shares=(first, second, third), shown=len(chosen))
