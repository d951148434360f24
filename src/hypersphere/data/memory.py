"""Images that are decoded once and held as bytes, in the machine's memory or on a GPU."""

from __future__ import annotations

import mmap
import multiprocessing
import os

import numpy as np
import torch
from torch import Tensor

from hypersphere.core import Reporter
from hypersphere.data.images import Image
from hypersphere.data.prefetch import Prefetcher, ProcessPrefetcher
from hypersphere.data.source import ArraySource, ImageSource, Indices, Labels, Subset, names_of

_CHUNK = 256
_WORKERS = 16
_PROCESSES_FROM = 4096
"""Of so many images on, processes read them: threads wait for Python's lock more than they read."""


class InMemory:
    """A source whose images are read once; its batches lie on its device and cost an index.

    Args:
        source: images of one size.
        device: where their bytes are held.
        progress: called as `progress(done, total)` while they are read.

    Attributes:
        images: uint8 (N, C, H, W) on the device.

    Example:
        >>> InMemory(hs.pocket.PocketFaces(num_identities=2, images_per_identity=3, size=(16, 16))).batch([0, 5]).shape
        torch.Size([2, 3, 16, 16])
    """

    def __init__(
        self, source: ImageSource, device: torch.device | str = "cpu", progress: Reporter | None = None
    ) -> None:
        self.labels: Labels = np.asarray(source.labels, dtype=np.int64)
        self.names = names_of(source)
        self._descriptions = [source.describe(index) for index in range(len(source))]
        self.images = _read_all(source, progress).to(device)

    @property
    def num_classes(self) -> int:
        return len(self.names)

    def __len__(self) -> int:
        return len(self.images)

    def read(self, index: int) -> Image:
        """One image, uint8 (H, W, C)."""
        image: Image = self.images[index].permute(1, 2, 0).cpu().numpy()
        return image

    def describe(self, index: int) -> str:
        """Which image of the source this is."""
        return self._descriptions[index]

    def batch(self, indices: Indices) -> Tensor:
        """Images as a contiguous uint8 (B, C, H, W) tensor on the device."""
        if len(indices) == 0:
            raise ValueError("a batch needs at least one index")
        chosen = torch.from_numpy(np.asarray(indices, dtype=np.int64))
        return self.images[chosen.to(self.images.device, non_blocking=True)]  # else every step would wait for the card

    def to(self, device: torch.device | str) -> InMemory:
        """The same images on another device."""
        moved = object.__new__(InMemory)
        moved.__dict__.update(self.__dict__)
        moved.images = self.images.to(device)
        return moved


def _read_all(source: ImageSource, progress: Reporter | None) -> Tensor:
    """All images, read by several threads or processes straight into one tensor."""
    if len(source) == 0:
        raise ValueError("there are no images to hold in memory")
    if isinstance(source, Subset) and isinstance(source.source, ArraySource):
        return source.source.batch(source.indices)
    if isinstance(source, ArraySource):
        return source.batch(np.arange(len(source)))
    first = source.batch([0])
    shape, workers = (len(source), *first.shape[1:]), min(_WORKERS, os.cpu_count() or 1)
    forked = len(source) >= _PROCESSES_FROM and workers > 1 and first.device.type == "cpu" and _may_fork()
    held = _shared_tensor(shape) if forked else torch.empty(shape, dtype=torch.uint8)

    def read(chunk: int) -> int:
        places = np.arange(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(source)))
        held[places[0] : places[-1] + 1] = source.batch(places)
        return len(places)

    done, prefetcher = 0, ProcessPrefetcher if forked else Prefetcher
    with prefetcher(read, stop=-(-len(source) // _CHUNK), workers=workers) as chunks:
        for count in chunks:
            done += count
            if progress is not None:
                progress(done, len(source))
    return held


def _may_fork() -> bool:
    """Whether this process can fork others that read; a daemon may have none."""
    return "fork" in multiprocessing.get_all_start_methods() and not multiprocessing.current_process().daemon


def _shared_tensor(shape: tuple[int, ...]) -> Tensor:
    """An empty uint8 tensor that forked processes write into. Unlike `share_memory_` it does not need /dev/shm."""
    memory = mmap.mmap(-1, int(np.prod(shape)))
    return torch.frombuffer(memory, dtype=torch.uint8).view(shape)
