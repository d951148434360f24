"""What augmentation does to the pixels of a batch: every image by its own numbers, without waiting for the device."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from hypersphere.engines.triton.available import kernels_run

_LUMA = (0.299, 0.587, 0.114)
_BLACK = 2
"""Black pixels on every side of an image: those next to a place outside of it are among them."""
_BLOCK = 1024
"""Pixels that a program of a kernel works on at once."""


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
    if runs_kernels(images):
        return move_fused(images, affine, box, blend=blend)
    channels, height, width = images.shape[1:]
    if box is not None:
        images = images * _inside(images, box)
    line = width + 2 * _BLACK
    padded = functional.pad(images, (_BLACK,) * 4).flatten(2)
    y = torch.arange(height, device=images.device)[:, None] - (height - 1) / 2
    x = torch.arange(width, device=images.device) - (width - 1) / 2
    a, b, c = affine.view(-1, 2, 3, 1, 1).unbind(2)
    place = a * x + b * y + c  # (B, 2, H, W): the column and the row
    before = place.floor()
    column, row = (before + _BLACK).unbind(1)
    index = row.clamp(0, height + _BLACK).long() * line + column.clamp(0, width + _BLACK).long()
    index = index.flatten(1)[:, None].expand(-1, channels, -1)
    if not blend:
        return padded.gather(2, index).view(images.shape).float()
    after = place - before
    moved = torch.zeros(images.shape, device=images.device)
    (left, upper), (right, lower) = (1 - after).unbind(1), after.unbind(1)
    for row_weight, below in ((upper, 0), (lower, line)):
        for column_weight, beside in ((left, 0), (right, 1)):
            neighbour = padded[:, :, below + beside :].gather(2, index).view(images.shape)
            moved += neighbour * (row_weight * column_weight)[:, None]
    return moved


def move_fused(images: Tensor, affine: Tensor, box: Tensor | None, *, blend: bool) -> Tensor:
    """`move` as one kernel."""
    from hypersphere.data import pixel_kernels

    count, channels, height, width = images.shape
    moved = torch.empty(images.shape, device=images.device)
    pixel_kernels.move[(count, math.ceil(height * width / _BLOCK))](
        images.contiguous(), affine, box, moved, affine.stride(0), 0 if box is None else box.stride(0),
        HEIGHT=height, WIDTH=width, CHANNELS=channels, BLEND=blend, BLOCK=_BLOCK,
    )  # fmt: skip
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


def finish(
    x: Tensor, tones: Tensor | None, greys: Tensor | None, mean: Tensor, std: Tensor, holes: Tensor | None
) -> Tensor:
    """Change the tone, lose colour, normalise and erase; what is None is left out.

    Args:
        x: (B, C, H, W), between 0 and 1.
        tones: (B, 3), as of `tone`.
        greys: (B, 1), as of `lose_colour`.
        mean, std: (B, 1 or C): the result is (x - mean) / std.
        holes: (B, 4), as of `erase`.
    """
    if runs_kernels(x):
        return finish_fused(x, tones, greys, mean, std, holes)
    if tones is not None:
        x = tone(x, tones)
    if greys is not None:
        x = lose_colour(x, greys)
    x = (x - mean[:, :, None, None]) / std[:, :, None, None]
    return x if holes is None else erase(x, holes)


def finish_fused(
    x: Tensor, tones: Tensor | None, greys: Tensor | None, mean: Tensor, std: Tensor, holes: Tensor | None
) -> Tensor:
    """`finish` as one kernel; all numbers are columns of one matrix. What comes out lies channels last."""
    from hypersphere.data import pixel_kernels

    count, channels, height, width = x.shape
    finished = torch.empty_like(x, memory_format=torch.channels_last)
    pixel_kernels.finish[(count,)](
        x.contiguous(), tones, greys, mean, std, holes, finished, mean.stride(0),
        HEIGHT=height, WIDTH=width, CHANNELS=channels, MEANS=mean.shape[1], STDS=std.shape[1], BLOCK=_BLOCK,
    )  # fmt: skip
    return finished


def runs_kernels(images: Tensor) -> bool:
    """Whether kernels take the place of torch's operators: on a GPU with Triton, unless torch compiles them itself."""
    return len(images) > 0 and not torch.compiler.is_compiling() and kernels_run(images.device)


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
    return x.masked_fill(_inside(x, box), 0.0)


def luma(x: Tensor) -> Tensor:
    """The brightness of every pixel (ITU-R BT.601), (B, 1, H, W)."""
    if x.shape[1] == 1:
        return x
    red, green, blue = x.chunk(3, 1)
    return red * _LUMA[0] + green * _LUMA[1] + blue * _LUMA[2]


def _inside(images: Tensor, box: Tensor) -> Tensor:
    """Which pixels of each image (B, C, H, W) lie in its box, (B, 1, H, W)."""
    rows = torch.arange(images.shape[2], device=images.device)[:, None]
    columns = torch.arange(images.shape[3], device=images.device)
    top, bottom, left, right = (each[:, None, None, None] for each in box.unbind(1))
    return (rows >= top) & (rows < bottom) & ((columns >= left) & (columns < right))


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
