"""Heads: prototypes + a loss + an engine."""

from hypersphere.heads.create import PairLoss, create_head, create_loss, list_heads
from hypersphere.heads.head import Head
from hypersphere.heads.optimizers import RowAdamW, RowSGD, clip_grad_norm_
from hypersphere.heads.plan import Sent, exchanged_bytes, exchanges

__all__ = [
    "Head",
    "PairLoss",
    "RowAdamW",
    "RowSGD",
    "Sent",
    "clip_grad_norm_",
    "create_head",
    "create_loss",
    "exchanged_bytes",
    "exchanges",
    "list_heads",
]
