"""Heads: prototypes + a loss + an engine."""

from hypersphere.heads.create import PairLoss, create_head, create_loss, list_heads
from hypersphere.heads.head import Head
from hypersphere.heads.plan import Sent, exchanged_bytes, exchanges

__all__ = [
    "Head",
    "PairLoss",
    "Sent",
    "create_head",
    "create_loss",
    "exchanged_bytes",
    "exchanges",
    "list_heads",
]
