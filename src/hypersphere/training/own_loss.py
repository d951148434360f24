"""What a user's own loss must be able to do, tried before any image is read."""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.heads import Head, NoLogits

_ROWS = (8, 9)


def try_own_loss(head: Head) -> None:
    """Compute a loss and its gradient on random rows, as training and its records will; ValueError if it cannot.

    Args:
        head: on the CPU; parameters and running values of its loss may move.
    """
    name = f"the loss {head.objective.name!r}"
    generator = torch.Generator().manual_seed(0)
    rows = _ROWS[head.dim == _ROWS[0]]  # never as many as dim: a wrong shape is not spread over rows unseen
    x = torch.randn(rows, head.dim, generator=generator).requires_grad_()
    labels = torch.arange(rows) % head.num_classes
    try:
        loss = head.train()(x, labels)
    except Exception as error:  # the code is the user's, and may fail in any way
        raise ValueError(f"{name} cannot be computed: {type(error).__name__}: {error}") from error
    if not isinstance(loss, Tensor) or loss.ndim or not loss.is_floating_point():
        kind = f"{loss.dtype} {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise ValueError(f"{name} is {kind}; it must be one floating number of the batch")
    if not bool(loss.isfinite()):
        raise ValueError(f"{name} is {loss.item()} on embeddings drawn at random; it must be finite")
    try:
        gradient = torch.autograd.grad(loss, x)[0]
    except RuntimeError as error:
        raise ValueError(f"{name} has no gradient for the embeddings: {error}") from error
    if not bool(gradient.isfinite().all()):
        raise ValueError(f"{name} has a gradient that is not finite on embeddings drawn at random")
    try:
        head.predict(x.detach())
    except NoLogits:
        return  # its runs have no share of training images in their class
    except Exception as error:
        raise ValueError(f"{name}: its `logits` cannot be computed: {type(error).__name__}: {error}") from error
