"""The painter of pocket faces: analytic shapes on a turning head, many faces at once.

Everything random comes from a counter-based hash of (seed, identity, index), and every pixel from elementwise
arithmetic: a face is the same bits alone and in any batch.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

TRAITS: dict[str, tuple[float, float]] = {
    "head_width": (0.60, 0.0263),
    "head_height": (0.79, 0.0225),
    "jaw": (0.14, 0.0975),
    "forehead": (0.04, 0.0525),
    "skin": (0.32, 0.21),
    "undertone": (0.0, 1),
    "eye_distance": (0.425, 0.0263),
    "eye_height": (0.03, 0.03),
    "eye_width": (0.190, 0.0165),
    "eye_opening": (0.095, 0.0135),
    "eye_tilt": (0.05, 0.0975),
    "iris_hue": (0.0, 1),
    "iris_light": (0.35, 0.225),
    "iris_size": (0.088, 0.006),
    "brow_gap": (0.205, 0.0225),
    "brow_thickness": (0.040, 0.0097),
    "brow_arch": (0.8, 0.45),
    "brow_tilt": (0.05, 0.105),
    "nose_length": (0.35, 0.0338),
    "nose_width": (0.125, 0.0195),
    "mouth_height": (0.62, 0.0225),
    "mouth_width": (0.29, 0.03),
    "lip_upper": (0.050, 0.0105),
    "lip_lower": (0.065, 0.0135),
    "lip_red": (0.5, 0.1875),
    "ear_size": (0.115, 0.0165),
    "hair_light": (0.25, 0.21),
    "hair_red": (0.3, 0.225),
    "hair_volume": (0.09, 0.0375),
    "hair_length": (0.2, 0.55),
    "hairline": (-0.58, 0.0825),
    "fringe": (0.0, 1),
    "parting": (0.0, 0.12),
    "beard": (-0.35, 0.75),
    "freckles": (-0.4, 0.6),
    "age": (0.3, 0.5),
    "mole": (-0.2, 1),
    "mole_x": (0.0, 0.3),
    "mole_y": (0.35, 0.25),
}
"""What an identity is: one Gaussian latent number for each trait, with the trait's centre and spread."""

NOSE_HEIGHT = 0.22
"""How far the tip of the nose stands out of a head of radius 1."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_CHUNK = 24_576
"""Pixels painted at a time: the working planes stay in the processor's cache."""


def latents(seed: int, identities: Integers) -> Doubles:
    """(B, len(TRAITS)): the latent vectors of identities."""
    return _normal(_key(seed, identities, np.zeros(1, np.int64)), len(TRAITS))


