"""Who is on a pocket face, and how it looks today: all numbers from a counter-based hash of (seed, identity, index)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

TRAITS: dict[str, tuple[float, float]] = {
    "head_width": (0.60, 0.026),
    "head_height": (0.79, 0.022),
    "jaw": (0.14, 0.10),
    "forehead": (0.04, 0.05),
    "skin": (0.32, 0.21),
    "undertone": (0.0, 1.0),
    "eye_distance": (0.425, 0.026),
    "eye_height": (0.03, 0.03),
    "eye_width": (0.190, 0.016),
    "eye_opening": (0.095, 0.014),
    "eye_tilt": (0.05, 0.10),
    "iris_hue": (0.0, 1.0),
    "iris_light": (0.35, 0.22),
    "iris_size": (0.088, 0.006),
    "brow_gap": (0.205, 0.022),
    "brow_thickness": (0.040, 0.010),
    "brow_arch": (0.8, 0.45),
    "brow_tilt": (0.05, 0.10),
    "nose_length": (0.35, 0.034),
    "nose_width": (0.125, 0.020),
    "mouth_height": (0.62, 0.022),
    "mouth_width": (0.29, 0.030),
    "lip_upper": (0.050, 0.010),
    "lip_lower": (0.065, 0.014),
    "lip_red": (0.5, 0.19),
    "ear_size": (0.115, 0.016),
    "hair_light": (0.25, 0.21),
    "hair_red": (0.3, 0.22),
    "hair_volume": (0.09, 0.038),
    "hair_length": (0.2, 0.55),
    "hairline": (-0.58, 0.08),
    "fringe": (0.0, 1.0),
    "parting": (0.0, 0.12),
    "beard": (-0.35, 0.75),
    "freckles": (-0.4, 0.6),
    "age": (0.3, 0.5),
    "mole": (-0.2, 1.0),
    "mole_x": (0.0, 0.30),
    "mole_y": (0.35, 0.25),
}
"""What an identity is: one Gaussian latent number for each trait, with the trait's centre and spread."""

OCCLUSIONS = ("glasses", "sunglasses", "mask", "hat", "hand", "patch")

NOSE_HEIGHT = 0.22
"""How far the tip of the nose stands out of a head of radius 1."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def latents(seed: int, identities: Integers) -> Doubles:
    """(B, len(TRAITS)): the latent vectors of identities."""
    return _normal(_key(seed, identities, np.zeros(1, np.int64)), len(TRAITS))


def describe_faces(
    seed: int, identities: Integers, indices: Integers, difficulty: float
) -> tuple[SimpleNamespace, SimpleNamespace]:
    """Everything about image `indices[i]` of `identities[i]`: what is the person's, and what is the image's.

    Numbers are (B, 1, 1) columns, colours (B, 3, 1, 1), to be broadcast over pixels.
    """
    t, n = _traits(seed, identities), _nuisance(seed, identities, indices, difficulty)
    _wear(t, n)
    return t, n


def face_landmarks(
    seed: int, identities: Integers, indices: Integers, size: tuple[int, int], difficulty: float
) -> Floats:
    """(B, 5, 2): eyes, nose tip, mouth corners in pixels (x, y), image-left first; the first pixel's centre is 0."""
    t, n = describe_faces(seed, identities, indices, difficulty)
    tip = t.eye_height + t.nose_length
    width = mouth_width(t, n)
    corner = t.mouth_height - 0.18 * n.smile
    u = np.concatenate([-t.eye_distance, t.eye_distance, 0 * tip, -width, width], axis=1)
    v = np.concatenate([t.eye_height, t.eye_height, tip, corner - n.skew, corner + n.skew], axis=1)
    z = np.sqrt(np.maximum(1 - u * u - v * v, 0))
    z[:, 2] += NOSE_HEIGHT
    y = v * n.cos_pitch + z * n.sin_pitch
    x = u * n.cos_yaw + (z * n.cos_pitch - v * n.sin_pitch) * n.sin_yaw
    x = x * t.head_width * taper(t, y)
    y = y * t.head_height
    unit = min(size) / 2
    across = (x * n.cos_roll - y * n.sin_roll) * n.scale + n.dx
    down = (x * n.sin_roll + y * n.cos_roll) * n.scale + n.dy
    pixels = [across * unit + (size[1] - 1) / 2, down * unit + (size[0] - 1) / 2]
    return np.concatenate(pixels, axis=2, dtype=np.float32)


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


def hashed_words(keys: Words, count: int) -> Words:
    """(B, count) random words."""
    return _mix(keys[:, None] + np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN)


