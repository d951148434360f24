"""From images to embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hypersphere.core import Reporter, check_integer
from hypersphere.data import Fitted, ImageFiles, ImageSource, NamedImages, Prefetcher, UnreadableImage, unreadable_among
from hypersphere.evaluation.arrays import Ints
from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.models import Embedder

Unreadable = dict[int, str]


def embedded_batches(
    source: ImageSource,
    indices: Ints,
    model: Callable[[Tensor], Tensor],
    *,
    batch_size: int,
    workers: int = 2,
    unreadable: Unreadable | None = None,
    progress: Reporter | None = None,
) -> Iterator[tuple[Ints, Tensor]]:
    """Indices and embeddings, batch by batch, in order; images are loaded ahead while embeddings are computed.

    Args:
        source: where the images are.
        indices: which ones.
        model: uint8 (B, C, H, W) images to (B, dim) embeddings, as an `Embedder` does.
        batch_size: images at a time.
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
                yield part, model(images)
            done += len(part) + len(lost)
            if progress is not None:
                progress(done, len(indices))


def embed(
    model: Embedder,
    source: ImageSource,
    indices: Tensor | None = None,
    *,
    batch_size: int = 256,
    progress: Reporter | None = None,
) -> Tensor:
    """The embeddings of images that are as the model wants them, float32 on the CPU, in order.

    Args:
        model: a network with its contract.
        source: where the images are.
        indices: which ones; all by default.
        batch_size: images at a time.
        progress: called as `progress(done, total)`.
    """
    wanted = np.arange(len(source)) if indices is None else indices.numpy()
    batches = embedded_batches(source, wanted, model, batch_size=batch_size, workers=0, progress=progress)
    return torch.cat([embedded for _, embedded in batches])


def embed_images(
    model: Embedder,
    images: NamedImages | Sequence[str | Path],
    *,
    resize: bool = False,
    resize_option: str = "resize=True",
    allow_unreadable: bool = False,
    batch_size: int = 128,
    workers: int = 2,
    progress: Reporter | None = None,
) -> Embeddings:
    """The embeddings of named images or files, loaded while the model computes; mirror images go in the same pass.

    Args:
        model: a network with its contract.
        images: which ones: files, or what a protocol names, of which those that are missing get no embedding.
        resize: resize images of another size than the model's, instead of refusing them.
        resize_option: what a user writes for it, for messages.
        allow_unreadable: images that cannot be read get no embedding either, and are named in `unreadable`.
        batch_size: images at a time.
        workers: threads that load.
        progress: called as `progress(done, total)`.

    Example:
        >>> embed_images(hs.models.load_model("runs/faces"), ["ada.jpg", "grace.jpg"], resize=True).values.shape
        (2, 512)
    """
    source, title = _named(images)
    contract = model.contract
    fitted = Fitted(
        source, contract.input_size, grey=contract.colour == "grey", resize=resize, resize_option=resize_option
    )
    unreadable: Unreadable = {}
    kept: list[str] = []
    parts: list[Tensor] = []
    for part, embedded in embedded_batches(
        fitted,
        np.arange(len(source)),
        model,
        batch_size=batch_size,
        workers=workers,
        unreadable=unreadable if allow_unreadable else None,
        progress=progress,
    ):
        bad = ~embedded.isfinite().all(1)
        if bad.any():
            where = source.describe(int(part[int(bad.int().argmax())]))
            raise ValueError(f"{model.name} makes an embedding of {where} that is not finite")
        kept += [source.files[index] for index in part.tolist()]
        parts.append(embedded)
    if not parts:
        raise ValueError(f"none of the {len(source):,} images can be read: {unreadable[0]}")
    return Embeddings(
        kept,
        torch.cat(parts).numpy(),
        {"model": model.name, "images": title, "resize": resize, "contract": contract.table()},
        unreadable={source.files[index]: cause for index, cause in unreadable.items()},
    )


def _named(images: NamedImages | Sequence[str | Path]) -> tuple[NamedImages | ImageFiles, str]:
    """The images as a source, at least one, and what they are called in results."""
    if not isinstance(images, NamedImages):
        files = ImageFiles(images)
        if not len(files):
            raise ValueError("images is an empty list: name at least one file")
        return files, f"{len(files):,} files"
    if not images.files:
        raise ValueError(
            f"{images.path}: none of the {len(images.missing):,} images is there, first {images.missing[0]!r}"
        )
    return images, images.path.name
