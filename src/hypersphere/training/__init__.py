"""Training: recipes, the trainer, schedules, checkpoints, logs."""

from hypersphere.training.checkpoints import Checkpoints
from hypersphere.training.comparison import compare_cells
from hypersphere.training.finished_run import Trained, load_run, mean_embeddings, run_embedder
from hypersphere.training.jobs import Task, run_tasks, training_fit
from hypersphere.training.logs import Logger, TensorBoard, WeightsAndBiases, read_log
from hypersphere.training.monitor import Monitor, TrainingStopped, effective_margin
from hypersphere.training.own_data import suggest_recipe
from hypersphere.training.recipe import Recipe, ValidationSettings, load_recipe, recipe_from_table, recipe_keys
from hypersphere.training.recipe_names import SHIPPED_RECIPES, find_recipe, recipe_names
from hypersphere.training.recipe_stages import train_recipe
from hypersphere.training.run_records import RecordFile, RunRecord, SetScore, compare_runs, run_key
from hypersphere.training.schedules import Schedule
from hypersphere.training.shard_state import load_replicated_state, load_state, replicated_state, save_state
from hypersphere.training.trainer import Trainer
from hypersphere.training.validation import NO_VALIDATION, UnseenPairs, unseen_pairs, validation_sets

__all__ = [
    "NO_VALIDATION",
    "SHIPPED_RECIPES",
    "Checkpoints",
    "Logger",
    "Monitor",
    "Recipe",
    "RecordFile",
    "RunRecord",
    "Schedule",
    "SetScore",
    "Task",
    "TensorBoard",
    "Trained",
    "Trainer",
    "TrainingStopped",
    "UnseenPairs",
    "ValidationSettings",
    "WeightsAndBiases",
    "compare_cells",
    "compare_runs",
    "effective_margin",
    "find_recipe",
    "load_recipe",
    "load_replicated_state",
    "load_run",
    "load_state",
    "mean_embeddings",
    "read_log",
    "recipe_from_table",
    "recipe_keys",
    "recipe_names",
    "replicated_state",
    "run_embedder",
    "run_key",
    "run_tasks",
    "save_state",
    "suggest_recipe",
    "train_recipe",
    "training_fit",
    "unseen_pairs",
    "validation_sets",
]
