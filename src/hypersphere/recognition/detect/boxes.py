"""Boxes as rows (x0, y0, x1, y1) of an array: overlap, suppression, squares."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

Boxes = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Overlap = Literal["union", "smaller"]


def keep_best(boxes: Boxes, scores: Scores, limit: float, *, relative_to: Overlap = "union") -> Ints:
    """Return which boxes non-maximum suppression keeps, the best score first; of equal scores the lower index.

    A box is dropped when its overlap with a better one that is kept exceeds `limit`.

    Args:
        boxes: (n, 4).
        scores: (n,).
        limit: share of the overlap.
        relative_to: what the intersection is divided by: the area of the `union`, or that of the `smaller` box.
    """
    order = np.argsort(-scores, kind="stable")
    x0, y0, x1, y1 = boxes[order].T
    area = (x1 - x0) * (y1 - y0)
    alive = np.ones(len(order), dtype=bool)
    for k in range(len(order) - 1):
        if not alive[k]:
            continue
        rest = slice(k + 1, None)
        width = np.minimum(x1[k], x1[rest]) - np.maximum(x0[k], x0[rest])
        height = np.minimum(y1[k], y1[rest]) - np.maximum(y0[k], y0[rest])
        both = np.maximum(width, 0) * np.maximum(height, 0)
        whole = area[k] + area[rest] - both if relative_to == "union" else np.minimum(area[k], area[rest])
        alive[rest] &= both <= limit * whole
    kept: Ints = order[alive]
    return kept


def regressed(boxes: Boxes, offsets: npt.NDArray[np.float32]) -> Boxes:
    """Move every edge by its offset, (n, 4) in shares of the box's width and height."""
    sides = np.tile(boxes[:, 2:] - boxes[:, :2], 2)
    moved: Boxes = boxes + offsets * sides
    return moved


def squared(boxes: Boxes) -> Boxes:
    """Return the squares around the same centres, as wide as the longer side."""
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    half = (boxes[:, 2:] - boxes[:, :2]).max(axis=1, keepdims=True) / 2
    return np.concatenate([centre - half, centre + half], axis=1)
