"""What is in front of a pocket face: glasses, a mask, a hat, a hand, a patch."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np

from hypersphere.pocket.canvas import ONE, Canvas, at_most, cover, ellipse, take
from hypersphere.pocket.faces import OCCLUSIONS, Floats, rgb


def paint_occlusions(c: Canvas, t: SimpleNamespace, n: SimpleNamespace) -> None:
    for kind, name in enumerate(OCCLUSIONS):
        chosen = n.occluded & (n.occlusion == kind)
        if chosen.any():
            place = n.place[chosen]
            alpha, colour = _OCCLUDERS[name](
                c.some(chosen, slice(None)), take(t, chosen), [place[:, i] for i in range(5)]
            )
            c.over(alpha, colour, chosen=chosen)


def _lens(p: SimpleNamespace, t: SimpleNamespace, place: list[Floats]) -> Floats:
    x = (p.m - t.eye_distance) / (0.30 + 0.04 * place[0])
    y = (p.v - t.eye_height - 0.03) / (0.21 + 0.06 * place[1])
    lens: Floats = 1 - x * x * x * x - y * y * y * y
    return lens


def _bridge(p: SimpleNamespace, t: SimpleNamespace) -> Floats:
    bar = 0.025 - np.abs(p.v - t.eye_height + 0.02)
    across = np.maximum(0.15 - p.m, p.m - t.eye_distance - 0.27)
    bridge: Floats = cover(np.minimum(bar, across), p.edge) * p.head
    return bridge


def _glasses(p: SimpleNamespace, t: SimpleNamespace, place: list[Floats]) -> tuple[Floats, Floats]:
    rim = cover(0.24 - np.abs(_lens(p, t, place) - 0.12), 0.08 * p.edge) * p.head
    return np.maximum(rim, _bridge(p, t)), rgb(*(0.05 + 0.35 * place[i] * place[3] for i in (2, 3, 4)))


def _sunglasses(p: SimpleNamespace, t: SimpleNamespace, place: list[Floats]) -> tuple[Floats, Floats]:
    dark = cover(_lens(p, t, place), 0.08 * p.edge) * p.head
    return 0.96 * np.maximum(dark, _bridge(p, t)), rgb(*(0.03 + 0.15 * place[i] for i in (2, 3, 4)))


def _mask(p: SimpleNamespace, t: SimpleNamespace, place: list[Floats]) -> tuple[Floats, Floats]:
    top = t.eye_height + 0.6 * t.nose_length + 0.1 * place[0]
    folds = 6 * p.v
    folds = 1 - 0.16 * np.abs(folds - np.floor(folds) - 0.5)
    cloth = rgb(*(0.25 + 0.7 * place[i] for i in (2, 3, 4)))
    return cover(p.v - top - 0.25 * p.u * p.u, p.edge) * p.head, cloth * folds[:, None]


def _hat(p: SimpleNamespace, _: SimpleNamespace, place: list[Floats]) -> tuple[Floats, Floats]:
    brim = 0.12 * p.u * p.u - 0.48 + 0.2 * place[0]
    band = 1 - 0.35 * cover(p.v - brim + 0.13, p.edge)
    wool = rgb(*(0.1 + 0.8 * place[i] for i in (2, 3, 4)))
    return cover(1.32 - p.radius, 0.5 * p.sharp) * cover(brim - p.v, p.edge), wool * band[:, None]


def _hand(p: SimpleNamespace, t: SimpleNamespace, place: list[Floats]) -> tuple[Floats, Floats]:
    x = p.x * np.copysign(np.float32(1), place[0] - 0.5) - 0.42 + 0.8 * (place[1] - 0.5) * p.y
    y = p.y - 0.25 - 0.7 * place[2]
    finger = np.floor(7.5 * x).clip(np.float32(-2), ONE) + 0.5
    from_middle = np.abs(7.5 * x - finger)
    fingers = np.minimum(0.48 - from_middle, 7 * (y + 0.42 - 0.05 * finger * finger))
    fingers = cover(fingers, 0.13 * p.sharp) * cover(0.2 - y, p.sharp)
    return np.maximum(fingers, ellipse(x, y - 0.28, 0.27, 0.34, p.sharp)), t.skin_colour * (
        1 - 0.14 * at_most(from_middle, 1)
    )[:, None]


def _patch(p: SimpleNamespace, _: SimpleNamespace, place: list[Floats]) -> tuple[Floats, Floats]:
    x, y = p.x - 1.1 * (place[0] - 0.5), p.y - 1.3 * (place[1] - 0.5)
    half = 0.16 + 0.2 * place[2]
    inside = np.minimum(half - np.abs(x + 0.4 * y), 0.8 * half - np.abs(y - 0.4 * x))
    return cover(inside, p.sharp), rgb(*(0.1 + 0.8 * place[i] for i in (3, 4, 2)))


_Occluder = Callable[[SimpleNamespace, SimpleNamespace, list[Floats]], tuple[Floats, Floats]]
_OCCLUDERS: dict[str, _Occluder] = {
    "glasses": _glasses,
    "sunglasses": _sunglasses,
    "mask": _mask,
    "hat": _hat,
    "hand": _hand,
    "patch": _patch,
}
