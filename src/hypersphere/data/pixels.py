"""What augmentation does to the pixels of a batch: every image by its own numbers, without waiting for the device."""

from __future__ import annotations

import torch
from torch import Tensor

_LUMA = (0.299, 0.587, 0.114)


def move(images: Tensor, affine: Tensor, box: Tensor | None, *, blend: bool) -> Tensor:
    """Sample every image where its affine map points, black outside.

    Coordinates are pixels, not shares of the size as in `grid_sample`: where a map leads from pixels to pixels, the
    weights are exactly 0 and 1 and so are the results.

    Args:
        images: uint8 (B, C, H, W).
        affine: (B, 6), the rows (a, b, c) and (d, e, f): the output pixel (x, y), counted from the middle of the
            image, shows the source pixel (a x + b y + c, d x + e y + f), counted from the left upper one.
        box: (B, 4), top, bottom, left, right of the pixels that are seen, the second and fourth excluded; all of them
            by default.
        blend: bilinear; without it the maps must lead from pixels to pixels.

    Returns:
        float32 (B, C, H, W) between 0 and 255.
    """
    channels, height, width = images.shape[1:]
    y = torch.arange(height, device=images.device)[:, None] - (height - 1) / 2
    x = torch.arange(width, device=images.device) - (width - 1) / 2
    a, b, c, d, e, f = (each[:, None, None] for each in affine.unbind(1))
    seen = (0, height, 0, width) if box is None else tuple(each[:, None, None] for each in box.unbind(1))
    columns = _neighbours(a * x + b * y + c, width, seen[2], seen[3], blend=blend)
    rows = _neighbours(d * x + e * y + f, height, seen[0], seen[1], blend=blend)
    pixels = images.flatten(2)
    moved = torch.zeros(images.shape, device=images.device)
    for row, row_weight in rows:
        for column, column_weight in columns:
            index = (row * width + column).flatten(1)[:, None].expand(-1, channels, -1)
            moved += pixels.gather(2, index).view(images.shape) * (row_weight * column_weight)[:, None]
    return moved


def flip(images: Tensor, chosen: Tensor) -> Tensor:
    """Flip the images with a 1 in `chosen` (B, 1) left to right."""
    return torch.where(chosen[:, :, None, None] > 0, images.flip(-1), images)


def lower_resolution(x: Tensor, scale: Tensor) -> Tensor:
    """Shrink every image by its own factor, antialiased, and enlarge it again, both bilinear.

    Both are linear in rows and in columns: the image X becomes U_h D_h X (U_w D_w)^T, with the weights of
    `functional.interpolate(antialias=True)` in D and those of `functional.interpolate` in U. One product of matrices
    for the rows of all images and one for their columns take the place of a loop over sizes. On a CPU the images that
    stay as they are cost nothing; elsewhere the host would have to wait to know them.

    Args:
        x: (B, C, H, W), between 0 and 1.
        scale: (B, 1), the small size as a share of the whole one, rounded to pixels; 1 leaves an image as it is.
    """
    if x.device.type == "cpu" and not torch.compiler.is_compiling():
        chosen = (scale[:, 0] < 1).nonzero()[:, 0]
        return x.index_copy(0, chosen, _lowered(x[chosen], scale[chosen]))
    return torch.where(scale[:, :, None, None] < 1, _lowered(x, scale), x)


def tone(x: Tensor, factors: Tensor) -> Tensor:
    """Multiply brightness, contrast and saturation of every image by its own (B, 3) factors; 1 changes nothing."""
    brightness, contrast, saturation = (each[:, None, None, None] for each in factors.unbind(1))
    x = (x * brightness).clamp(0, 1)
    x = torch.lerp(luma(x).mean((2, 3), keepdim=True), x, contrast).clamp(0, 1)
    return torch.lerp(luma(x), x, saturation).clamp(0, 1)


def lose_colour(x: Tensor, chosen: Tensor) -> Tensor:
    """Make the images with a 1 in `chosen` (B, 1) grey."""
    return torch.where(chosen[:, :, None, None] > 0, luma(x), x)


def erase(x: Tensor, box: Tensor) -> Tensor:
    """Set a rectangle of every image to 0; `box` (B, 4) as in `move`."""
    rows = torch.arange(x.shape[2], device=x.device)[:, None]
    columns = torch.arange(x.shape[3], device=x.device)
    return x.masked_fill(_inside(rows, columns, box)[:, None], 0.0)


def luma(x: Tensor) -> Tensor:
    """The brightness of every pixel (ITU-R BT.601), (B, 1, H, W)."""
    if x.shape[1] == 1:
        return x
    red, green, blue = x.chunk(3, 1)
    return red * _LUMA[0] + green * _LUMA[1] + blue * _LUMA[2]


def _neighbours(
    place: Tensor, size: int, first: Tensor | int, end: Tensor | int, *, blend: bool
) -> list[tuple[Tensor, Tensor]]:
    """The pixels on either side of places on a line, and their bilinear weights, 0 outside of first .. end - 1."""
    before = place.floor()
    share = place - before
    sides = [(before, 1 - share), (before + 1, share)] if blend else [(before, torch.ones_like(share))]
    return [(each.clamp(0, size - 1).long(), weight * ((each >= first) & (each < end))) for each, weight in sides]


def _inside(row: Tensor, column: Tensor, box: Tensor) -> Tensor:
    top, bottom, left, right = (each[:, None, None] for each in box.unbind(1))
    return (row >= top) & (row < bottom) & (column >= left) & (column < right)


def _lowered(x: Tensor, scale: Tensor) -> Tensor:
    height, width = x.shape[2:]
    rows = _there_and_back(scale, height)
    columns = rows if height == width else _there_and_back(scale, width)
    low = (x.flatten(1, 2) @ columns.mT).view(x.shape)
    return (rows[:, None] @ low).clamp(0, 1)


def _there_and_back(scale: Tensor, size: int) -> Tensor:
    """The (B, size, size) matrices that shrink a line of `size` pixels by `scale` (B, 1) and enlarge it again."""
    small = (scale * size).round().clamp(1, size)[:, :, None]
    odd = 2 * torch.arange(size, device=scale.device) + 1
    shrink = (1 - (small * odd - size * odd[:, None]).abs() / (2 * size)).clamp(min=0)
    shrink = shrink / shrink.sum(2, keepdim=True).clamp(min=1e-6)
    source = ((small * odd[:, None] - size) / (2 * size)).clamp(min=0).minimum(small - 1)
    enlarge = (1 - (source - odd // 2).abs()).clamp(min=0)
    return enlarge @ shrink
