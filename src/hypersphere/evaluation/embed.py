"""From images to embeddings."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hypersphere.core import Reporter, check_integer
from hypersphere.data import Augmentation, Fitted, ImageSource, NamedImages, Prefetcher
from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.models import Embedder


@torch.no_grad()
def embed(
    network: nn.Module,
    source: ImageSource,
    indices: Tensor | None = None,
    *,
    preparation: Augmentation,
    batch_size: int = 256,
    device: str = "cpu",
    progress: Reporter | None = None,
) -> Tensor:
    """The embeddings of images, float32 on the CPU, in order; the network is put in eval mode.

    Args:
        network: images to embeddings.
        source: where the images are.
        indices: which ones; all by default.
        preparation: the recipe's augmentation, of which only the normalisation is used.
        batch_size: images at a time.
        device: of the network.
        progress: called as `progress(done, total)`.
    """
    wanted = torch.arange(len(source)) if indices is None else indices
    network.eval()
    plain, generator = Augmentation(mean=preparation.mean, std=preparation.std), torch.Generator()
    parts = []
    for start in range(0, len(wanted), batch_size):
        part = wanted[start : start + batch_size]
        images = plain(source.batch(part.numpy()), generator).to(device)
        parts.append(network(images).float().cpu())
        if progress is not None:
            progress(start + len(part), len(wanted))
    return torch.cat(parts)


def embed_images(
    model: Embedder,
    images: NamedImages,
    *,
    resize: bool = False,
    batch_size: int = 128,
    workers: int = 2,
    progress: Reporter | None = None,
) -> Embeddings:
    """The embeddings of named images, loaded ahead while the model computes; mirror images go in the same pass.

    Args:
        model: a network with its contract.
        images: which ones; those that are missing get no embedding.
        resize: resize images of another size than the model's, instead of refusing them.
        batch_size: images at a time.
        workers: threads that load.
        progress: called as `progress(done, total)`.
    """
    check_integer("batch_size", batch_size, 1)
    if not images.files:
        raise ValueError(
            f"{images.path}: none of the {len(images.missing):,} images is there, first {images.missing[0]!r}"
        )
    contract, count = model.contract, len(images)
    fitted = Fitted(images, contract.input_size, grey=contract.colour == "grey", resize=resize)

    def load(step: int) -> Tensor:
        return fitted.batch(range(step * batch_size, min(count, (step + 1) * batch_size)))

    parts: list[Tensor] = []
    with Prefetcher(load, stop=-(-count // batch_size), workers=workers) as batches:
        for loaded in batches:
            parts.append(model(loaded))
            bad = ~parts[-1].isfinite().all(1)
            done = sum(map(len, parts))
            if bad.any():
                where = images.describe(done - len(bad) + int(bad.int().argmax()))
                raise ValueError(f"{model.name} makes an embedding of {where} that is not finite")
            if progress is not None:
                progress(done, count)
    options = {"model": model.name, "images": images.path.name, "resize": resize, "contract": contract.table()}
    return Embeddings(images.files, torch.cat(parts).numpy(), options)
