"""What augmentation does to pixels as kernels for a GPU: each pixel read and written once, not once for every step."""

import triton
import triton.language as tl


@triton.jit
def move(
    images, affine, box, moved, affine_stride, box_stride,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, BLEND: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """moved[i] = the pixels of images[i] where its affine map points; the box is all of the image where it is None."""
    image = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = place < HEIGHT * WIDTH
    y = (place // WIDTH).to(tl.float32) - (HEIGHT - 1) / 2
    x = (place % WIDTH).to(tl.float32) - (WIDTH - 1) / 2
    map_ = affine + image * affine_stride
    column = tl.load(map_) * x + tl.load(map_ + 1) * y + tl.load(map_ + 2)
    row = tl.load(map_ + 3) * x + tl.load(map_ + 4) * y + tl.load(map_ + 5)
    top, bottom, left, right = 0.0, HEIGHT * 1.0, 0.0, WIDTH * 1.0
    if box is not None:
        edges = box + image * box_stride
        top, bottom, left, right = tl.load(edges), tl.load(edges + 1), tl.load(edges + 2), tl.load(edges + 3)
    above, before = tl.floor(row), tl.floor(column)
    down, across = row - above, column - before
    first = image * (CHANNELS * HEIGHT * WIDTH)
    for channel in tl.static_range(CHANNELS):
        total = tl.zeros([BLOCK], tl.float32)
        for lower in tl.static_range(1 + BLEND):
            for later in tl.static_range(1 + BLEND):
                near_row, near_column = above + lower, before + later
                weight = 1.0
                if BLEND:
                    weight = (down if lower else 1 - down) * (across if later else 1 - across)
                seen = (near_row >= top) & (near_row < bottom) & (near_column >= left) & (near_column < right) & there
                index = first + channel * HEIGHT * WIDTH + near_row.to(tl.int32) * WIDTH + near_column.to(tl.int32)
                total += tl.load(images + index, seen, 0).to(tl.float32) * weight
        tl.store(moved + first + channel * HEIGHT * WIDTH + place, total, there)


@triton.jit
def _lerp(start, end, weight):
    """torch.lerp: exactly `end` where the weight is 1."""
    return tl.where(weight < 0.5, start + weight * (end - start), end - (end - start) * (1 - weight))


@triton.jit
def _clamp(x):
    return tl.minimum(tl.maximum(x, 0.0), 1.0)


@triton.jit
def _colours(x, place, there, PIXELS: tl.constexpr, CHANNELS: tl.constexpr):
    """The three colours of some pixels, all of them the one there is in a grey image."""
    red = tl.load(x + place, there, 0.0)
    if CHANNELS == 1:
        return red, red, red
    return red, tl.load(x + PIXELS + place, there, 0.0), tl.load(x + 2 * PIXELS + place, there, 0.0)


@triton.jit
def _luma(red, green, blue, CHANNELS: tl.constexpr):
    if CHANNELS == 1:
        return red
    return red * 0.299 + green * 0.587 + blue * 0.114


@triton.jit
def finish(
    x, tone, grey, mean, std, hole, finished, stride,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, MEANS: tl.constexpr, STDS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Tone, grey, normalisation and hole of an image of floats, written channels last; what is None is left out.

    The numbers of an image lie `stride` after those of the image before it.
    """
    PIXELS: tl.constexpr = HEIGHT * WIDTH
    image = tl.program_id(0).to(tl.int64)
    x += image * (CHANNELS * PIXELS)
    finished += image * (CHANNELS * PIXELS)
    own = image * stride
    brightness, contrast, saturation, middle = 1.0, 1.0, 1.0, 0.0
    if tone is not None:
        brightness, contrast, saturation = tl.load(tone + own), tl.load(tone + own + 1), tl.load(tone + own + 2)
        total = tl.zeros([BLOCK], tl.float32)
        for start in range(0, PIXELS, BLOCK):
            place = start + tl.arange(0, BLOCK)
            red, green, blue = _colours(x, place, place < PIXELS, PIXELS, CHANNELS)
            total += _luma(_clamp(red * brightness), _clamp(green * brightness), _clamp(blue * brightness), CHANNELS)
        middle = tl.sum(total, 0) / PIXELS
    for start in range(0, PIXELS, BLOCK):
        place = start + tl.arange(0, BLOCK)
        there = place < PIXELS
        red, green, blue = _colours(x, place, there, PIXELS, CHANNELS)
        if tone is not None:
            red = _clamp(_lerp(middle, _clamp(red * brightness), contrast))
            green = _clamp(_lerp(middle, _clamp(green * brightness), contrast))
            blue = _clamp(_lerp(middle, _clamp(blue * brightness), contrast))
            light = _luma(red, green, blue, CHANNELS)
            red = _clamp(_lerp(light, red, saturation))
            green = _clamp(_lerp(light, green, saturation))
            blue = _clamp(_lerp(light, blue, saturation))
        if grey is not None:
            light = _luma(red, green, blue, CHANNELS)
            grey_now = tl.load(grey + own) > 0
            red = tl.where(grey_now, light, red)
            green = tl.where(grey_now, light, green)
            blue = tl.where(grey_now, light, blue)
        covered = place < 0
        if hole is not None:
            row, column = place // WIDTH, place % WIDTH
            edges = hole + own
            covered = (row >= tl.load(edges)) & (row < tl.load(edges + 1))
            covered = covered & (column >= tl.load(edges + 2)) & (column < tl.load(edges + 3))
        for channel in tl.static_range(CHANNELS):
            value = red if channel == 0 else (green if channel == 1 else blue)
            value -= tl.load(mean + own + (channel if MEANS > 1 else 0))
            value = tl.div_rn(value, tl.load(std + own + (channel if STDS > 1 else 0)))
            tl.store(finished + place * CHANNELS + channel, tl.where(covered, 0.0, value), there)
