"""What pocket faces are painted on: pixels with their places on a turning head, and shapes with soft edges.

Every pixel comes from elementwise arithmetic, so that a face is the same bits alone and in any batch.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from hypersphere.pocket.faces import Floats, taper

ZERO, ONE, INFINITY = np.float32(0), np.float32(1), np.float32(np.inf)


def take(space: SimpleNamespace, chosen: Any) -> SimpleNamespace:
    return SimpleNamespace(**{name: value[chosen] for name, value in vars(space).items()})


class Canvas:
    """A picture in the making.

    (x, y) is the plane of the face, (X, Y, z) the unit sphere that the head is stretched from, and (u, v) the place
    on the face as it would be seen from the front; m = |u|.
    """

    def __init__(self, t: SimpleNamespace, n: SimpleNamespace, size: tuple[int, int]) -> None:
        height, width = size
        unit = min(size) / 2
        self.across = ((np.arange(width) - (width - 1) / 2) / unit).astype(np.float32)
        self.down = ((np.arange(height) - (height - 1) / 2) / unit).astype(np.float32)[:, None]
        dx, dy = (self.across - n.dx) / n.scale, (self.down - n.dy) / n.scale
        self.x = dx * n.cos_roll + dy * n.sin_roll
        self.y = dy * n.cos_roll - dx * n.sin_roll
        self.sharp = np.float32(unit / 1.4) * n.scale
        self.edge = self.sharp * t.head_width
        self.border = 1 / self.edge.min()

        self.Y = self.y / t.head_height
        self.X = self.x / (t.head_width * taper(t, self.Y))
        self.radius = self.X * self.X
        self.radius += self.Y * self.Y
        self.z = np.sqrt(positive(1 - self.radius))
        self.u = self.X * n.cos_yaw - self.z * n.sin_yaw
        self.v = self.Y * n.cos_pitch - (self.X * n.sin_yaw + self.z * n.cos_yaw) * n.sin_pitch
        self.m = np.abs(self.u)
        self.lowest, self.highest = self.v.min(axis=(0, 2)), self.v.max(axis=(0, 2))
        self.head = cover(1 - self.radius, 0.5 * self.edge)
        self.image, self.scratch = np.empty((2, len(self.x), 3, height, width), np.float32)

    def rows(self, low: Any, high: Any) -> slice:
        """The rows that hold any v in [low, high], and the border around: what lies there is drawn there alone."""
        low, high = np.min(low) - self.border, np.max(high) + self.border
        hit = np.flatnonzero((self.highest >= low) & (self.lowest <= high))
        return slice(hit[0], hit[-1] + 1) if len(hit) else slice(0, 0)

    def some(self, chosen: npt.NDArray[np.bool_], rows: slice) -> SimpleNamespace:
        """The coordinates of some of the faces."""
        planes = {name: getattr(self, name)[chosen, rows] for name in ("x", "y", "u", "v", "m", "head", "radius")}
        return SimpleNamespace(sharp=self.sharp[chosen], edge=self.edge[chosen], **planes)

    def over(self, alpha: Floats, colour: Floats, rows: slice = slice(None), chosen: Any = slice(None)) -> None:
        """Paint `colour` with opacity `alpha`."""
        part = self.image[chosen, :, rows]
        paint = np.subtract(colour, part, out=self.scratch[: len(part), :, : part.shape[2]])
        paint *= alpha[:, None]
        part += paint
        if not isinstance(chosen, slice):
            self.image[chosen, :, rows] = part


def unit_interval(values: Floats) -> Floats:
    """Clipped to [0, 1], in place. This way is three times as fast as np.maximum(values, 0)."""
    return values.clip(ZERO, ONE, out=values)


def positive(values: Floats) -> Floats:
    return values.clip(ZERO, INFINITY)


def at_most(values: Floats, limit: float) -> Floats:
    return values.clip(-INFINITY, np.float32(limit))


def cover(inside: Floats, edge: Any) -> Floats:
    """Opacity of a shape from the distance inside its border; the border is 1 / edge wide."""
    inside = inside * edge
    inside += 0.5
    return unit_interval(inside)


def ellipse(x: Floats, y: Floats, width: Any, height: Any, edge: Any) -> Floats:
    x, y = x * (1 / width), y * (1 / height)
    x *= x
    y *= y
    x += y
    return cover(1 - x, 0.5 * np.minimum(width, height) * edge)


def bump(x: Floats, y: Floats, width: float, height: float) -> Floats:
    """A soft spot: 1 in the middle, 0 at its border."""
    return positive(1 - (x * (1 / width)) ** 2 - (y * (1 / height)) ** 2)
