"""Heads: prototypes + a loss + an engine."""

from hypersphere.heads.head import Head, PairLoss, create_head, create_loss, list_heads
from hypersphere.heads.optimizers import RowAdamW, RowSGD
from hypersphere.heads.plan import Sent, exchanged_bytes, exchanges

__all__ = [
    "Head",
    "PairLoss",
    "RowAdamW",
    "RowSGD",
    "Sent",
    "create_head",
    "create_loss",
    "exchanged_bytes",
    "exchanges",
    "list_heads",
]
