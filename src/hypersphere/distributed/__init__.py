"""Many processes: the world, collectives, shards of classes and of files."""

from hypersphere.distributed.collectives import (
    Exchange,
    common_rows,
    common_stack,
    common_sum,
    gather_rows,
    local_rows,
    own_rows,
    rows_used_in_parts,
    used_in_parts,
)
from hypersphere.distributed.tensor_shards import load_shards, read_shards, save_shards
from hypersphere.distributed.world import LossScaler, Processes, default_workers, join_processes

__all__ = [
    "Exchange",
    "LossScaler",
    "Processes",
    "common_rows",
    "common_stack",
    "common_sum",
    "default_workers",
    "gather_rows",
    "join_processes",
    "load_shards",
    "local_rows",
    "own_rows",
    "read_shards",
    "rows_used_in_parts",
    "save_shards",
    "used_in_parts",
]
