"""Heads: prototypes + a loss + an engine."""

from hypersphere.heads.head import Head, PairLoss, create_head, create_loss, list_heads

__all__ = ["Head", "PairLoss", "create_head", "create_loss", "list_heads"]
