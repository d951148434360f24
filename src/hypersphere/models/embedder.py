"""A network with its contract: images in, embeddings out. The one path on which the library embeds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from hypersphere.backbones.base import Backbone
from hypersphere.core import Reporter, check_integer
from hypersphere.data import (
    ArraySource,
    Fitted,
    Image,
    ImageFiles,
    ImageSource,
    Prefetcher,
    UnreadableImage,
    unreadable_among,
)
from hypersphere.geometry import normalize
from hypersphere.models.align import AlignmentTarget, alignment_target, realigned
from hypersphere.models.contract import FLIPS, Contract

__all__ = ["FLIPS", "Embedder", "Images", "NormalizedNetwork", "embedded_batches"]

Images = Tensor | npt.NDArray[np.uint8] | ImageSource | Sequence[str | Path]
"""uint8 (B, C, H, W) tensors, uint8 (B, H, W, C) arrays, a set of images, or paths of files."""
Unreadable = dict[int, str]
Ints = npt.NDArray[np.int64]
_CPU_PASS = 4 * 3 * 112 * 112
"""Numbers that a network of torch reads in one pass on a CPU: four images of faces.

With more, the maps of a pass are larger than what glibc keeps: every layer asked the system for its memory anew, page
by page, and gave it back, which took up to four times as long as the arithmetic.
"""


@dataclass(frozen=True, eq=False)
class Embedder:
    """Makes embeddings of 8-bit images, prepared as the contract says.

    Args:
        contract: how.
        network: float32 (B, channels, height, width) to (B, dim), on `device`.
        device: where the network computes.
        name: of the model, for messages and results.
        backbone: the arguments of `create_backbone` that made the network; empty for others, such as ONNX graphs.
        card: the text of the model card, where one came with the model.
        crops: the alignment target of the images that it will be given, by its name, where that is not the model's own:
            they are warped from one to the other.

    Example:
        >>> model = hs.load_model("runs/faces")
        >>> model(["ada.jpg", "grace.jpg"], resize=True).norm(dim=1).round(decimals=4)
        tensor([1., 1.])
    """

    contract: Contract
    network: Callable[[Tensor], Tensor]
    device: str = "cpu"
    name: str = ""
    backbone: Mapping[str, Any] = field(default_factory=dict)
    card: str = field(default="", repr=False)
    crops: str = ""

    def __repr__(self) -> str:
        height, width = self.contract.input_size
        network = self.contract.backbone or type(self.network).__name__
        images = f"{width}x{height} {self.contract.colour} images"
        return f"Embedder({self.name!r}: {network}, {images} to {self.contract.width} numbers, on {self.device})"

    def with_flip(self, flip: str) -> Embedder:
        """The same model with another merge of mirror images."""
        return dataclasses.replace(self, contract=dataclasses.replace(self.contract, flip=flip))

    def of_crops(self, alignment: str) -> Embedder:
        """The same model for images that were aligned to another target than its own.

        Args:
            alignment: a name of `ALIGNMENT_TARGETS`.
        """
        alignment_target(alignment)
        if self.contract.target is None:
            raise ValueError(
                f"{self.name or 'the model'}: its contract states no alignment target that is known here, so crops of "
                f"{alignment!r} cannot be warped for it; state `points` or `alignment` in the contract"
            )
        return dataclasses.replace(self, crops=alignment)

    def __call__(
        self,
        images: Images,
        *,
        resize: bool = False,
        batch_size: int = 128,
        workers: int = 2,
        progress: Reporter | None = None,
    ) -> Tensor:
        """The unit vectors of images, float32 (N, width) on the CPU, in order.

        Args:
            images: uint8 tensors (B, 3, H, W) RGB or (B, 1, H, W) grey of the contract's size; uint8 arrays
                (B, H, W, C); a set of images such as `open_source` gives; or paths of image files.
            resize: resize images of another size than the contract's, instead of refusing them.
            batch_size: images at a time.
            workers: threads that load files.
            progress: called as `progress(done, total)`.
        """
        if isinstance(images, Tensor):
            images = _array(self.checked(images))
        source = self.fitted(_source(images), resize=resize)
        if not len(source):
            raise ValueError("images is empty: give at least one")
        loading: dict[str, Any] = {"batch_size": batch_size, "workers": workers, "progress": progress}
        batches = embedded_batches(source, np.arange(len(source)), self.raw, name=self.name, **loading)
        return torch.cat([normalize(embedded) for _, embedded in batches])

    def fitted(self, source: ImageSource, *, resize: bool = False, resize_option: str = "resize=True") -> Fitted:
        """A set of images with the contract's size and channels, as `Fitted` makes it."""
        grey = self.contract.colour == "grey"
        size, target = self.contract.input_size, self.contract.target
        stated = alignment_target(self.crops) if self.crops else target
        if stated is None or target is None or stated == target:
            return Fitted(source, size, grey=grey, resize=resize, resize_option=resize_option)
        warp = partial(_realigned, stated, target)
        return Fitted(source, size, grey=grey, resize=resize, resize_option=resize_option, warp=warp)

    def checked(self, images: Tensor) -> Tensor:
        """The images, if they are uint8 of the contract's channels and size; ValueError otherwise."""
        wanted = (self.contract.channels, *self.contract.input_size)
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1:] != wanted:
            raise ValueError(
                f"images are {images.dtype} {tuple(images.shape)}; {self.name or 'the model'} takes {wanted}"
            )
        return images

    def prepare(self, images: Tensor) -> Tensor:
        """uint8 (B, 3, H, W) RGB or (B, 1, H, W) grey images as the network reads them."""
        contract = self.contract
        images = self.checked(images)
        mean, std = (torch.tensor(v, device=images.device).view(1, -1, 1, 1) for v in (contract.mean, contract.std))
        ordered = images.flip(1) if contract.colour == "bgr" else images
        return (ordered.float() - mean) / std

    @torch.no_grad()
    def raw(self, images: Tensor) -> Tensor:
        """The embeddings of uint8 images before normalisation, float32 (B, width) on the CPU.

        Mirror images go in the same pass, and are merged as the contract says. A network of torch on a CPU gets the
        images in small passes; a graph and a GPU get them all in one.
        """
        if self.device == "cpu" and isinstance(self.network, nn.Module):
            _keep_freed_memory()
            pixels = self.contract.channels * math.prod(self.contract.input_size)
            passes = torch.split(images, max(1, _CPU_PASS // (pixels if self.contract.flip == "none" else 2 * pixels)))
        else:
            passes = (images,)
        return torch.cat([self._one_pass(part) for part in passes])

    def _one_pass(self, images: Tensor) -> Tensor:
        x = self.prepare(images.to(self.device))
        count, flip = len(x), self.contract.flip
        if flip != "none":
            x = torch.cat([x, x.flip(-1)])
        if self.device == "cpu" and isinstance(self.network, Backbone | NormalizedNetwork):
            x = x.contiguous(memory_format=torch.channels_last)  # oneDNN then copies no map into a layout of its own
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

    def save_pretrained(self, folder: str | Path, *, card: str | None = None, half: bool = False) -> None:
        """Write the model as a folder in the layout of Hugging Face's Hub.

        `model.safetensors` holds the weights with the contract, `config.json` the same contract to read, `README.md`
        the model card. Nothing that is there is overwritten.

        Args:
            folder: the new folder.
            card: text of the model card; by default the one that came with the model, or a short one.
            half: store the weights in half precision; they are computed with in single precision all the same.
        """
        from hypersphere.models.pretrained import save_pretrained

        save_pretrained(self, Path(folder), card=card, half=half)

    @classmethod
    def from_pretrained(cls, source: str | Path, *, device: str = "cpu", revision: str | None = None) -> Embedder:
        """A model from a folder of `save_pretrained`, or from Hugging Face's Hub by its id.

        Args:
            source: a local folder, or an id such as `owner/name`, which needs the package huggingface_hub.
            device: to compute on.
            revision: of a model of the Hub: a branch, a tag or a commit.

        Example:
            >>> hs.load_model("runs/faces").save_pretrained("faces")
            >>> hs.Embedder.from_pretrained("faces").contract.dim
            512
        """
        from hypersphere.models.pretrained import from_pretrained

        return from_pretrained(source, device=device, revision=revision)


@cache
def _keep_freed_memory() -> None:
    """Let glibc keep up to 64 MB of freed memory for the next layer.

    It maps blocks above a threshold one by one, and raises the threshold to the largest such block that was freed, at
    most 32 MB. Freeing one that large, of which no page was touched, raises it at once; other allocators ignore it.
    """
    torch.empty((1 << 25) - (1 << 16), dtype=torch.uint8)


def _source(images: Any) -> ImageSource:
    """Images of any kind as a source."""
    if isinstance(images, np.ndarray):
        return ArraySource(images, where="images")
    if hasattr(images, "batch") and hasattr(images, "read"):
        source: ImageSource = images
        return source
    return ImageFiles(images)


def _realigned(stated: AlignmentTarget, wanted: AlignmentTarget, image: Image, where: str) -> Image:
    return realigned(image, stated, wanted, where)


def _array(images: Tensor) -> npt.NDArray[np.uint8]:
    pixels: npt.NDArray[np.uint8] = images.cpu().permute(0, 2, 3, 1).numpy()
    return pixels


def embedded_batches(
    source: ImageSource,
    indices: Ints,
    model: Callable[[Tensor], Tensor],
    *,
    batch_size: int,
    name: str = "",
    workers: int = 2,
    unreadable: Unreadable | None = None,
    progress: Reporter | None = None,
) -> Iterator[tuple[Ints, Tensor]]:
    """Yield indices and embeddings, batch by batch, in order; images are loaded ahead while embeddings are computed.

    An embedding that is not finite is a ValueError that names its image: all that embeds images of a set comes by here.

    Args:
        source: where the images are.
        indices: which ones.
        model: uint8 (B, C, H, W) images to (B, dim) embeddings, as `Embedder.raw` does.
        batch_size: images at a time.
        name: of the model, for messages.
        workers: threads that load; 0 loads in the caller's own.
        unreadable: takes index and cause of images that cannot be read, which are left out; without, one is an error.
        progress: called as `progress(done, total)`.
    """
    check_integer("batch_size", batch_size, 1)

    def load(step: int) -> tuple[Ints, Tensor | None, Unreadable]:
        part = indices[step * batch_size : (step + 1) * batch_size]
        try:
            return part, source.batch(part), {}
        except UnreadableImage:
            if unreadable is None:
                raise
        lost = dict(unreadable_among(source, part))
        kept = np.array([index for index in part.tolist() if index not in lost], dtype=np.int64)
        return kept, source.batch(kept) if len(kept) else None, lost

    done = 0
    with Prefetcher(load, stop=-(-len(indices) // batch_size), workers=workers) as batches:
        for part, images, lost in batches:
            if unreadable is not None:
                unreadable.update(lost)
            if images is not None:
                embedded = model(images)
                bad = ~embedded.isfinite().all(1)
                if bad.any():
                    where = source.describe(int(part[int(bad.int().argmax())]))
                    raise ValueError(f"{name or 'the model'} makes an embedding of {where} that is not finite")
                yield part, embedded
            done += len(part) + len(lost)
            if progress is not None:
                progress(done, len(indices))


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
