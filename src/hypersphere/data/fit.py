"""Images of one size and one number of channels, as a network takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from hypersphere.core import check_integer
from hypersphere.data.images import Image
from hypersphere.data.source import ImageSource, Indices, Labels, names_of, shape_of

_AT_ONCE = 2**24
"""Bytes of images that are resized at once; as float32 they take four times as much."""


class Fitted:
    """A source whose images all have the size and the channels that are asked for.

    Colour becomes grey and grey becomes colour. An image of another size is refused with its name, or resized.

    Args:
        source: the images.
        size: height and width.
        grey: one channel instead of three.
        resize: resize images of another size (bilinear with antialiasing; the aspect ratio is not kept).
        resize_option: what a user writes to have them resized, for the message that refuses one.
        warp: called with every image and its name before anything else, such as to align it anew.

    Example:
        >>> Fitted(open_source("people"), (112, 112), resize=True).batch([0, 1]).shape
        torch.Size([2, 3, 112, 112])
    """

    def __init__(
        self,
        source: ImageSource,
        size: Sequence[int],
        *,
        grey: bool = False,
        resize: bool = False,
        resize_option: str = "resize=True",
        warp: Callable[[Image, str], Image] | None = None,
    ) -> None:
        height, width = (check_integer("size", side, 1) for side in size)
        self.source = source
        self.size = height, width
        self.grey = grey
        self.resize = resize
        self.resize_option = resize_option
        self.warp = warp
        self.names = names_of(source)

    @property
    def labels(self) -> Labels:
        return self.source.labels

    @property
    def num_classes(self) -> int:
        return self.source.num_classes

    def __len__(self) -> int:
        return len(self.source)

    def describe(self, index: int) -> str:
        """Which image of the source this is."""
        return self.source.describe(index)

    def read(self, index: int) -> Image:
        """One image, uint8 (height, width, 3), or (height, width, 1) if grey."""
        image: Image = self._fit(self._read(index)[None])[0]
        return image

    def batch(self, indices: Indices) -> Tensor:
        """Images as a contiguous uint8 (B, C, H, W) tensor; neighbours of one size are resized together."""
        if len(indices) == 0:
            raise ValueError("a batch needs at least one index")
        fitted = np.empty((len(indices), *self.size, 1 if self.grey else 3), dtype=np.uint8)
        start = 0
        waiting: list[Image] = []
        for position, index in enumerate(indices):
            image = self._read(int(index))
            if waiting and (image.shape != waiting[0].shape or len(waiting) * image.size >= _AT_ONCE):
                fitted[start:position] = self._fit(np.stack(waiting))
                start, waiting = position, []
            waiting.append(image)
        fitted[start:] = self._fit(np.stack(waiting))
        return torch.from_numpy(fitted).permute(0, 3, 1, 2).contiguous()

    def _read(self, index: int) -> Image:
        image = self.source.read(index)
        if self.warp is not None:
            image = self.warp(image, self.source.describe(index))
        if image.shape[:2] != self.size and not self.resize:
            height, width = self.size
            raise ValueError(
                f"{self.source.describe(index)} is {shape_of(image)} (width x height), but size={list(self.size)} "
                f"asks for {width}x{height}: crop the images to it, or let them be resized ({self.resize_option})"
            )
        return image

    def _fit(self, images: Image) -> Image:
        """(B, H, W, C) images of one size with the size and channels that are asked for."""
        if images.shape[1:3] != self.size:
            images = _resized(images, self.size)
        if self.grey and images.shape[3] == 3:
            return _grey(images)
        return images if self.grey or images.shape[3] == 3 else np.repeat(images, 3, axis=3)


def _resized(images: Image, size: tuple[int, int]) -> Image:
    planes = torch.from_numpy(images).permute(0, 3, 1, 2).float()
    scaled = functional.interpolate(planes, size, mode="bilinear", antialias=True)
    return scaled.round().clamp(0, 255).byte().permute(0, 2, 3, 1).contiguous().numpy()


def _grey(images: Image) -> Image:
    """ITU-R BT.601 luma in whole numbers."""
    return ((images.astype(np.uint16) @ np.array([77, 150, 29], np.uint16) + 128) >> 8).astype(np.uint8)[..., None]
