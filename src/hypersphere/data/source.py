"""Where images come from: one contract for every format, batches and subsets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hypersphere.data.images import Image, decode

Labels = npt.NDArray[np.int64]
Indices = Sequence[int] | npt.NDArray[np.integer[Any]]


class ImageSource(Protocol):
    """What training and evaluation read.

    `labels` are (len,) int64 in [0, num_classes), or -1 for none of the identities. `read` gives a uint8 (H, W, 3) RGB
    or (H, W, 1) grey image; `describe` names it in messages; `batch` gives a contiguous uint8 (B, C, H, W) tensor.
    A source may also have `names`, the identities' names in the order of their labels.
    """

    @property
    def labels(self) -> Labels: ...

    @property
    def num_classes(self) -> int: ...

    def __len__(self) -> int: ...

    def read(self, index: int) -> Image: ...

    def describe(self, index: int) -> str: ...

    def batch(self, indices: Indices) -> Tensor: ...


def batch(source: ImageSource, indices: Indices) -> Tensor:
    """The images of a source as one contiguous uint8 (B, C, H, W) tensor; all must have one shape.

    Example:
        >>> batch(source, [0, 5, 7]).shape
        torch.Size([3, 3, 112, 112])
    """
    if len(indices) == 0:
        raise ValueError("a batch needs at least one index")
    first = source.read(int(indices[0]))
    images = np.empty((len(indices), *first.shape), dtype=np.uint8)
    images[0] = first
    for position in range(1, len(indices)):
        image = source.read(int(indices[position]))
        if image.shape != first.shape:
            raise ValueError(
                f"images of one batch must have one shape: {source.describe(int(indices[0]))} is {shape_of(first)}, "
                f"{source.describe(int(indices[position]))} is {shape_of(image)}"
            )
        images[position] = image
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()


def shape_of(image: Image) -> str:
    """The size of an image in words: width x height, and channels where they are not three."""
    height, width, channels = image.shape
    return f"{width}x{height}" + ("" if channels == 3 else f"x{channels}")


class EncodedSource(ABC):
    """A source of encoded images (JPEG, PNG, ...): a child gives the bytes and a description of each.

    Args:
        labels: (len,) integers in [0, len(names)), or -1.
        names: the identities' names, in the order of their labels.
    """

    def __init__(self, labels: Labels, names: Sequence[str]) -> None:
        self.labels = labels
        self.names = list(names)

    @property
    def num_classes(self) -> int:
        return len(self.names)

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def encoded(self, index: int) -> bytes:
        """The bytes of one image, as stored."""

    @abstractmethod
    def describe(self, index: int) -> str:
        """Which image this is, for messages."""

    def read(self, index: int) -> Image:
        """One image, uint8 (H, W, 3) RGB."""
        return decode(self.encoded(index), self.describe(index))

    def batch(self, indices: Indices) -> Tensor:
        """Images as a contiguous uint8 (B, 3, H, W) tensor."""
        return batch(self, indices)


class ArraySource:
    """Images held in memory.

    Args:
        images: uint8 (N, H, W, C), C = 1 or 3.
        labels: (N,) integers in [0, num_classes), or -1; all -1 by default.
        names: the identities' names, in the order of their labels; by default the labels themselves.
        where: what to call the images in messages.
        relabel: number the identities that occur from 0 on, instead of refusing a gap.

    Example:
        >>> ArraySource(np.zeros((2, 8, 8, 3), np.uint8), [0, 1]).num_classes
        2
    """

    def __init__(
        self,
        images: npt.NDArray[np.uint8],
        labels: npt.ArrayLike | None = None,
        names: Sequence[str] | None = None,
        where: str = "array",
        relabel: bool = False,
    ) -> None:
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] not in (1, 3):
            raise ValueError(f"{where}: images are {images.dtype} {images.shape}; expected uint8 (N, H, W, 1 or 3)")
        given = np.full(len(images), -1) if labels is None else np.asarray(labels)
        if given.shape != (len(images),):
            raise ValueError(f"{where}: {len(images)} images, but labels of shape {given.shape}")
        self.images = images
        self.where = where
        self.labels, kept = number_labels(given, where, relabel=relabel)
        self.names = [names[k] if names and k < len(names) else str(k) for k in kept]

    @property
    def num_classes(self) -> int:
        return len(self.names)

    def __len__(self) -> int:
        return len(self.images)

    def read(self, index: int) -> Image:
        """One image, uint8 (H, W, C)."""
        image: Image = self.images[index]
        return image.copy()

    def describe(self, index: int) -> str:
        """Which image this is, for messages."""
        return f"{self.where}: image {index}"

    def batch(self, indices: Indices) -> Tensor:
        """Images as a contiguous uint8 (B, C, H, W) tensor."""
        if len(indices) == 0:
            raise ValueError("a batch needs at least one index")
        return torch.from_numpy(self.images[np.asarray(indices)]).permute(0, 3, 1, 2).contiguous()


class Subset:
    """Some images of a source. Identities that occur are numbered 0..K-1 in the order of their former labels.

    Args:
        source: the source.
        indices: which images, in which order.

    Attributes:
        classes: (K,) the former labels, by new label.

    Example:
        >>> Subset(source, np.flatnonzero(source.labels < 100)).num_classes
        100
    """

    def __init__(self, source: ImageSource, indices: Indices) -> None:
        chosen = np.asarray(indices, dtype=np.int64)
        if chosen.ndim != 1:
            raise ValueError(f"indices have shape {chosen.shape}; expected one dimension")
        outside = chosen[(chosen < 0) | (chosen >= len(source))]
        if len(outside):
            raise ValueError(f"index {outside[0]} is not in [0, {len(source)})")
        self.source = source
        self.indices = chosen
        former = np.asarray(source.labels, dtype=np.int64)[chosen]
        self.classes: Labels = np.unique(former[former >= 0])
        self.labels: Labels = np.where(former >= 0, np.searchsorted(self.classes, former), -1).astype(np.int64)
        known = names_of(source)
        self.names = [known[k] for k in self.classes]

    @property
    def num_classes(self) -> int:
        return len(self.classes)

    def __len__(self) -> int:
        return len(self.indices)

    def read(self, index: int) -> Image:
        """One image, as the source reads it."""
        return self.source.read(int(self.indices[index]))

    def describe(self, index: int) -> str:
        """Which image of the source this is."""
        return self.source.describe(int(self.indices[index]))

    def batch(self, indices: Indices) -> Tensor:
        """Images as a contiguous uint8 (B, C, H, W) tensor."""
        return self.source.batch(self.indices[np.asarray(indices)])


def names_of(source: ImageSource) -> list[str]:
    """The identities' names in the order of their labels; the labels themselves where the source has no names."""
    names = getattr(source, "names", None)
    return list(names) if names is not None else [str(k) for k in range(source.num_classes)]


