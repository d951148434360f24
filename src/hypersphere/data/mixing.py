"""Images of a batch mixed in pairs, with the share of each label: mixup and CutMix."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from hypersphere.core import check_positive
from hypersphere.data.augment import onto


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
    _check_floating("mixup", images)
    drawn, weight = draw_mixup(len(images), generator, alpha)
    permutation = onto(drawn, images.device)
    return torch.lerp(images[permutation], images, weight), permutation, weight


def draw_mixup(count: int, generator: torch.Generator, alpha: float) -> tuple[Tensor, float]:
    """The permutation, where the generator is, and the weight of a mixture of so many images; see `mixup`."""
    permutation, rng = _drawn(count, generator, alpha)
    return permutation, float(rng.beta(alpha, alpha))


def cutmix(images: Tensor, generator: torch.Generator, alpha: float) -> tuple[Tensor, Tensor, float]:
    """Every image with a rectangle of another of the batch pasted into its place.

    The rectangle has the height H sqrt(1 - lambda) and the width W sqrt(1 - lambda), rounded down, lambda drawn from
    Beta(alpha, alpha); its middle is uniform over the image and what lies outside is cut off. It is one for the batch.

    Args:
        images: floating (B, C, H, W).
        generator: of the permutation and the rectangle.
        alpha: of the Beta distribution; the paper has 1.

    Returns:
        the images, the permutation (B,), and the exact share of the pixels that are an image's own, which weighs the
        loss as mixup's weight does.

    References:
        Yun et al., CutMix, ICCV 2019, eqs. 1 and 2, alg. A1.

    Example:
        >>> mixed, permutation, weight = cutmix(images, generator, alpha=1.0)
        >>> loss = weight * head(net(mixed), labels) + (1 - weight) * head(net(mixed), labels[permutation])
    """
    if images.ndim != 4:
        raise ValueError(f"images are {tuple(images.shape)}; cutmix needs (B, C, H, W)")
    _check_floating("cutmix", images)
    drawn, rng = _drawn(len(images), generator, alpha)
    permutation = onto(drawn, images.device)
    side = math.sqrt(1 - rng.beta(alpha, alpha))
    sizes = tuple(images.shape[2:])
    rows, columns = (_stretch(int(size * side), int(rng.integers(size)), size) for size in sizes)
    mixed = images.clone()
    mixed[:, :, rows, columns] = images[:, :, rows, columns][permutation]
    pasted = (rows.stop - rows.start) * (columns.stop - columns.start)
    return mixed, permutation, 1 - pasted / math.prod(sizes)


def _stretch(length: int, middle: int, size: int) -> slice:
    start = middle - length // 2
    return slice(max(start, 0), min(start + length, size))


def _check_floating(name: str, images: Tensor) -> None:
    if not images.is_floating_point():
        raise ValueError(f"images are {images.dtype}; {name} needs floating ones")


def _drawn(count: int, generator: torch.Generator, alpha: float) -> tuple[Tensor, np.random.Generator]:
    check_positive("alpha", alpha)
    permutation = torch.randperm(count, generator=generator, device=generator.device)
    seed = torch.randint(2**62, (), generator=generator, device=generator.device).item()
    return permutation, np.random.default_rng(int(seed))
