"""Heads: prototypes + a loss + an engine."""

from hypersphere.heads.communication import Sent, step_bytes, step_collectives
from hypersphere.heads.create import PairLoss, create_head, create_loss, list_heads
from hypersphere.heads.head import Head

__all__ = [
    "Head",
    "PairLoss",
    "Sent",
    "create_head",
    "create_loss",
    "list_heads",
    "step_bytes",
    "step_collectives",
]
