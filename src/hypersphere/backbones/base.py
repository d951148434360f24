"""What every backbone shares: its sizes, the check of its input, its stages and its last layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypedDict

import torch
from torch import Tensor, nn

from hypersphere.backbones.stages import recomputed, run
from hypersphere.core import Registry


class Sizes(TypedDict, total=False):
    """The arguments that all backbones take."""

    dim: int
    input_size: Sequence[int]
    channels: int
    last_relu: bool
    checkpointing: bool
    patch: Sequence[int] | None


class Backbone(nn.Module):
    """A net from images to embeddings. Use `hypersphere.create_backbone` to make one by name.

    Args:
        dim: width of the embeddings.
        input_size: height and width of the images.
        channels: 3 for colour, 1 for grey images.
        last_relu: a ReLU on the embeddings, which SphereFace removes (its App. A and Table 6).
        checkpointing: keep only the input of every stage for the backward pass, and compute the rest again there.
        patch: top, bottom, left and right, in pixels, of the part of the images that the net looks at, bottom and right
            excluded; all of it by default.

    Inputs:
        images (N, channels, height, width) of a floating dtype. The embeddings (N, dim) have the dtype of the weights,
        under autocast too: the last layers leave it.
    """

    name: ClassVar[str]
    least_size: int = 16
    """The smallest height and width: below it the last map would be made of padding, or be empty."""

    def __init__(
        self,
        *,
        dim: int = 512,
        input_size: Sequence[int] = (112, 112),
        channels: int = 3,
        last_relu: bool = False,
        checkpointing: bool = False,
        patch: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.dim = check_count("dim", dim)
        self.channels = check_count("channels", channels)
        if isinstance(input_size, str) or not isinstance(input_size, Sequence) or len(input_size) != 2:
            raise ValueError(f"input_size={input_size!r} must be two integers, (height, width)")
        height, width = (check_count("input_size", length) for length in input_size)
        self.input_size = (height, width)
        self.patch = None if patch is None else _check_patch(patch, height, width)
        name, (tall, wide) = "input_size" if patch is None else "patch", self.seen_size
        if min(tall, wide) < self.least_size:
            least = f"{self.least_size}x{self.least_size}"
            raise ValueError(f"{name}={tall}x{wide} is too small for {self.name}: it takes {least} or more")
        self.last_relu = last_relu
        self.checkpointing = checkpointing

    @property
    def seen_size(self) -> tuple[int, int]:
        """Height and width of what the net looks at: the images, or the patch of them."""
        if self.patch is None:
            return self.input_size
        top, bottom, left, right = self.patch
        return bottom - top, right - left

    def stages(self) -> Sequence[Sequence[nn.Module]]:
        """The layers up to the last map, in groups: what `checkpointing` computes again at once."""
        raise TypeError(f"{type(self).__name__} does not say what its stages are")

    def embed(self, x: Tensor) -> Tensor:
        """The last map to embeddings."""
        raise TypeError(f"{type(self).__name__} does not say how it ends")

    def forward(self, images: Tensor) -> Tensor:
        x = self.embed(self.last_map(images))
        return x.relu() if self.last_relu else x

    def last_map(self, images: Tensor) -> Tensor:
        """Images to the map that `embed` takes."""
        self.check(images)
        forward = recomputed if self.checkpointing and torch.is_grad_enabled() else run
        x = images
        if self.patch is not None:
            top, bottom, left, right = self.patch
            x = x[:, :, top:bottom, left:right]
        for stage in self.stages():
            x = forward(stage, x)
        return x

    def check(self, images: Tensor) -> None:
        """Images must be floating, of the channels and the size that the net was made for."""
        if not isinstance(images, Tensor) or not images.is_floating_point():
            kind = images.dtype if isinstance(images, Tensor) else type(images).__name__
            raise ValueError(f"images must be a floating tensor, not {kind}")
        wanted = (self.channels, *self.input_size)
        if images.dim() != 4 or images.shape[1:] != wanted:
            text = f"(N, {', '.join(map(str, wanted))})"
            raise ValueError(f"images have shape {tuple(images.shape)}; this {self.name} was made for {text}")

    def finish(self, x: Tensor, *layers: nn.Module) -> Tensor:
        """The last map, flattened, through the last layers, in the precision of the weights whatever autocast says."""
        dtype = next(self.parameters()).dtype
        with torch.autocast(x.device.type, enabled=False):
            return run(layers, x.flatten(1).to(dtype))

    def extra_repr(self) -> str:
        height, width = self.input_size
        seen = "" if self.patch is None else f", patch={list(self.patch)}"
        return f"dim={self.dim}, input_size={height}x{width}, channels={self.channels}{seen}"


def check_count(name: str, value: Any) -> int:
    """`value` must be a positive integer."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}={value!r} must be an integer of at least 1")
    return value


def _check_patch(patch: Sequence[int], height: int, width: int) -> tuple[int, int, int, int]:
    if isinstance(patch, str) or not isinstance(patch, Sequence) or len(patch) != 4:
        raise ValueError(f"patch={patch!r} must be four integers, top, bottom, left and right")
    for value in patch:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"patch={list(patch)} must be four integers, top, bottom, left and right")
    top, bottom, left, right = patch
    if not (0 <= top < bottom <= height and 0 <= left < right <= width):
        raise ValueError(
            f"patch={list(patch)} must lie in the images: 0 <= top < bottom <= {height}, 0 <= left < right <= {width}"
        )
    return top, bottom, left, right


def halved(size: tuple[int, int], times: int) -> tuple[int, int]:
    """Height and width after layers of stride 2 that round up."""
    height, width = (-(-length // 2**times) for length in size)
    return height, width


def xavier_(layer: nn.Conv2d | nn.Linear, bias: float = 0.0) -> None:
    """Caffe's `xavier`: uniform with variance 1 / fan-in (torch's averages fan-in and fan-out)."""
    nn.init.kaiming_uniform_(layer.weight, nonlinearity="linear")
    if layer.bias is not None:
        nn.init.constant_(layer.bias, bias)


BACKBONES: Registry[Any] = Registry("backbone")
"""All backbones by name."""
