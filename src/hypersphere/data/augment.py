"""Augmentation of whole batches, as tensors, on any device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from hypersphere.core import check_finite_number, check_positive, check_range

_LUMA = (0.299, 0.587, 0.114)
_DRAWS = 16
"""Random numbers of one image, drawn whatever is switched on: a setting changes its own effect alone."""


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """uint8 images (B, C, H, W) to normalised float32 ones, each changed at random.

    Every kind of change has a probability, 0 by default: `Augmentation()` normalises and does nothing else. They come
    in this order: flip, shift, low resolution, brightness, contrast, saturation, grey, normalisation, erasing.

    Args:
        flip: probability of a left-right flip.
        shift: probability of a move by up to `max_shift` pixels each way; black comes in from outside (a random crop
            of the padded image).
        max_shift: pixels.
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
        Kim et al., AdaFace, CVPR 2022 (crop, low resolution, photometric); Zhong et al., Random Erasing, AAAI 2020.

    Example:
        >>> augment = Augmentation(flip=0.5, low_resolution=0.2, photometric=0.2)
        >>> images = augment(source.batch(batches.next_batch()).cuda(), torch.Generator().manual_seed(0))
    """

    flip: float = 0.0
    shift: float = 0.0
    max_shift: int = 4
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
        for name in ("flip", "shift", "low_resolution", "photometric", "grey", "erase"):
            check_range(name, getattr(self, name), 0, 1)
        for name in ("brightness", "contrast", "saturation"):
            check_range(name, getattr(self, name), 0, 1)
        for name in ("min_scale", "erase_ratio"):
            check_range(name, check_positive(name, getattr(self, name)), 0, 1)
        if isinstance(self.max_shift, bool) or not isinstance(self.max_shift, int) or self.max_shift < 0:
            raise ValueError(f"max_shift={self.max_shift!r} must be a whole number of pixels, at least 0")
        low, high = self.erase_area
        check_range("erase_area", check_positive("erase_area", low), 0, check_range("erase_area", high, 0, 1))
        for value in _numbers(self.mean):
            check_finite_number("mean", value)
        for value in _numbers(self.std):
            check_positive("std", value)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """The images changed and normalised.

        Args:
            images: uint8 (B, C, H, W), C = 1 or 3, on any device.
            generator: of the random numbers: 16 for each image, in the images' order. With one on the CPU (the better
                choice) the result is the same for images on any device, up to rounding.

        Returns:
            float32 (B, C, H, W) on the images' device.
        """
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3):
            raise ValueError(f"images are {images.dtype} {tuple(images.shape)}; expected uint8 (B, 1 or 3, H, W)")
        mean, std = (self._per_channel(name, images) for name in ("mean", "std"))
        u = torch.rand(len(images), _DRAWS, generator=generator, device=generator.device).T
        x = images.float() / 255
        x = self._flipped(x, u[0])
        x = self._shifted(x, u[1], u[2:4])
        x = self._lowered(x, u[4], u[5])
        x = self._toned(x, u[6], u[7:10], u[10])
        x = (x - mean) / std
        return self._erased(x, u[11], u[12:16])

    @staticmethod
    def skip(generator: torch.Generator, images: int) -> None:
        """Draw what so many images would have drawn: with it, parts of a batch are changed as the whole would be."""
        torch.rand(images, _DRAWS, generator=generator, device=generator.device)

    def _per_channel(self, name: str, images: Tensor) -> Tensor:
        values = _numbers(getattr(self, name))
        if len(values) not in (1, images.shape[1]):
            raise ValueError(f"{name} has {len(values)} numbers, but the images {images.shape[1]} channels")
        return torch.tensor(values, device=images.device).view(1, -1, 1, 1)

    def _flipped(self, x: Tensor, chance: Tensor) -> Tensor:
        if not self.flip:
            return x
        return torch.where(_column(chance < self.flip, x), x.flip(-1), x)

    def _shifted(self, x: Tensor, chance: Tensor, offsets: Tensor) -> Tensor:
        if not self.shift or not self.max_shift:
            return x
        far = self.max_shift
        moves = (offsets * (2 * far + 1)).long().clamp(max=2 * far)
        moves = torch.where(chance < self.shift, moves, far).to(x.device)
        rows = moves[0][:, None] + torch.arange(x.shape[2], device=x.device)
        columns = moves[1][:, None] + torch.arange(x.shape[3], device=x.device)
        padded = functional.pad(x, (far, far, far, far)).permute(0, 2, 3, 1)
        which = torch.arange(len(x), device=x.device)[:, None, None]
        return padded[which, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()

    def _lowered(self, x: Tensor, chance: Tensor, shares: Tensor) -> Tensor:
        chosen = chance < self.low_resolution
        if not chosen.any():
            return x
        scale = self.min_scale + (1 - self.min_scale) * shares
        size = tuple(x.shape[2:])
        shrunk = torch.stack([(scale * length).round().clamp(1, length) for length in size], 1).long()
        x = x.clone()
        for height, width in torch.unique(shrunk[chosen], dim=0).tolist():
            which = (chosen & (shrunk == torch.tensor([height, width], device=shrunk.device)).all(1)).to(x.device)
            small = functional.interpolate(x[which], (height, width), mode="bilinear", antialias=True)
            x[which] = functional.interpolate(small, size, mode="bilinear").clamp(0, 1)
        return x

    def _toned(self, x: Tensor, chance: Tensor, shares: Tensor, grey: Tensor) -> Tensor:
        if self.photometric:
            strengths = torch.tensor([[self.brightness], [self.contrast], [self.saturation]], device=shares.device)
            brightness, contrast, saturation = (_column(each, x) for each in 1 + strengths * (2 * shares - 1))
            toned = (x * brightness).clamp(0, 1)
            toned = torch.lerp(_luma(toned).mean((2, 3), keepdim=True), toned, contrast).clamp(0, 1)
            toned = torch.lerp(_luma(toned), toned, saturation).clamp(0, 1)
            x = torch.where(_column(chance < self.photometric, x), toned, x)
        return torch.where(_column(grey < self.grey, x), _luma(x), x) if self.grey else x

    def _erased(self, x: Tensor, chance: Tensor, shares: Tensor) -> Tensor:
        """Zhong et al., alg. 1, but a rectangle that is too long for the image is cut, not drawn again."""
        if not self.erase:
            return x
        height, width = x.shape[2:]
        low, high = self.erase_area
        area = (low + (high - low) * shares[0]) * (height * width)
        ratio = self.erase_ratio + (1 / self.erase_ratio - self.erase_ratio) * shares[1]
        tall = (area * ratio).sqrt().round().clamp(1, height)
        wide = (area / ratio).sqrt().round().clamp(1, width)
        top = (shares[2] * (height - tall + 1)).floor()
        left = (shares[3] * (width - wide + 1)).floor()
        rows, columns = torch.arange(height, device=top.device), torch.arange(width, device=top.device)
        down = (rows >= top[:, None]) & (rows < (top + tall)[:, None])
        across = (columns >= left[:, None]) & (columns < (left + wide)[:, None])
        hole = down[:, :, None] & across[:, None, :] & (chance < self.erase)[:, None, None]
        return x.masked_fill(hole[:, None].to(x.device), 0.0)


def mixup(images: Tensor, generator: torch.Generator, alpha: float) -> tuple[Tensor, Tensor, float]:
    """Every image mixed with another of the batch: weight x_i + (1 - weight) x_permutation[i].

    Args:
        images: floating (B, ...).
        generator: of the permutation and the weight.
        alpha: the weight is drawn from Beta(alpha, alpha), one for the batch.

    Returns:
        the mixed images, the permutation (B,) and the weight. The loss is the same mixture:
        weight loss(y) + (1 - weight) loss(y[permutation]).

    References:
        Zhang et al., mixup, ICLR 2018.

    Example:
        >>> mixed, permutation, weight = mixup(images, generator, alpha=0.2)
        >>> loss = weight * head(net(mixed), labels) + (1 - weight) * head(net(mixed), labels[permutation])
    """
    check_positive("alpha", alpha)
    if not images.is_floating_point():
        raise ValueError(f"images are {images.dtype}; mixup needs floating ones")
    permutation = torch.randperm(len(images), generator=generator, device=generator.device).to(images.device)
    seed = torch.randint(2**62, (), generator=generator, device=generator.device).item()
    weight = float(np.random.default_rng(int(seed)).beta(alpha, alpha))
    return torch.lerp(images[permutation], images, weight), permutation, weight


def _numbers(value: float | tuple[float, ...]) -> list[float]:
    return list(value) if isinstance(value, tuple) else [value]


def _column(values: Tensor, x: Tensor) -> Tensor:
    return values.to(x.device)[:, None, None, None]


def _luma(x: Tensor) -> Tensor:
    if x.shape[1] == 1:
        return x
    return (x * torch.tensor(_LUMA, device=x.device).view(1, 3, 1, 1)).sum(1, keepdim=True)
