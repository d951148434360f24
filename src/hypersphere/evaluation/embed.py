"""From images to embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.core import Reporter
from hypersphere.data import ImageFiles, ImageSource, NamedImages
from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.models import Embedder, embedded_batches


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
    how: dict[str, Any] = {"batch_size": batch_size, "workers": 0, "progress": progress}
    batches = embedded_batches(source, wanted, model.raw, name=model.name, **how)
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
    fitted = model.fitted(source, resize=resize, resize_option=resize_option)
    unreadable: dict[int, str] = {}
    kept: list[str] = []
    parts: list[Tensor] = []
    for part, embedded in embedded_batches(
        fitted,
        np.arange(len(source)),
        model.raw,
        batch_size=batch_size,
        name=model.name,
        workers=workers,
        unreadable=unreadable if allow_unreadable else None,
        progress=progress,
    ):
        kept += [source.files[index] for index in part.tolist()]
        parts.append(embedded)
    if not parts:
        raise ValueError(f"none of the {len(source):,} images can be read: {unreadable[0]}")
    return Embeddings(
        kept,
        torch.cat(parts).numpy(),
        {"model": model.name, "images": title, "resize": resize, "contract": model.contract.table()},
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
