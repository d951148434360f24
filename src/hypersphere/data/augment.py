"""Augmentation of whole batches, as tensors, on any device."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hypersphere.core import check_finite_number, check_integer, check_positive, check_range
from hypersphere.data import pixels

_DRAWS = 16
"""Random numbers of one image, drawn whatever is switched on: a setting changes its own effect alone."""
_TRIES = 4
"""How often the rectangle of a crop is drawn until one fits; one in 1,400 of AdaFace's never does, and is cut."""
_MORE = 7 + 2 * _TRIES
"""Further numbers of one image, for rotation, zoom and crop."""
KINDS = ("flip", "shift", "rotate", "zoom", "crop", "low_resolution", "photometric", "grey", "erase")
"""Kinds of change, each the name of its probability."""

Layout = tuple[tuple[str, int], ...]
Change = Callable[[Tensor, Tensor, Layout], Tensor]


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """uint8 images (B, C, H, W) to normalised float32 ones, each changed at random.

    Every kind of change has a probability, 0 by default: `Augmentation()` normalises and does nothing else. They come
    in this order: crop, flip, zoom, rotation, shift (these five in one resampling, bilinear, with black outside), low
    resolution, brightness, contrast, saturation, grey, normalisation, erasing.

    Args:
        flip: probability of a left-right flip.
        shift: probability of a move by up to `max_shift` pixels each way; black comes in from outside (a random crop
            of the padded image).
        max_shift: pixels.
        rotate: probability of a rotation about the middle by up to `max_rotation` either way.
        max_rotation: degrees.
        zoom: probability of enlarging or shrinking about the middle.
        zoom_range: the least and the greatest factor, 0.1 to 10, between which its logarithm is uniform.
        crop: probability of a random rectangle being all that is kept; it stays in its place, the rest is black.
        crop_area: the least and the greatest share of the image that it covers.
        crop_ratio: its least width over height; the greatest is the inverse, the logarithm uniform between them. Area
            and ratio are drawn again, up to four times, until the rectangle fits.
        crop_resize: enlarge the rectangle to the whole image instead (torchvision's RandomResizedCrop).
        low_resolution: probability of shrinking and enlarging again.
        min_scale: the smallest such image, as a share of the size.
        photometric: probability of a change of brightness, contrast and saturation.
        brightness, contrast, saturation: each is multiplied by up to 1 +- this.
        grey: probability of losing colour.
        erase: probability of a rectangle filled with the mean colour (random erasing).
        erase_area: the least and the greatest share of the image that it covers.
        erase_ratio: its least height over width; the greatest is the inverse.
        mean, std: of the normalisation (x / 255 - mean) / std, one number or one for each channel.

    References:
        Kim et al., AdaFace, CVPR 2022 (crop, low resolution, photometric, each with probability 0.2; the crop as its
        code has it, in its place); Du et al., Semi-Siamese Training, ECCV 2020, as FaceX-Zoo trains it (rotation by up
        to 10 degrees); Zhong et al., Random Erasing, AAAI 2020.

    Example:
        >>> augment = Augmentation(flip=0.5, rotate=0.5, crop=0.2, low_resolution=0.2, photometric=0.2)
        >>> images = augment(source.batch(batches.next_batch()), torch.Generator().manual_seed(0))
    """

    flip: float = 0.0
    shift: float = 0.0
    max_shift: int = 4
    rotate: float = 0.0
    max_rotation: float = 10.0
    zoom: float = 0.0
    zoom_range: tuple[float, float] = (0.9, 1.1)
    crop: float = 0.0
    crop_area: tuple[float, float] = (0.2, 1.0)
    crop_ratio: float = 0.75
    crop_resize: bool = False
    low_resolution: float = 0.0
    min_scale: float = 0.2
    photometric: float = 0.0
    brightness: float = 0.5
    contrast: float = 0.5
    saturation: float = 0.5
    grey: float = 0.0
    erase: float = 0.0
    erase_area: tuple[float, float] = (0.02, 0.4)
    erase_ratio: float = 0.3
    mean: float | tuple[float, ...] = 0.5
    std: float | tuple[float, ...] = 0.5

    def __post_init__(self) -> None:
        for name in (*KINDS, "brightness", "contrast", "saturation"):
            check_range(name, getattr(self, name), 0, 1)
        for name in ("min_scale", "erase_ratio", "crop_ratio"):
            check_range(name, check_positive(name, getattr(self, name)), 0, 1)
        check_integer("max_shift", self.max_shift, 0)
        check_range("max_rotation", self.max_rotation, 0, 180)
        for name in ("erase_area", "crop_area"):
            low, high = getattr(self, name)
            check_range(name, check_positive(name, low), 0, check_range(name, high, 0, 1))
        low, high = self.zoom_range
        check_range("zoom_range", low, 0.1, check_range("zoom_range", high, 0.1, 10))
        if not isinstance(self.crop_resize, bool):
            raise ValueError(f"crop_resize={self.crop_resize!r} must be true or false")
        for value in _numbers(self.mean):
            check_finite_number("mean", value)
        for value in _numbers(self.std):
            check_positive("std", value)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """The images changed and normalised.

        What becomes of each image is a few numbers, computed where the generator is and moved to the images at once,
        which is not waited for; everything else happens on the images' device.

        Args:
            images: uint8 (B, C, H, W), C = 1 or 3, on any device.
            generator: of the random numbers: 16 for each image, in the images' order. With one on the CPU (the better
                choice) the result is the same for images on any device, up to rounding.

        Returns:
            float32 (B, C, H, W) on the images' device.
        """
        return self._changed(images, generator, self.apply)

    def compiled(self) -> Callable[[Tensor, torch.Generator], Tensor]:
        """The same call with what happens to pixels compiled by torch: fewer and fused kernels, equal up to rounding.

        It is compiled at the first call, and again for batches of another shape.
        """
        change = self.change(compile=True)
        return lambda images, generator: self._changed(images, generator, change)

    def change(self, *, compile: bool) -> Change:  # noqa: A002
        """Return `apply`, or the same compiled by torch for batches of one shape."""
        return torch.compile(self.apply, dynamic=False) if compile else self.apply

    @staticmethod
    def draw(images: int, generator: torch.Generator) -> Tensor:
        """The random numbers of so many images, (images, 16), where the generator is.

        Drawn and thrown away, they let parts of a batch be changed as the whole would be.
        """
        return torch.rand(images, _DRAWS, generator=generator, device=generator.device)

    def _changed(self, images: Tensor, generator: torch.Generator, change: Change) -> Tensor:
        check_images(images)
        numbers, layout = self.plan(self.draw(len(images), generator), *images.shape[1:])
        return change(images, onto(numbers, images.device), layout)

    def apply(self, images: Tensor, numbers: Tensor, layout: Layout) -> Tensor:
        """What a plan says, kind by kind; nothing here waits for the device.

        Args:
            images: uint8 (B, C, H, W).
            numbers, layout: what `plan` made of their draws, the numbers on the images' device.
        """
        names, widths = zip(*layout, strict=True)
        plan = dict(zip(names, torch.split(numbers, list(widths), 1), strict=True))
        if "affine" in plan:
            x = pixels.move(images, plan["affine"], plan.get("kept"), blend=self._blends)
        else:
            x = (pixels.flip(images, plan["flip"]) if "flip" in plan else images).float()
        x = x / 255
        if "scale" in plan:
            x = pixels.lower_resolution(x, plan["scale"])
        return pixels.finish(x, plan.get("tone"), plan.get("grey"), plan["mean"], plan["std"], plan.get("hole"))

    @property
    def _blends(self) -> bool:
        """Whether pixels may come to lie between pixels."""
        return bool(self.rotate or self.zoom or (self.crop and self.crop_resize))

    def plan(self, u: Tensor, channels: int, height: int, width: int) -> tuple[Tensor, Layout]:
        """What becomes of each image: numbers of every kind that is switched on, and how many of each kind.

        Args:
            u: (B, 16), as of `draw`; each row is planned for itself.
            channels, height, width: of the images.
        """
        plan = {name: self._per_channel(name, channels, u) for name in ("mean", "std")}
        if self.flip and not (self.shift or self.rotate or self.zoom or self.crop):
            plan["flip"] = (u[:, :1] < self.flip).float()
        elif self.shift or self.rotate or self.zoom or self.crop:
            later = self.rotate or self.zoom or self.crop
            more = more_draws(u, _MORE) if later else u.new_ones(len(u), _MORE)  # 1 is below no probability
            box = self._crop_box(more, height, width) if self.crop else None
            plan["affine"] = self._affine(u, more, height, width, box if self.crop_resize else None)
            if box is not None and not self.crop_resize:
                plan["kept"] = box
        if self.low_resolution:
            scale = self.min_scale + (1 - self.min_scale) * u[:, 5]
            plan["scale"] = torch.where(u[:, 4] < self.low_resolution, scale, 1.0)[:, None]
        if self.photometric:
            strengths = torch.tensor([self.brightness, self.contrast, self.saturation], device=u.device)
            factors = 1 + strengths * (2 * u[:, 7:10] - 1)
            plan["tone"] = torch.where(u[:, 6:7] < self.photometric, factors, 1.0)
        if self.grey:
            plan["grey"] = (u[:, 10:11] < self.grey).float()
        if self.erase:
            plan["hole"] = self._hole(u, height, width)
        return torch.cat(list(plan.values()), 1), tuple((name, values.shape[1]) for name, values in plan.items())

    def _per_channel(self, name: str, channels: int, u: Tensor) -> Tensor:
        values = _numbers(getattr(self, name))
        if len(values) not in (1, channels):
            raise ValueError(f"{name} has {len(values)} numbers, but the images {channels} channels")
        return torch.tensor(values, device=u.device).expand(len(u), -1)

    def _affine(self, u: Tensor, more: Tensor, height: int, width: int, box: Tensor | None) -> Tensor:
        """Where each output pixel comes from, for `pixels.move`: back through shift, rotation, zoom, crop and flip."""
        far = self.max_shift
        moves = (u[:, 2:4] * (2 * far + 1)).floor().clamp(max=2 * far) - far
        down, across = torch.where(u[:, 1:2] < self.shift, moves, 0.0).unbind(1)
        angle = (2 * more[:, 1] - 1) * math.radians(self.max_rotation)
        angle = torch.where(more[:, 0] < self.rotate, angle, 0.0)
        low, high = self.zoom_range
        inverse = torch.where(more[:, 2] < self.zoom, (low * (high / low) ** more[:, 3]).reciprocal(), 1.0)
        cos, sin = angle.cos() * inverse, angle.sin() * inverse
        mirror = 1.0 - 2.0 * (u[:, 0] < self.flip)
        middle_y, middle_x = u.new_tensor((height - 1) / 2), u.new_tensor((width - 1) / 2)
        a, b, d, e = cos, -sin, sin, cos
        if box is not None:
            top, bottom, left, right = box.unbind(1)
            a, b = a * (right - left) / width, b * (right - left) / width
            d, e = d * (bottom - top) / height, e * (bottom - top) / height
            middle_y, middle_x = (top + bottom - 1) / 2, (left + right - 1) / 2
        across, down = a * across + b * down, d * across + e * down
        return torch.stack([mirror * a, mirror * b, mirror * across + middle_x, d, e, down + middle_y], 1)

    def _crop_box(self, more: Tensor, height: int, width: int) -> Tensor:
        """The rectangle of each image that is kept, as torchvision draws it, but cut where none fits, not central."""
        areas, ratios = more[:, 7:].chunk(2, 1)
        low, high = self.crop_area
        area = (low + (high - low) * areas) * (height * width)
        ratio = self.crop_ratio ** (1 - 2 * ratios)
        wide, tall = (area * ratio).sqrt().round().clamp(min=1), (area / ratio).sqrt().round().clamp(min=1)
        first = ((wide <= width) & (tall <= height)).int().argmax(1, keepdim=True)
        sizes = tall.gather(1, first)[:, 0].clamp(max=height), wide.gather(1, first)[:, 0].clamp(max=width)
        box = _boxes(*sizes, more[:, 5], more[:, 6], height, width)
        return torch.where(more[:, 4:5] < self.crop, box, torch.tensor([0.0, height, 0, width], device=more.device))

    def _hole(self, u: Tensor, height: int, width: int) -> Tensor:
        """Zhong et al., alg. 1, but a rectangle that is too long for the image is cut, not drawn again."""
        low, high = self.erase_area
        area = (low + (high - low) * u[:, 12]) * (height * width)
        ratio = self.erase_ratio + (1 / self.erase_ratio - self.erase_ratio) * u[:, 13]
        tall = (area * ratio).sqrt().round().clamp(1, height)
        wide = (area / ratio).sqrt().round().clamp(1, width)
        return torch.where(u[:, 11:12] < self.erase, _boxes(tall, wide, u[:, 14], u[:, 15], height, width), 0.0)


