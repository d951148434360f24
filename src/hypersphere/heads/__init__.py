"""Heads: prototypes + a loss + an engine."""

from hypersphere.heads.communication import Sent, ring_bytes, step_bytes, step_collectives
from hypersphere.heads.cost_plan import (
    Cost,
    Forecast,
    forecast,
    forecast_table,
    memory_table,
    network_cost,
    process_counts,
)
from hypersphere.heads.create import PairLoss, create_head, create_loss, list_heads
from hypersphere.heads.head import Head, NoLogits

__all__ = [
    "Cost",
    "Forecast",
    "Head",
    "NoLogits",
    "PairLoss",
    "Sent",
    "create_head",
    "create_loss",
    "forecast",
    "forecast_table",
    "list_heads",
    "memory_table",
    "network_cost",
    "process_counts",
    "ring_bytes",
    "step_bytes",
    "step_collectives",
]
