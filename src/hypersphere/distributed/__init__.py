"""Many processes: the world, collectives, shards of classes and of files."""

from hypersphere.distributed.class_shards import ClassShards, GroupLike
from hypersphere.distributed.collectives import (
    Group,
    all_gather_rows,
    all_gather_stack,
    all_reduce_sum,
    gather_rows,
    gather_rows_reduce_grad,
    is_sharded,
    replicate_to_partial,
    scatter_rows,
    to_local,
)
from hypersphere.distributed.process_pool import process_pool
from hypersphere.distributed.tensor_shards import load_shards, read_shards, save_shards
from hypersphere.distributed.world import World, default_workers, join_world

__all__ = [
    "ClassShards",
    "Group",
    "GroupLike",
    "World",
    "all_gather_rows",
    "all_gather_stack",
    "all_reduce_sum",
    "default_workers",
    "gather_rows",
    "gather_rows_reduce_grad",
    "is_sharded",
    "join_world",
    "load_shards",
    "process_pool",
    "read_shards",
    "replicate_to_partial",
    "save_shards",
    "scatter_rows",
    "to_local",
]
