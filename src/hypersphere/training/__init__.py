"""Training: recipes, the trainer, schedules, checkpoints, logs."""

from hypersphere.training.checkpoints import Checkpoints
from hypersphere.training.compare import UnseenPairs, compare_cells, unseen_pairs
from hypersphere.training.logs import Logger, TensorBoard, WeightsAndBiases, read_log
from hypersphere.training.monitor import Monitor, TrainingStopped, effective_margin
from hypersphere.training.processes import LossScaler, Processes, join_processes
from hypersphere.training.recipe import SHIPPED_RECIPES, Recipe, load_recipe
from hypersphere.training.runs import load_run, mean_embeddings
from hypersphere.training.schedules import Schedule
from hypersphere.training.shard_state import common_state, load_common_state, load_state, save_state
from hypersphere.training.shards import load_shards, read_shards, save_shards
from hypersphere.training.stages import train_recipe
from hypersphere.training.trainer import Trained, Trainer

__all__ = [
    "SHIPPED_RECIPES",
    "Checkpoints",
    "Logger",
    "LossScaler",
    "Monitor",
    "Processes",
    "Recipe",
    "Schedule",
    "TensorBoard",
    "Trained",
    "Trainer",
    "TrainingStopped",
    "UnseenPairs",
    "WeightsAndBiases",
    "common_state",
    "compare_cells",
    "effective_margin",
    "join_processes",
    "load_common_state",
    "load_recipe",
    "load_run",
    "load_shards",
    "load_state",
    "mean_embeddings",
    "read_log",
    "read_shards",
    "save_shards",
    "save_state",
    "train_recipe",
    "unseen_pairs",
]
