"""BatchNorm's statistics where they do not follow the weights: after a short run, and of a moving average."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from hypersphere.distributed import World
from hypersphere.training.build import autocast
from hypersphere.training.loading import TrainingImages
from hypersphere.training.recipe import Recipe
from hypersphere.training.train_state import TrainState

_INITIAL_SHARE = 1e-4
_STATISTICS_BATCHES = 20


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


def mend_statistics(recipe: Recipe, world: World, images: TrainingImages, state: TrainState) -> int:
    """Mend BatchNorm's statistics; returns over how many batches those of a short run, at its end, were mended.

    A moving average of statistics is not the statistics of the averaged weights, and while the weights move fast they
    are far apart. They are estimated anew for every checkpoint, as torch's `update_bn` does; without a moving average
    at the end of a short run alone. The batches are the first of the run.
    """
    network = state.model()
    short = state.step == state.total and is_lagging(network)
    frozen = recipe.train.freeze_backbone and not recipe.train.shift_batch_norm
    if frozen or not (short or ("average" in state.averages and keeps_statistics(network))):
        return 0

    def run(batch: Tensor) -> None:
        with autocast(recipe, world):
            network(batch)

    count = min(_STATISTICS_BATCHES, state.total)
    estimate_anew(network, run, (images.to_device(*images.load(step), step)[0] for step in range(count)))
    return count if short else 0


def _layers(network: nn.Module) -> list[_BatchNorm]:
    return [layer for layer in network.modules() if isinstance(layer, _BatchNorm) and layer.track_running_stats]
