"""A network with its contract: 8-bit images in, embeddings out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hypersphere.models.contract import FLIPS, Contract

__all__ = ["FLIPS", "Embedder", "NormalizedNetwork"]


@dataclass(frozen=True, eq=False)
class Embedder:
    """Makes embeddings of 8-bit images, prepared as the contract says.

    Args:
        contract: how.
        network: float32 (B, channels, height, width) to (B, dim), on `device`.
        device: where the network computes.
        name: of the model, for messages and results.

    Example:
        >>> model = load_model("sface.onnx", "opencv-sface")
        >>> model(source.batch([0, 1])).shape
        torch.Size([2, 128])
    """

    contract: Contract
    network: Callable[[Tensor], Tensor]
    device: str = "cpu"
    name: str = ""

    def __repr__(self) -> str:
        height, width = self.contract.input_size
        network = self.contract.backbone or type(self.network).__name__
        images = f"{width}x{height} {self.contract.colour} images"
        return f"Embedder({self.name!r}: {network}, {images} to {self.contract.width} numbers, on {self.device})"

    def with_flip(self, flip: str) -> Embedder:
        """The same model with another merge of mirror images."""
        return dataclasses.replace(self, contract=dataclasses.replace(self.contract, flip=flip))

    def prepare(self, images: Tensor) -> Tensor:
        """uint8 (B, 3, H, W) RGB or (B, 1, H, W) grey images as the network reads them."""
        contract = self.contract
        wanted = (contract.channels, *contract.input_size)
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1:] != wanted:
            raise ValueError(
                f"images are {images.dtype} {tuple(images.shape)}; {self.name or 'the model'} takes {wanted}"
            )
        mean, std = (torch.tensor(v, device=images.device).view(1, -1, 1, 1) for v in (contract.mean, contract.std))
        ordered = images.flip(1) if contract.colour == "bgr" else images
        return (ordered.float() - mean) / std

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """The embeddings of uint8 images, float32 (B, width) on the CPU; mirror images go in the same pass."""
        x = self.prepare(images.to(self.device))
        count, flip = len(x), self.contract.flip
        if flip != "none":
            x = torch.cat([x, x.flip(-1)])
        y = self.network(x).float().cpu()
        if y.shape != (len(x), self.contract.dim):
            raise ValueError(
                f"{self.name or 'the model'} returned {tuple(y.shape)}; expected {(len(x), self.contract.dim)}"
            )
        if flip == "none":
            return y
        if flip == "concat":
            return torch.cat([y[:count], y[count:]], 1)
        return (y[:count] + y[count:]) / (2 if flip == "mean" else 1)


class NormalizedNetwork(nn.Module):
    """A network behind its own normalisation, (x / 255 - mean) / std, rounded as the augmentation of training rounds.

    Its contract has mean 0 and std 1. `(x - 255 mean) / (255 std)`, which contracts of files state, is the same number
    but for the last bit.

    Args:
        network: float32 images to embeddings.
        mean, std: one number, or one for each channel, of brightness from 0 to 1.
    """

    def __init__(self, network: nn.Module, mean: float | tuple[float, ...], std: float | tuple[float, ...]) -> None:
        super().__init__()
        self.network = network
        self.mean, self.std = mean, std

    def forward(self, images: Tensor) -> Tensor:
        mean, std = (torch.tensor(v, device=images.device).view(1, -1, 1, 1) for v in (self.mean, self.std))
        embeddings: Tensor = self.network((images / 255 - mean) / std)
        return embeddings
