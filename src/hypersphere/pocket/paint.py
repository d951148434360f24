"""The painter of pocket faces: analytic shapes on a turning head, many faces at once.

Every pixel comes from elementwise arithmetic, so that a face is the same bits alone and in any batch.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import numpy.typing as npt

from hypersphere.pocket.canvas import (
    INFINITY,
    ONE,
    ZERO,
    Canvas,
    at_most,
    bump,
    cover,
    ellipse,
    positive,
    take,
    unit_interval,
)
from hypersphere.pocket.faces import (
    NOSE_HEIGHT,
    Floats,
    Integers,
    Words,
    describe_faces,
    hashed_words,
    mouth_width,
    rgb,
)
from hypersphere.pocket.occlusions import paint_occlusions

Bytes = npt.NDArray[np.uint8]

_CHUNK = 65_536
"""Pixels painted at a time: enough to hide the cost of a call, few enough for the cache."""


def paint_faces(seed: int, identities: Integers, indices: Integers, size: tuple[int, int], difficulty: float) -> Bytes:
    """(B, 3, H, W): image `indices[i]` of `identities[i]`."""
    _keep_memory()
    t, n = describe_faces(seed, identities, indices, difficulty)
    images = np.empty((len(identities), 3, *size), np.uint8)
    step = max(1, _CHUNK // (size[0] * size[1]))
    for start in range(0, len(identities), step):
        part = slice(start, start + step)
        images[part] = _paint(take(t, part), take(n, part), size)
    return images


def _keep_memory() -> None:
    """Allocate and free one large block: glibc then keeps freed memory for the next plane instead of handing it back
    to the system, which would cost a third of the speed."""
    np.empty(2**24, np.uint8)


def _paint(t: SimpleNamespace, n: SimpleNamespace, size: tuple[int, int]) -> Bytes:
    c = Canvas(t, n, size)
    _paint_backdrop(c, n)
    _paint_behind(c, t, n)
    c.over(c.head, t.skin_colour)
    _paint_relief(c, t, n)
    _paint_marks(c, t)
    _paint_mouth(c, t, n)
    _paint_eyes(c, t, n)
    _paint_brows(c, t, n)
    _paint_hair(c, t)
    paint_occlusions(c, t, n)
    _light(c, n)
    return _photograph(c.image, n)


def _paint_backdrop(c: Canvas, n: SimpleNamespace) -> None:
    b = n.backdrop
    one, two = _muted(b[:, 0:3, None, 0]), _muted(b[:, 3:6, None, 0])
    angle = np.float32(2 * np.pi) * b[:, 6]
    slope = unit_interval(0.5 + 0.4 * (np.cos(angle) * c.across + np.sin(angle) * c.down))
    np.multiply((two - one) * (0.35 + 0.6 * b[:, 7, None]), slope[:, None], out=c.image)
    c.image += one * (0.35 + 0.6 * b[:, 7, None])


def _muted(colour: Floats) -> Floats:
    muted: Floats = 0.5 * (colour + colour.mean(axis=1, keepdims=True))
    return muted


def _paint_behind(c: Canvas, t: SimpleNamespace, n: SimpleNamespace) -> None:
    """Long hair, neck, clothes, hair around the head, ears: what the head covers."""
    x = c.x - 0.12 * n.sin_yaw
    span = t.head_width * (1 + t.volume)
    long = t.length[:, 0, 0] > 0
    if long.any():
        fall = np.minimum(span[long] * (1.02 + 0.1 * c.y[long]) - np.abs(x[long]), 1.15 * t.length[long] - c.y[long])
        fall = np.minimum(fall, c.y[long] + 0.2)
        c.over(cover(fall, c.sharp[long]), 0.8 * t.hair_now[long], chosen=long)
    lower = slice(len(c.down) // 2, None)
    y, beside = c.y[:, lower], np.abs(c.x[:, lower])
    neck = np.minimum(0.52 * t.head_width + 0.25 * (y - 0.7) ** 2 - beside, y - 0.2)
    c.over(cover(neck, c.sharp), 0.85 * t.skin_shadow, lower)
    shirt = y - 0.92 - 0.18 * at_most(beside * beside, 2) - 0.3 * positive(0.3 - beside)
    c.over(cover(shirt, c.sharp), 0.1 + 0.75 * _muted(n.cloth), lower)
    cap = ellipse(x, c.y + 0.06 * t.head_height, span, t.head_height * (1 + 0.9 * t.volume), c.sharp)
    cap *= cover(t.nape - c.y, c.sharp)
    c.over(cap, 0.9 * t.hair_now)
    beside = np.abs(c.x + 0.22 * t.head_width * n.sin_yaw) - 0.99 * t.head_width
    c.over(ellipse(beside, c.y - 0.08, 0.75 * t.ear_size, 1.4 * t.ear_size, c.sharp), 0.92 * t.skin_colour)


def _paint_relief(c: Canvas, t: SimpleNamespace, n: SimpleNamespace) -> None:
    """Eye sockets, cheeks and nose, in shadow and highlight. The nose turns with the head, by its height."""
    tip = t.eye_height + t.nose_length
    r = c.rows(t.eye_height - 0.3, tip + 0.3)
    v, m = c.v[:, r], c.m[:, r]
    c.over(0.22 * bump(m - 0.46, v - 0.30, 0.27, 0.22), t.skin_colour * rgb(1.02, 0.72, 0.70), r)
    shadow = 0.30 * bump(m - t.eye_distance + 0.04, v - t.eye_height + 0.03, 0.27, 0.18)
    along = (v - t.eye_height) * (1 / t.nose_length)
    along = along.clip(ZERO, np.float32(1.2))
    m = np.abs(c.u[:, r] - NOSE_HEIGHT * n.sin_yaw * along)
    v = v - NOSE_HEIGHT * n.sin_pitch * along
    length = cover(np.minimum(v - t.eye_height + 0.05, tip + 0.02 - v), 9)
    flank = np.abs(m - t.nose_width * (0.27 + 0.53 * along * along))
    np.maximum(shadow, 0.42 * length * positive(1 - 16 * flank), out=shadow)
    under = cover(0.022 - np.abs(v - tip - 0.055 + 0.9 * m * m), 0.7 * c.edge) * cover(t.nose_width - m, 20)
    np.maximum(shadow, 0.5 * under, out=shadow)
    nostril = ellipse(m - 0.5 * t.nose_width, v - tip - 0.035, 0.30 * t.nose_width, 0.024, c.edge)
    np.maximum(shadow, 1.25 * nostril, out=shadow)
    shine = np.maximum(0.35 * length * positive(1 - (14 * m) ** 2), 0.35 * bump(m, v - tip + 0.02, 0.1, 0.08))
    c.over(shadow, t.skin_shadow, r)
    c.over(shine, np.minimum(1.12 * t.skin_colour, 1), r)


def _paint_marks(c: Canvas, t: SimpleNamespace) -> None:
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
        cheeks = unit_interval(1.6 - 3.2 * np.abs(p.v - 0.2) - 1.5 * np.abs(p.m - 0.3))
        spot = unit_interval(1.8 - (16 + 30 * cell) * spot) * cheeks * p.head * t.freckles[chosen]
        c.over(spot, t.skin_colour[chosen] * rgb(0.70, 0.55, 0.45), r, chosen)
    chosen = t.mole[:, 0, 0] > 0
    if chosen.any():
        x, y = t.mole_x[chosen], t.mole_y[chosen]
        r = c.rows(y - 0.1, y + 0.1)
        p = c.some(chosen, r)
        spot = t.mole[chosen] * ellipse(p.u - x, p.v - y, 0.034, 0.028, p.edge)
        c.over(spot, t.skin_shadow[chosen] * rgb(0.55, 0.45, 0.42), r, chosen)
    chosen = t.age[:, 0, 0] > 0.3
    if chosen.any():
        r = c.rows(0.2, 0.8)
        p = c.some(chosen, r)
        fold = cover(0.012 - np.abs(p.m - 0.09 - 0.35 * p.v), p.edge) * cover(0.18 - np.abs(p.v - 0.50), 8)
        c.over(0.7 * (t.age[chosen] - 0.3) * fold, t.skin_shadow[chosen], r, chosen)
    chosen = t.beard[:, 0, 0] > 0
    if chosen.any():
        height, width, lip = t.mouth_height[chosen], t.mouth_width[chosen], t.lip_lower[chosen]
        r = c.rows(-1, 3)
        p = c.some(chosen, r)
        cheek = p.v - height + 0.04 + 1.7 * positive(p.m - 0.6 * width) ** 2
        mouth = 1 - (p.m * (0.95 / width)) ** 2 - ((p.v - height - 0.01) / (0.05 + lip)) ** 2
        beard = cover(cheek, 3.5) * (1 - cover(mouth, 2.5))
        moustache = cover(0.05 - np.abs(p.v - height + 0.105 - 0.7 * p.m * p.m), 16) * cover(1.05 * width - p.m, 14)
        c.over(np.maximum(beard, moustache) * p.head * t.beard[chosen], 0.85 * t.hair_colour[chosen], r, chosen)


def _paint_mouth(c: Canvas, t: SimpleNamespace, n: SimpleNamespace) -> None:
    r = c.rows(t.mouth_height - 0.35, t.mouth_height + 0.5)
    across = c.u[:, r] * (1 / mouth_width(t, n))
    arc = 1 - across * across
    v = c.v[:, r] - t.mouth_height - 0.30 * n.smile * (arc - 0.6) - n.skew * across
    top = v + 0.35 * n.mouth_open * arc
    bottom = n.mouth_open * arc - v
    bow = arc * (1 - 0.35 * positive(1 - 9 * across * across))
    lips = cover(np.minimum(top + t.lip_upper * bow, bottom + t.lip_lower * arc), c.edge)
    c.over(lips, t.lip_now, r)
    between = cover(arc, 5)
    inner = cover(np.minimum(top, bottom), c.edge) * between * np.minimum(40 * n.mouth_open, 1)
    seam = 0.75 * cover(0.010 - np.abs(v - 0.3 * n.mouth_open * arc), c.edge) * between * (1 - inner)
    c.over(seam, 0.5 * t.lip_now, r)
    c.over(inner, rgb(0.28, 0.07, 0.08), r)
    c.over(inner * cover(0.055 - top, c.edge) * cover(0.85 - np.abs(across), 12), rgb(0.93, 0.92, 0.88), r)


def _paint_eyes(c: Canvas, t: SimpleNamespace, n: SimpleNamespace) -> None:
    r = c.rows(t.eye_height - 0.3, t.eye_height + 0.3)
    side = np.copysign(ONE, c.u[:, r])
    x = c.m[:, r] - t.eye_distance
    y = c.v[:, r] - t.eye_height + t.eye_tilt * x
    arc = x * (1 / t.eye_width)
    arc *= -arc
    arc += 1
    opening = t.eye_opening * (1 - n.closing)
    upper, lower = y + opening * arc, 0.75 * opening * arc - y
    white = cover(np.minimum(upper, lower), c.edge)
    c.over(white, rgb(0.93, 0.92, 0.90), r)
    iris_x, iris_y = x - side * n.gaze_x, y - n.gaze_y
    c.over(ellipse(iris_x, iris_y, t.iris_size, t.iris_size, c.edge) * white, t.iris_colour, r)
    pupil = ellipse(iris_x, iris_y, 0.5 * t.iris_size, 0.5 * t.iris_size, c.edge) * white
    c.over(pupil, rgb(0.05, 0.05, 0.05), r)
    glint = ellipse(iris_x + 0.03 * side, iris_y + 0.035, 0.024, 0.024, c.edge) * white
    c.over(glint, rgb(1, 1, 1), r)
    within = cover(arc, 4)
    crease = cover(0.010 - np.abs(upper + 0.055), c.edge)
    np.maximum(crease, cover(0.008 - np.abs(lower), c.edge), out=crease)
    c.over(0.45 * within * crease, t.skin_shadow, r)
    c.over(cover(0.020 - np.abs(upper), c.edge) * within, 0.6 * t.hair_colour, r)


def _paint_brows(c: Canvas, t: SimpleNamespace, n: SimpleNamespace) -> None:
    height = t.eye_height - t.brow_gap - n.brow_raise
    r = c.rows(height - 0.35, height + 0.35)
    x = c.m[:, r] - t.eye_distance - 0.02
    y = c.v[:, r] - height + (t.brow_tilt + n.frown) * x - t.brow_arch * x * x
    reach = 1 - (x * (0.8 / t.eye_width)) ** 2
    brows = cover(t.brow_thickness * at_most(1.6 * reach, 1) - np.abs(y), c.edge)
    c.over(0.9 * brows, 0.6 * t.hair_colour, r)


def _paint_hair(c: Canvas, t: SimpleNamespace) -> None:
    """The hair in front: above the hairline, down the temples, in strands."""
    r = c.rows(-9, 3)
    u, v = c.u[:, r], c.v[:, r]
    strands = u * (16 + 4 * v)
    strands -= np.floor(strands)
    strands -= 0.5
    np.abs(strands, out=strands)
    temple = positive(c.m[:, r] - 0.62)
    line = t.line + t.parting * u + 0.12 * np.clip(t.fringe, -1, 1) * (1 - 4 * u * u)
    line += 9 * t.temples * temple * temple
    line += 0.06 * t.jag * (strands - 0.25)
    front = cover(line - v, c.edge)
    front *= cover(1.0 + 0.5 * t.volume - c.radius[:, r], 0.5 * c.edge)
    shade = 0.82 + 0.35 * strands - 0.25 * at_most(3 * (v + 0.85) ** 2, 1)
    c.over(front, t.hair_now * shade[:, None], r)


def _light(c: Canvas, n: SimpleNamespace) -> None:
    """Lambert's law on the head, fading around it; colour cast and exposure on everything."""
    strength = 1.35 / np.sqrt(1 + n.light_x**2 + n.light_y**2)
    limit = np.float32(1.1)
    shade = c.X.clip(-limit, limit)
    shade *= n.light_x
    shade += c.Y.clip(-limit, limit) * n.light_y
    shade += c.z
    shade *= strength
    shade.clip(ZERO, INFINITY, out=shade)
    shade -= 0.6
    shade *= unit_interval(4 - 2.5 * c.radius)
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
    image = unit_interval(image)
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
    halves = hashed_words(keys, -(-count // 4)).view(np.uint16)[:, :count]
    total = ((halves & 255) + (halves >> 8)).astype(np.float32)
    total -= 255
    total *= 1 / 104.5
    return total.reshape(shape)