def _uniform(keys: Words, count: int) -> Doubles:
    """(B, count) in (0, 1)."""
    return ((hashed_words(keys, count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _normal(keys: Words, count: int) -> Doubles:
    """(B, count), standard Gaussian (Box and Muller)."""
    u = _uniform(keys, 2 * count)
    return np.sqrt(-2.0 * np.log(u[:, :count])) * np.cos(2.0 * np.pi * u[:, count:])


def _column(values: Doubles) -> Floats:
    return values.astype(np.float32)[:, None, None]


def rgb(*channels: Any) -> Floats:
    """(B, 3, 1, 1) from three columns, (1, 3, 1, 1) from three numbers."""
    return np.stack([np.asarray(channel, np.float32).reshape(-1, 1, 1) for channel in channels], axis=1)


def _palette(stops: list[tuple[int, int, int]], at: Floats) -> Floats:
    """(B, 3, 1, 1): the colour at a place in [0, 1] along a list of colours."""
    place = np.clip(at, 0, 1)[:, 0, 0] * (len(stops) - 1)
    return rgb(*(np.interp(place, range(len(stops)), np.array(stops)[:, c] / 255) for c in range(3)))


def _blend(low: Any, high: Any, weight: Any) -> Any:
    return low + (high - low) * weight


def _traits(seed: int, identities: Integers) -> SimpleNamespace:
    z = np.clip(latents(seed, identities), -2.5, 2.5)
    t = SimpleNamespace(
        **{name: _column(centre + spread * z[:, i]) for i, (name, (centre, spread)) in enumerate(TRAITS.items())}
    )
    skin = _palette([(250, 220, 198), (236, 190, 155), (205, 150, 108), (150, 98, 66), (92, 58, 42)], t.skin)
    t.skin_colour = skin * rgb(1 + 0.03 * t.undertone, np.ones_like(t.skin), 1 - 0.05 * t.undertone)
    t.skin_shadow = t.skin_colour * rgb(0.72, 0.64, 0.62)
    t.lip_colour = t.skin_colour * rgb(0.94, 0.60, 0.62) * (1 - 0.12 * t.lip_red[:, None])
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
    t.bald = np.clip((t.age - 0.7) * 4, 0, 1) * (t.hair_length < 0.1)
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

    n = SimpleNamespace(key=_mix(_mix(key)))
    for angle, spread, limit in (("yaw", 0.26, 0.75), ("pitch", 0.13, 0.4), ("roll", 0.12, 0.6)):
        radians = np.clip(spread * next(normal), -limit, limit)
        setattr(n, f"cos_{angle}", _column(np.cos(radians)))
        setattr(n, f"sin_{angle}", _column(np.sin(radians)))
    n.dx = around(0, 0.042, -0.25, 0.25)
    n.dy = around(0.06, 0.042, -0.2, 0.3)
    n.scale = factor(0.06, 0.3)
    n.smile = around(0.12, 0.14, -0.3, 0.5)
    n.skew = around(0, 0.018, -0.06, 0.06)
    n.mouth_open = around(-0.03, 0.10, 0, 0.22)
    n.brow_raise = around(0, 0.03, -0.05, 0.1)
    n.frown = around(0, 0.10, -0.3, 0.3)
    n.closing = around(-0.1, 0.30, -0.3, 0.92)
    n.gaze_x = around(0, 0.05, -0.1, 0.1)
    n.gaze_y = around(0, 0.018, -0.04, 0.04)
    n.light_x = around(0, 0.54, -1.2, 1.2)
    n.light_y = around(-0.25, 0.36, -1.2, 1.0)
    n.gain = factor(0.19, 0.55)[:, None] * rgb(factor(0.085, 0.3), factor(0.085, 0.3), factor(0.085, 0.3))
    n.hair_shade = factor(0.12, 0.4)
    n.haircut = around(0, 1.0, -2.5, 2.5)
    n.make_up = around(0, 0.10, -0.25, 0.25)
    n.noise = np.abs(around(0, 0.024, -1, 1))
    n.blur = around(-0.002, 0.0085, 0, 0.022)
    n.contrast = np.clip(0.35 + 0.42 * d * shares(1)[0], 0, 0.95)
    n.occluded = next(uniform) < min(0.9, 0.24 * d)
    n.occlusion = (next(uniform) * len(OCCLUSIONS)).astype(np.int64)
    n.place = np.stack(shares(5), axis=1)
    plain = d == 0
    n.backdrop = 0.5 + (np.stack(shares(8), axis=1) - 0.5) * (not plain)
    n.cloth = 0.5 + (rgb(*shares(3)) - 0.5) * (not plain)
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


def mouth_width(t: SimpleNamespace, n: SimpleNamespace) -> Floats:
    """Half the mouth, stretched by a smile."""
    width: Floats = t.mouth_width * (1 + 0.35 * n.smile - 0.5 * n.mouth_open)
    return width


def taper(t: SimpleNamespace, y: Floats) -> Floats:
    """The breadth of the head at a height: narrower towards the chin and the crown."""
    both = y * y
    one_sided = y * np.abs(y)
    less: Floats = 0.5 * ((t.jaw + t.forehead) * both + (t.jaw - t.forehead) * one_sided)
    return (1 - less).clip(np.float32(0.3), np.float32(2))
