"""From images to embeddings."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hypersphere.core import Reporter
from hypersphere.data import Augmentation, ImageSource


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