def paint_faces(seed: int, identities: Integers, indices: Integers, size: tuple[int, int], difficulty: float) -> Bytes:
    """(B, 3, H, W): image `indices[i]` of `identities[i]`."""
    t, n = _traits(seed, identities), _nuisance(seed, identities, indices, difficulty)
    _wear(t, n)
    images = np.empty((len(identities), 3, *size), np.uint8)
    step = max(1, _CHUNK // (size[0] * size[1]))
    for start in range(0, len(identities), step):
        part = slice(start, start + step)
        images[part] = _paint(_take(t, part), _take(n, part), size)
    return images


def face_landmarks(
    seed: int, identities: Integers, indices: Integers, size: tuple[int, int], difficulty: float
) -> Floats:
    """(B, 5, 2): eyes, nose tip, mouth corners in pixels (x, y), image-left first; the first pixel's centre is 0."""
    t, n = _traits(seed, identities), _nuisance(seed, identities, indices, difficulty)
    tip = t.eye_height + t.nose_length
    width = _mouth_width(t, n)
    corner = t.mouth_height - 0.18 * n.smile
    u = np.concatenate([-t.eye_distance, t.eye_distance, 0 * tip, -width, width], axis=1)
    v = np.concatenate([t.eye_height, t.eye_height, tip, corner - n.skew, corner + n.skew], axis=1)
    z = np.sqrt(np.maximum(1 - u * u - v * v, 0))
    z[:, 2] += NOSE_HEIGHT
    y = v * n.cos_pitch + z * n.sin_pitch
    x = u * n.cos_yaw + (z * n.cos_pitch - v * n.sin_pitch) * n.sin_yaw
    x = x * t.head_width * _taper(t, y)
    y = y * t.head_height
    unit = min(size) / 2
    across = (x * n.cos_roll - y * n.sin_roll) * n.scale + n.dx
    down = (x * n.sin_roll + y * n.cos_roll) * n.scale + n.dy
    pixels = [across * unit + (size[1] - 1) / 2, down * unit + (size[0] - 1) / 2]
    return np.concatenate(pixels, axis=2, dtype=np.float32)


# Numbers out of (seed, identity, index).


def _mix(x: Words) -> Words:
    """splitmix64's finaliser: a bijection of 64-bit words without visible structure."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _key(seed: int, identities: Integers, numbers: Integers) -> Words:
    key = np.zeros(1, np.uint64)
    for part in (np.array([seed]), identities, numbers):
        key = _mix((key + part.astype(np.uint64)) * _GOLDEN + _GOLDEN)
    return key


def _words(keys: Words, count: int) -> Words:
    return _mix(keys[:, None] + np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN)


def _uniform(keys: Words, count: int) -> Doubles:
    """(B, count) in (0, 1)."""
    return ((_words(keys, count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _normal(keys: Words, count: int) -> Doubles:
    """(B, count), standard Gaussian (Box and Muller)."""
    u = _uniform(keys, 2 * count)
    return np.sqrt(-2.0 * np.log(u[:, :count])) * np.cos(2.0 * np.pi * u[:, count:])


def _column(values: Doubles) -> Floats:
    return values.astype(np.float32)[:, None, None]


def _rgb(*channels: Any) -> Floats:
    """(B, 3, 1, 1) from three columns, (1, 3, 1, 1) from three numbers."""
    return np.stack([np.asarray(channel, np.float32).reshape(-1, 1, 1) for channel in channels], axis=1)


def _palette(stops: list[tuple[int, int, int]], at: Floats) -> Floats:
    """(B, 3, 1, 1): the colour at a place in [0, 1] along a list of colours."""
    place = np.clip(at, 0, 1)[:, 0, 0] * (len(stops) - 1)
    return _rgb(*(np.interp(place, range(len(stops)), np.array(stops)[:, c] / 255) for c in range(3)))


def _blend(low: Any, high: Any, weight: Any) -> Any:
    return low + (high - low) * weight


def _take(space: SimpleNamespace, chosen: Any) -> SimpleNamespace:
    return SimpleNamespace(**{name: value[chosen] for name, value in vars(space).items()})


def _traits(seed: int, identities: Integers) -> SimpleNamespace:
    z = np.clip(latents(seed, identities), -2.5, 2.5)
    t = SimpleNamespace(
        **{name: _column(centre + spread * z[:, i]) for i, (name, (centre, spread)) in enumerate(TRAITS.items())}
    )
    skin = _palette([(250, 220, 198), (236, 190, 155), (205, 150, 108), (150, 98, 66), (92, 58, 42)], t.skin)
    t.skin_colour = skin * _rgb(1 + 0.03 * t.undertone, np.ones_like(t.skin), 1 - 0.05 * t.undertone)
    t.skin_shadow = t.skin_colour * _rgb(0.72, 0.64, 0.62)
    t.lip_colour = t.skin_colour * _rgb(0.94, 0.60, 0.62) * (1 - 0.12 * t.lip_red[:, None])
    light = np.clip(t.hair_light, 0, 1) * np.clip(1.25 - t.skin, 0.1, 1)
    plain = _palette([(24, 20, 22), (70, 48, 38), (120, 88, 60), (205, 172, 112)], light)
    red = _palette([(40, 18, 16), (98, 42, 26), (160, 78, 36), (222, 140, 70)], light)
    grey = _palette([(105, 105, 108), (205, 204, 202)], light)
    t.hair_colour = _blend(
        _blend(plain, red, np.clip(t.hair_red, 0, 1)[:, None]), grey, np.clip(t.age - 1, 0, 1)[:, None]
    )
    iris = _palette([(120, 82, 48), (104, 128, 84), (92, 132, 168)], 0.5 + 0.45 * t.iris_hue)
    t.iris_colour = iris * _blend(0.45, 1.15, np.clip(t.iris_light, 0, 1))[:, None]
    t.beard = np.clip(t.beard, 0, 0.9)
    t.freckles = np.clip(t.freckles, 0, 0.6)
    t.mole = np.clip(3 * t.mole, 0, 0.9)
    t.age = np.clip(t.age, 0, 1)
    t.bald = np.clip((t.age - 0.55) * 4, 0, 1) * (t.hair_length < 0.1)
    return t


def _nuisance(seed: int, identities: Integers, indices: Integers, d: float) -> SimpleNamespace:
    key = _key(seed, identities, indices + 1)
    normal = iter(np.clip(_normal(key, 26), -2.5, 2.5).T * d)
    uniform = iter(_uniform(_mix(key), 20).T)

    def around(centre: float, spread: float, low: float, high: float) -> Floats:
        return _column(np.clip(centre + spread * next(normal), low, high))

    def factor(spread: float, limit: float) -> Floats:
        return _column(np.exp(np.clip(spread * next(normal), -limit, limit)))

    def shares(count: int) -> list[Floats]:
        return [_column(next(uniform)) for _ in range(count)]

    n = SimpleNamespace(key=key)
    for angle, spread, limit in (("yaw", 0.22, 0.75), ("pitch", 0.11, 0.4), ("roll", 0.10, 0.6)):
        radians = np.clip(spread * next(normal), -limit, limit)
        setattr(n, f"cos_{angle}", _column(np.cos(radians)))
        setattr(n, f"sin_{angle}", _column(np.sin(radians)))
    n.dx = around(0, 0.035, -0.25, 0.25)
    n.dy = around(0.06, 0.035, -0.2, 0.3)
    n.scale = factor(0.05, 0.3)
    n.smile = around(0.12, 0.12, -0.3, 0.5)
    n.skew = around(0, 0.015, -0.06, 0.06)
    n.mouth_open = around(-0.03, 0.08, 0, 0.22)
    n.brow_raise = around(0, 0.025, -0.05, 0.1)
    n.frown = around(0, 0.08, -0.3, 0.3)
    n.closing = around(-0.1, 0.25, -0.3, 0.92)
    n.gaze_x = around(0, 0.04, -0.1, 0.1)
    n.gaze_y = around(0, 0.015, -0.04, 0.04)
    n.light_x = around(0, 0.45, -1.2, 1.2)
    n.light_y = around(-0.25, 0.30, -1.2, 1.0)
    n.gain = factor(0.16, 0.55)[:, None] * _rgb(factor(0.07, 0.3), factor(0.07, 0.3), factor(0.07, 0.3))
    n.hair_shade = factor(0.10, 0.4)
    n.haircut = around(0, 0.8, -2.5, 2.5)
    n.make_up = around(0, 0.08, -0.25, 0.25)
    n.noise = np.abs(around(0, 0.02, -1, 1))
    n.blur = around(-0.002, 0.007, 0, 0.022)
    n.contrast = np.clip(0.35 + 0.35 * d * shares(1)[0], 0, 0.95)
    n.occluded = next(uniform) < min(0.9, 0.2 * d)
    n.occlusion = (next(uniform) * len(_OCCLUSIONS)).astype(np.int64)
    n.place = np.stack(shares(5), axis=1)
    plain = d == 0
    n.backdrop = 0.5 + (np.stack(shares(8), axis=1) - 0.5) * (not plain)
    n.cloth = 0.5 + (_rgb(*shares(3)) - 0.5) * (not plain)
    return n


def _wear(t: SimpleNamespace, n: SimpleNamespace) -> None:
    """Hair and lips as they are today."""
    t.length = (t.hair_length > 0.35) * (t.hair_length + 0.08 * n.haircut)
    t.volume = np.maximum(t.hair_volume + 0.015 * n.haircut, 0.01) * (1 - 0.8 * t.bald)
    t.line = t.hairline + 0.02 * n.haircut - 0.45 * t.bald
    t.temples = np.clip(1 + t.hair_length, 0.3, 1.6) * (1 - t.bald)
    t.nape = _blend(0.12 - 0.5 * t.bald, np.float32(0.5), t.length > 0)
    t.jag = np.clip(t.fringe + 0.5, 0, 1)
    t.hair_now = np.clip(t.hair_colour * n.hair_shade[:, None], 0, 1)
    t.lip_now = t.lip_colour * (1 - n.make_up)[:, None]


# The picture.


class _Canvas:
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
        self.X = self.x / (t.head_width * _taper(t, self.Y))
        self.radius = self.X * self.X
        self.radius += self.Y * self.Y
        self.z = np.sqrt(np.maximum(1 - self.radius, 0))
        self.u = self.X * n.cos_yaw - self.z * n.sin_yaw
        self.v = self.Y * n.cos_pitch - (self.X * n.sin_yaw + self.z * n.cos_yaw) * n.sin_pitch
        self.m = np.abs(self.u)
        self.side = np.copysign(np.float32(1), self.u)
        self.lowest, self.highest = self.v.min(axis=(0, 2)), self.v.max(axis=(0, 2))
        self.head = _cover(1 - self.radius, 0.5 * self.edge)
        self.image = np.empty((len(self.x), 3, height, width), np.float32)

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
        paint = colour - part
        paint *= alpha[:, None]
        part += paint
        if not isinstance(chosen, slice):
            self.image[chosen, :, rows] = part


def _taper(t: SimpleNamespace, y: Floats) -> Floats:
    """The breadth of the head at a height: narrower towards the chin and the crown."""
    taper: Floats = np.where(y > 0, t.jaw, t.forehead)
    taper *= y
    taper *= y
    return np.maximum(1 - taper, 0.3)


def _unit(values: Floats) -> Floats:
    np.maximum(values, 0, out=values)
    return np.minimum(values, 1, out=values)


def _cover(inside: Floats, edge: Any) -> Floats:
    """Opacity of a shape from the distance inside its border; the border is 1 / edge wide."""
    inside = inside * edge
    inside += 0.5
    return _unit(inside)


def _ellipse(x: Floats, y: Floats, width: Any, height: Any, edge: Any) -> Floats:
    x, y = x * (1 / width), y * (1 / height)
    x *= x
    y *= y
    x += y
    return _cover(1 - x, 0.5 * np.minimum(width, height) * edge)


def _bump(x: Floats, y: Floats, width: float, height: float) -> Floats:
    """A soft spot: 1 in the middle, 0 at its border."""
    return np.maximum(1 - (x * (1 / width)) ** 2 - (y * (1 / height)) ** 2, 0)


def _paint(t: SimpleNamespace, n: SimpleNamespace, size: tuple[int, int]) -> Bytes:
    c = _Canvas(t, n, size)
    _paint_backdrop(c, n)
    _paint_behind(c, t, n)
    c.over(c.head, t.skin_colour)
    _paint_relief(c, t, n)
    _paint_marks(c, t)
    _paint_mouth(c, t, n)
    _paint_eyes(c, t, n)
    _paint_brows(c, t, n)
    _paint_hair(c, t)
    _paint_occlusions(c, t, n)
    _light(c, n)
    return _photograph(c.image, n)


def _paint_backdrop(c: _Canvas, n: SimpleNamespace) -> None:
    b = n.backdrop
    one, two = _muted(b[:, 0:3, None, 0]), _muted(b[:, 3:6, None, 0])
    angle = np.float32(2 * np.pi) * b[:, 6]
    slope = _unit(0.5 + 0.4 * (np.cos(angle) * c.across + np.sin(angle) * c.down))
    np.multiply((two - one) * (0.35 + 0.6 * b[:, 7, None]), slope[:, None], out=c.image)
    c.image += one * (0.35 + 0.6 * b[:, 7, None])


def _muted(colour: Floats) -> Floats:
    muted: Floats = 0.5 * (colour + colour.mean(axis=1, keepdims=True))
    return muted


def _paint_behind(c: _Canvas, t: SimpleNamespace, n: SimpleNamespace) -> None:
    """Long hair, neck, clothes, hair around the head, ears: what the head covers."""
    x = c.x - 0.12 * n.sin_yaw
    span = t.head_width * (1 + t.volume)
    long = t.length[:, 0, 0] > 0
    if long.any():
        fall = np.minimum(span[long] * (1.02 + 0.1 * c.y[long]) - np.abs(x[long]), 1.15 * t.length[long] - c.y[long])
        fall = np.minimum(fall, c.y[long] + 0.2)
        c.over(_cover(fall, c.sharp[long]), 0.8 * t.hair_now[long], chosen=long)
    lower = slice(len(c.down) // 2, None)
    y, beside = c.y[:, lower], np.abs(c.x[:, lower])
    neck = np.minimum(0.52 * t.head_width + 0.25 * (y - 0.7) ** 2 - beside, y - 0.2)
    c.over(_cover(neck, c.sharp), 0.85 * t.skin_shadow, lower)
    shirt = y - 0.92 - 0.18 * np.minimum(beside * beside, 2) - 0.3 * np.maximum(0.3 - beside, 0)
    c.over(_cover(shirt, c.sharp), 0.1 + 0.75 * _muted(n.cloth), lower)
    cap = _ellipse(x, c.y + 0.06 * t.head_height, span, t.head_height * (1 + 0.9 * t.volume), c.sharp)
    cap *= _cover(t.nape - c.y, c.sharp)
    c.over(cap, 0.9 * t.hair_now)
    beside = np.abs(c.x + 0.22 * t.head_width * n.sin_yaw) - 0.99 * t.head_width
    c.over(_ellipse(beside, c.y - 0.08, 0.75 * t.ear_size, 1.4 * t.ear_size, c.sharp), 0.92 * t.skin_colour)


def _paint_relief(c: _Canvas, t: SimpleNamespace, n: SimpleNamespace) -> None:
    """Eye sockets, cheeks and nose, in shadow and highlight. The nose turns with the head, by its height."""
    tip = t.eye_height + t.nose_length
    r = c.rows(t.eye_height - 0.3, tip + 0.3)
    v, m = c.v[:, r], c.m[:, r]
    c.over(0.22 * _bump(m - 0.46, v - 0.30, 0.27, 0.22), t.skin_colour * _rgb(1.02, 0.72, 0.70), r)
    shadow = 0.30 * _bump(m - t.eye_distance + 0.04, v - t.eye_height + 0.03, 0.27, 0.18)
    along = (v - t.eye_height) * (1 / t.nose_length)
    along = np.minimum(np.maximum(along, 0), np.float32(1.2))
    m = np.abs(c.u[:, r] - NOSE_HEIGHT * n.sin_yaw * along)
    v = v - NOSE_HEIGHT * n.sin_pitch * along
    length = _cover(np.minimum(v - t.eye_height + 0.05, tip + 0.02 - v), 9)
    flank = np.abs(m - t.nose_width * (0.27 + 0.53 * along * along))
    np.maximum(shadow, 0.42 * length * np.maximum(1 - 16 * flank, 0), out=shadow)
    under = _cover(0.022 - np.abs(v - tip - 0.055 + 0.9 * m * m), 0.7 * c.edge) * _cover(t.nose_width - m, 20)
    np.maximum(shadow, 0.5 * under, out=shadow)
    nostril = _ellipse(m - 0.5 * t.nose_width, v - tip - 0.035, 0.30 * t.nose_width, 0.024, c.edge)
    np.maximum(shadow, 1.25 * nostril, out=shadow)
    shine = np.maximum(0.35 * length * np.maximum(1 - (14 * m) ** 2, 0), 0.35 * _bump(m, v - tip + 0.02, 0.1, 0.08))
    c.over(shadow, t.skin_shadow, r)
    c.over(shine, np.minimum(1.12 * t.skin_colour, 1), r)


def _paint_marks(c: _Canvas, t: SimpleNamespace) -> None:
    """Freckles, a mole, the folds of age, a beard."""
    chosen = t.freckles[:, 0, 0] > 0
    if chosen.any():
        r = c.rows(-0.35, 0.75)
        p = c.some(chosen, r)
        across, down = 9 * p.u, 9 * p.v
        row = np.floor(down)
        across += 0.569 * row
        cell = np.floor(across) * np.float32(0.7549) + row * np.float32(0.3247)
        cell -= np.floor(cell)
        spot = (across - np.floor(across) - 0.3 - 0.4 * cell) ** 2 + (down - row - 0.7 + 0.4 * cell) ** 2
        cheeks = _unit(1.6 - 3.2 * np.abs(p.v - 0.2) - 1.5 * np.abs(p.m - 0.3))
        spot = _unit(1.8 - (16 + 30 * cell) * spot) * cheeks * p.head * t.freckles[chosen]
        c.over(spot, t.skin_colour[chosen] * _rgb(0.70, 0.55, 0.45), r, chosen)
    chosen = t.mole[:, 0, 0] > 0
    if chosen.any():
        x, y = t.mole_x[chosen], t.mole_y[chosen]
        r = c.rows(y - 0.1, y + 0.1)
        p = c.some(chosen, r)
        spot = t.mole[chosen] * _ellipse(p.u - x, p.v - y, 0.034, 0.028, p.edge)
        c.over(spot, t.skin_shadow[chosen] * _rgb(0.55, 0.45, 0.42), r, chosen)
    chosen = t.age[:, 0, 0] > 0.3
    if chosen.any():
        r = c.rows(0.2, 0.8)
        p = c.some(chosen, r)
        fold = _cover(0.012 - np.abs(p.m - 0.09 - 0.35 * p.v), p.edge) * _cover(0.18 - np.abs(p.v - 0.50), 8)
        c.over(0.7 * (t.age[chosen] - 0.3) * fold, t.skin_shadow[chosen], r, chosen)
    chosen = t.beard[:, 0, 0] > 0
    if chosen.any():
        height, width, lip = t.mouth_height[chosen], t.mouth_width[chosen], t.lip_lower[chosen]
        r = c.rows(-1, 3)
        p = c.some(chosen, r)
        cheek = p.v - height + 0.04 + 1.7 * np.maximum(p.m - 0.6 * width, 0) ** 2
        mouth = 1 - (p.m * (0.95 / width)) ** 2 - ((p.v - height - 0.01) / (0.05 + lip)) ** 2
        beard = _cover(cheek, 6) * (1 - _cover(mouth, 2.5))
        moustache = _cover(0.05 - np.abs(p.v - height + 0.105 - 0.7 * p.m * p.m), 16) * _cover(1.05 * width - p.m, 14)
        c.over(np.maximum(beard, moustache) * p.head * t.beard[chosen], 0.85 * t.hair_colour[chosen], r, chosen)


def _mouth_width(t: SimpleNamespace, n: SimpleNamespace) -> Floats:
    width: Floats = t.mouth_width * (1 + 0.35 * n.smile - 0.5 * n.mouth_open)
    return width


def _paint_mouth(c: _Canvas, t: SimpleNamespace, n: SimpleNamespace) -> None:
    r = c.rows(t.mouth_height - 0.35, t.mouth_height + 0.5)
    across = c.u[:, r] * (1 / _mouth_width(t, n))
    arc = 1 - across * across
    v = c.v[:, r] - t.mouth_height - 0.30 * n.smile * (arc - 0.6) - n.skew * across
    top = v + 0.35 * n.mouth_open * arc
    bottom = n.mouth_open * arc - v
    bow = arc * (1 - 0.35 * np.maximum(1 - 9 * across * across, 0))
    lips = _cover(np.minimum(top + t.lip_upper * bow, bottom + t.lip_lower * arc), c.edge)
    c.over(lips, t.lip_now, r)
    between = _cover(arc, 5)
    inner = _cover(np.minimum(top, bottom), c.edge) * between * np.minimum(40 * n.mouth_open, 1)
    seam = 0.75 * _cover(0.010 - np.abs(v - 0.3 * n.mouth_open * arc), c.edge) * between * (1 - inner)
    c.over(seam, 0.5 * t.lip_now, r)
    c.over(inner, _rgb(0.28, 0.07, 0.08), r)
    c.over(inner * _cover(0.055 - top, c.edge) * _cover(0.85 - np.abs(across), 12), _rgb(0.93, 0.92, 0.88), r)


def _paint_eyes(c: _Canvas, t: SimpleNamespace, n: SimpleNamespace) -> None:
    r = c.rows(t.eye_height - 0.3, t.eye_height + 0.3)
    side = c.side[:, r]
    x = c.m[:, r] - t.eye_distance
    y = c.v[:, r] - t.eye_height + t.eye_tilt * x
    arc = x * (1 / t.eye_width)
    arc *= -arc
    arc += 1
    opening = t.eye_opening * (1 - n.closing)
    upper, lower = y + opening * arc, 0.75 * opening * arc - y
    white = _cover(np.minimum(upper, lower), c.edge)
    c.over(white, _rgb(0.93, 0.92, 0.90), r)
    iris_x, iris_y = x - side * n.gaze_x, y - n.gaze_y
    c.over(_ellipse(iris_x, iris_y, t.iris_size, t.iris_size, c.edge) * white, t.iris_colour, r)
    pupil = _ellipse(iris_x, iris_y, 0.5 * t.iris_size, 0.5 * t.iris_size, c.edge) * white
    c.over(pupil, _rgb(0.05, 0.05, 0.05), r)
    glint = _ellipse(iris_x + 0.03 * side, iris_y + 0.035, 0.024, 0.024, c.edge) * white
    c.over(glint, _rgb(1, 1, 1), r)
    within = _cover(arc, 4)
    crease = _cover(0.010 - np.abs(upper + 0.055), c.edge)
    np.maximum(crease, _cover(0.008 - np.abs(lower), c.edge), out=crease)
    c.over(0.45 * within * crease, t.skin_shadow, r)
    c.over(_cover(0.020 - np.abs(upper), c.edge) * within, 0.6 * t.hair_colour, r)


def _paint_brows(c: _Canvas, t: SimpleNamespace, n: SimpleNamespace) -> None:
    height = t.eye_height - t.brow_gap - n.brow_raise
    r = c.rows(height - 0.35, height + 0.35)
    x = c.m[:, r] - t.eye_distance - 0.02
    y = c.v[:, r] - height + (t.brow_tilt + n.frown) * x - t.brow_arch * x * x
    reach = 1 - (x * (0.8 / t.eye_width)) ** 2
    brows = _cover(t.brow_thickness * np.minimum(1.6 * reach, 1) - np.abs(y), c.edge)
    c.over(0.9 * brows, 0.6 * t.hair_colour, r)


def _paint_hair(c: _Canvas, t: SimpleNamespace) -> None:
    """The hair in front: above the hairline, down the temples, in strands."""
    r = c.rows(-9, 3)
    u, v = c.u[:, r], c.v[:, r]
    strands = u * (16 + 4 * v)
    strands -= np.floor(strands)
    strands -= 0.5
    np.abs(strands, out=strands)
    temple = np.maximum(c.m[:, r] - 0.62, 0)
    line = t.line + t.parting * u + 0.12 * np.clip(t.fringe, -1, 1) * (1 - 4 * u * u)
    line += 9 * t.temples * temple * temple
    line += 0.06 * t.jag * (strands - 0.25)
    front = _cover(line - v, c.edge)
    front *= _cover(1.0 + 0.5 * t.volume - c.radius[:, r], 0.5 * c.edge)
    shade = 0.82 + 0.35 * strands - 0.25 * np.minimum(3 * (v + 0.85) ** 2, 1)
    c.over(front, t.hair_now * shade[:, None], r)


# What hides a face.


def _paint_occlusions(c: _Canvas, t: SimpleNamespace, n: SimpleNamespace) -> None:
    for kind, draw in enumerate(_OCCLUSIONS):
        chosen = n.occluded & (n.occlusion == kind)
        if chosen.any():
            place = n.place[chosen]
            alpha, colour = draw(c.some(chosen, slice(None)), _take(t, chosen), [place[:, i] for i in range(5)])
            c.over(alpha, colour, chosen=chosen)


def _lens(p: SimpleNamespace, t: SimpleNamespace, place: list[Floats]) -> Floats:
    x = (p.m - t.eye_distance) / (0.30 + 0.04 * place[0])
    y = (p.v - t.eye_height - 0.03) / (0.21 + 0.06 * place[1])
    lens: Floats = 1 - x * x * x * x - y * y * y * y
    return lens


def _bridge(p: SimpleNamespace, t: SimpleNamespace) -> Floats:
    bar = 0.025 - np.abs(p.v - t.eye_height + 0.02)
    across = np.maximum(0.15 - p.m, p.m - t.eye_distance - 0.27)
    bridge: Floats = _cover(np.minimum(bar, across), p.edge) * p.head
    return bridge


def _glasses(p: SimpleNamespace, t: SimpleNamespace, place: list[Floats]) -> tuple[Floats, Floats]:
    rim = _cover(0.24 - np.abs(_lens(p, t, place) - 0.12), 0.08 * p.edge) * p.head
    return np.maximum(rim, _bridge(p, t)), _rgb(*(0.05 + 0.35 * place[i] * place[3] for i in (2, 3, 4)))


def _sunglasses(p: SimpleNamespace, t: SimpleNamespace, place: list[Floats]) -> tuple[Floats, Floats]:
    dark = _cover(_lens(p, t, place), 0.08 * p.edge) * p.head
    return 0.96 * np.maximum(dark, _bridge(p, t)), _rgb(*(0.03 + 0.15 * place[i] for i in (2, 3, 4)))


def _mask(p: SimpleNamespace, t: SimpleNamespace, place: list[Floats]) -> tuple[Floats, Floats]:
    top = t.eye_height + 0.6 * t.nose_length + 0.1 * place[0]
    folds = 6 * p.v
    folds = 1 - 0.16 * np.abs(folds - np.floor(folds) - 0.5)
    cloth = _rgb(*(0.25 + 0.7 * place[i] for i in (2, 3, 4)))
    return _cover(p.v - top - 0.25 * p.u * p.u, p.edge) * p.head, cloth * folds[:, None]


def _hat(p: SimpleNamespace, _: SimpleNamespace, place: list[Floats]) -> tuple[Floats, Floats]:
    brim = 0.12 * p.u * p.u - 0.48 + 0.2 * place[0]
    band = 1 - 0.35 * _cover(p.v - brim + 0.13, p.edge)
    wool = _rgb(*(0.1 + 0.8 * place[i] for i in (2, 3, 4)))
    return _cover(1.32 - p.radius, 0.5 * p.sharp) * _cover(brim - p.v, p.edge), wool * band[:, None]


def _hand(p: SimpleNamespace, t: SimpleNamespace, place: list[Floats]) -> tuple[Floats, Floats]:
    x = p.x * np.copysign(np.float32(1), place[0] - 0.5) - 0.42 + 0.8 * (place[1] - 0.5) * p.y
    y = p.y - 0.25 - 0.7 * place[2]
    finger = np.minimum(np.maximum(np.floor(7.5 * x), -2), 1) + 0.5
    from_middle = np.abs(7.5 * x - finger)
    fingers = np.minimum(0.48 - from_middle, 7 * (y + 0.42 - 0.05 * finger * finger))
    fingers = _cover(fingers, 0.13 * p.sharp) * _cover(0.2 - y, p.sharp)
    return np.maximum(fingers, _ellipse(x, y - 0.28, 0.27, 0.34, p.sharp)), t.skin_colour * (
        1 - 0.14 * np.minimum(from_middle, 1)
    )[:, None]


def _patch(p: SimpleNamespace, _: SimpleNamespace, place: list[Floats]) -> tuple[Floats, Floats]:
    x, y = p.x - 1.1 * (place[0] - 0.5), p.y - 1.3 * (place[1] - 0.5)
    half = 0.16 + 0.2 * place[2]
    inside = np.minimum(half - np.abs(x + 0.4 * y), 0.8 * half - np.abs(y - 0.4 * x))
    return _cover(inside, p.sharp), _rgb(*(0.1 + 0.8 * place[i] for i in (3, 4, 2)))


_Occlusion = Callable[[SimpleNamespace, SimpleNamespace, list[Floats]], tuple[Floats, Floats]]
_OCCLUSIONS: tuple[_Occlusion, ...] = (_glasses, _sunglasses, _mask, _hat, _hand, _patch)


# Light and camera.


def _light(c: _Canvas, n: SimpleNamespace) -> None:
    """Lambert's law on the head, fading around it; colour cast and exposure on everything."""
    strength = 1.35 / np.sqrt(1 + n.light_x**2 + n.light_y**2)
    shade = np.maximum(c.X, -1.1)
    np.minimum(shade, 1.1, out=shade)
    shade *= n.light_x
    down = np.maximum(c.Y, -1.1)
    np.minimum(down, 1.1, out=down)
    down *= n.light_y
    shade += down
    shade += c.z
    shade *= strength
    np.maximum(shade, 0, out=shade)
    shade -= 0.6
    shade *= _unit(2.2 - c.radius)
    shade -= 0.4
    shade *= n.contrast
    shade += 1
    c.image *= shade[:, None]
    c.image *= n.gain


def _photograph(image: Floats, n: SimpleNamespace) -> Bytes:
    """Blur and noise, each image with its own strength."""
    chosen = n.blur[:, 0, 0] > 0
    if chosen.any():
        image[chosen] = _blurred(image[chosen], n.blur[chosen][..., None])
    noise = _noise(n.key, image.shape)
    noise *= n.noise[..., None]
    image += noise
    image = _unit(image)
    image *= 255
    image += 0.5
    return image.astype(np.uint8)


def _blurred(image: Floats, sigma: Floats) -> Floats:
    """Diffusion in two steps, narrow and wide; `sigma` is a share of the image."""
    side = min(image.shape[2:])
    steps = max(1, side // 50), max(1, side // 32)
    weight = np.minimum((sigma * side) ** 2 / (2 * steps[0] ** 2 + 2 * steps[1] ** 2), np.float32(0.25))
    for step in steps:
        for low, high in ((image[:, :, :-step], image[:, :, step:]), (image[..., :-step], image[..., step:])):
            flow = high - low
            flow *= weight
            np.add(low, flow, out=low)
            np.subtract(high, flow, out=high)
    return image


def _noise(keys: Words, shape: tuple[int, ...]) -> Floats:
    """Triangular noise of unit variance, four numbers to a hashed word."""
    count = shape[1] * shape[2] * shape[3]
    halves = _words(keys, -(-count // 4)).view(np.uint16)[:, :count]
    total = ((halves & 255) + (halves >> 8)).astype(np.float32)
    total -= 255
    total *= 1 / 104.5
    return total.reshape(shape)