def check_images(images: Tensor) -> None:
    """Raise a ValueError unless these are images as `Augmentation` takes them."""
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3):
        raise ValueError(f"images are {images.dtype} {tuple(images.shape)}; expected uint8 (B, 1 or 3, H, W)")


def more_draws(u: Tensor, count: int) -> Tensor:
    """More uniform numbers of each image, (B, count), as hashes of its own draws.

    Kinds of change that came later take theirs from here: what a generator gives, and with it every earlier run, stays
    as it was. The hash is the output function of SplitMix64, whose streams begin at 64 bits of the first three draws.

    Args:
        u: (B, 3 or more), multiples of 2^-24 in [0, 1).
        count: of numbers; the first ones do not depend on how many there are.

    References:
        Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014, Fig. 16 (with Stafford's
        variant 13 of the mixing constants).
    """
    first, second, third = (u[:, :3] * 2**24).long().unbind(1)
    start = (first << 40) ^ (second << 16) ^ third
    z = start[:, None] + _signed(0x9E3779B97F4A7C15) * torch.arange(1, count + 1, device=u.device)
    z = (z ^ _shifted(z, 30)) * _signed(0xBF58476D1CE4E5B9)
    z = (z ^ _shifted(z, 27)) * _signed(0x94D049BB133111EB)
    return _shifted(z ^ _shifted(z, 31), 40) / 2**24


def onto(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on a device, without waiting for the device."""
    if tensor.device.type == "cpu" and device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def _boxes(tall: Tensor, wide: Tensor, row: Tensor, column: Tensor, height: int, width: int) -> Tensor:
    """Rectangles of given sizes at uniform places, (B, 4): top, bottom, left, right."""
    top, left = (row * (height - tall + 1)).floor(), (column * (width - wide + 1)).floor()
    return torch.stack([top, top + tall, left, left + wide], 1)


def _shifted(z: Tensor, bits: int) -> Tensor:
    """The unsigned right shift, which torch's int64 has not."""
    return torch.bitwise_and(z >> bits, 2 ** (64 - bits) - 1)


def _signed(number: int) -> int:
    """64 bits as the int64 that has them."""
    return (number + 2**63) % 2**64 - 2**63


def _numbers(value: float | tuple[float, ...]) -> list[float]:
    return list(value) if isinstance(value, tuple) else [value]
