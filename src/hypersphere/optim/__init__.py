"""Optimizers that step only the rows of a sampled prototype matrix that were used."""

from hypersphere.optim.row_optimizers import RowAdamW, RowSGD, clip_grad_norm_

__all__ = [
    "RowAdamW",
    "RowSGD",
    "clip_grad_norm_",
]