def encoded_of(source: ImageSource, index: int) -> bytes | None:
    """The bytes of an image as stored, or None where the source holds none."""
    if isinstance(source, Subset):
        return encoded_of(source.source, int(source.indices[index]))
    return source.encoded(index) if isinstance(source, EncodedSource) else None


def number_labels(
    labels: npt.NDArray[Any], where: str, num_classes: int | None = None, *, relabel: bool = False
) -> tuple[Labels, list[int]]:
    """Labels as int64 in 0..K-1 or -1, each with an image, and which label each came from.

    Args:
        labels: (N,) integers; -1 means none.
        where: the file, for messages.
        num_classes: K where it is stated somewhere; the largest label + 1 otherwise.
        relabel: number the labels that occur from 0 on, instead of refusing a gap.
    """
    if labels.size == 0:
        raise ValueError(f"{where}: no images")
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"{where}: labels are {labels.dtype}; expected integers")
    numbers: Labels = labels.astype(np.int64)
    if numbers.min() < -1:
        raise ValueError(f"{where}: label {numbers.min()} is negative; only -1 (no identity) may be")
    found = np.unique(numbers[numbers >= 0])
    if relabel:
        renumbered = np.where(numbers >= 0, np.searchsorted(found, numbers), -1).astype(np.int64)
        return renumbered, [int(k) for k in found]
    stated = int(found[-1]) + 1 if num_classes is None and len(found) else num_classes or 0
    if len(found) and found[-1] >= stated:
        raise ValueError(f"{where}: label {found[-1]} is not in [0, {stated})")
    if len(found) < stated:
        present = set(found[: 10 + stated - len(found)].tolist())
        gaps = first_few((k for k in range(stated) if k not in present), stated - len(found))
        raise ValueError(
            f"{where}: labels have a gap: of 0..{stated - 1}, {stated - len(found)} have no image ({gaps}); "
            "labels must be 0..K-1 without gaps (the option relabel numbers those that occur)"
        )
    return numbers, list(range(stated))


def number_names(names: Sequence[str]) -> tuple[Labels, list[str]]:
    """Labels from the identity's name of each image: identities sorted by name."""
    identities = sorted(set(names))
    numbers = {name: number for number, name in enumerate(identities)}
    return np.fromiter((numbers[name] for name in names), dtype=np.int64, count=len(names)), identities


def name_lines(names: Sequence[str], where: str | Path) -> bytes:
    """Names as lines of a text file that `read_name_lines` gives back; one that it could not is refused."""
    broken = next((name for name in names if "\n" in name or "\r" in name), None)
    if broken is not None:
        raise ValueError(f"{where}: identity {broken!r} has a line break in its name")
    return "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")


def read_name_lines(path: Path) -> list[str]:
    """The names in a text file, one on each line; what is not UTF-8 comes back as Python holds names of files."""
    lines = path.read_bytes().decode("utf-8", "surrogateescape").rstrip("\n").split("\n")
    return [line.removesuffix("\r") for line in lines]


def first_few(items: Iterable[Any], total: int, count: int = 5) -> str:
    """The first few items in words, and how many more there are."""
    shown: list[str] = []
    for item in items:
        if len(shown) == count:
            break
        shown.append(str(item))
    return ", ".join(shown) + (f" and {total - len(shown)} more" if total > len(shown) else "")
