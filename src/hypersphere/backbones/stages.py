"""Running the stages of a net, plainly or with activation checkpointing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def run(layers: Sequence[nn.Module], x: Tensor) -> Tensor:
    """x through the layers, one after another."""
    for layer in layers:
        x = layer(x)
    return x


def recomputed(layers: Sequence[nn.Module], x: Tensor) -> Tensor:
    """As `run`, but the activations inside are computed again in the backward pass instead of kept."""

    def stage(x: Tensor) -> Tensor:
        return run(layers, x)

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _on_copies(layers)

    if torch.compiler.is_compiling():
        result: Tensor = checkpoint(stage, x, use_reentrant=False)
    else:
        result = checkpoint(stage, x, use_reentrant=False, context_fn=contexts)
    return result


@contextmanager
def _on_copies(layers: Sequence[nn.Module]) -> Iterator[None]:
    """Buffers of the layers are copies meanwhile: computing a stage again moves no running mean a second time.

    A compiled graph writes its buffers once, at the end of the forward pass, and needs none of this.
    """
    owners = [module for layer in layers for module in layer.modules()]
    kept = [(owner, name, buffer) for owner in owners for name, buffer in owner.named_buffers(recurse=False)]
    for owner, name, buffer in kept:
        setattr(owner, name, buffer.clone())
    try:
        yield
    finally:
        for owner, name, buffer in kept:
            setattr(owner, name, buffer)
