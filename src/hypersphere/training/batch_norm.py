"""BatchNorm's statistics where they do not follow the weights: after a short run, and of a moving average."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

_INITIAL_SHARE = 1e-4


def keeps_statistics(network: nn.Module) -> bool:
    """Return whether a network has BatchNorm layers with running statistics."""
    return bool(_layers(network))


def is_lagging(network: nn.Module) -> bool:
    """Return whether running statistics still hold a share of the values that they began with.

    After n updates with momentum m (1 - m)^n of mean 0 and variance 1 is left. More than 1e-4 of it, fewer than 88
    updates with m = 0.1, can be all there is to see where the true variances are small.
    """
    return any(
        (1 - layer.momentum) ** int(layer.num_batches_tracked) > _INITIAL_SHARE
        for layer in _layers(network)
        if layer.momentum is not None and layer.num_batches_tracked is not None
    )


@torch.no_grad()
def estimate_anew(network: nn.Module, run: Callable[[Tensor], object], batches: Iterable[Tensor]) -> None:
    """Replace the running statistics of a network by the mean of those of some batches.

    All else stays in eval mode: no weight moves, nothing is dropped out.

    Args:
        network: left in eval mode.
        run: computes its embeddings of a batch.
        batches: images as the network takes them.
    """
    network.eval()
    layers = _layers(network)
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # torch's sign for the plain mean
        layer.train()
    try:
        for images in batches:
            run(images)
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        network.eval()


def _layers(network: nn.Module) -> list[_BatchNorm]:
    return [layer for layer in network.modules() if isinstance(layer, _BatchNorm) and layer.track_running_stats]
