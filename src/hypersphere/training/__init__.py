"""Training: recipes, the trainer, schedules, checkpoints, logs."""

from hypersphere.training.checkpoints import Checkpoints
from hypersphere.training.choose_recipe import ChosenRecipe, as_setting, choose_recipe, is_data, run_folder
from hypersphere.training.compare_table import gain_lines, gains_over_first, table_lines
from hypersphere.training.comparison import compare_cells
from hypersphere.training.demo import DemoExtent, demo_recipes, run_demo
from hypersphere.training.demo_report import DemoOutcome, demo_row
from hypersphere.training.finished_run import Trained, load_run, mean_embeddings, newest_head, run_embedder
from hypersphere.training.jobs import Task, run_tasks, training_fit
from hypersphere.training.logs import Logger, TensorBoard, WeightsAndBiases, read_log
from hypersphere.training.monitor import Monitor, TrainingStopped, effective_margin
from hypersphere.training.open_models import open_models
from hypersphere.training.own_data import suggest_recipe
from hypersphere.training.recipe import Recipe, ValidationSettings, load_recipe, recipe_from_table, recipe_keys
from hypersphere.training.recipe_names import SHIPPED_RECIPES, find_recipe, recipe_names
from hypersphere.training.recipe_stages import train_recipe
from hypersphere.training.run_records import RecordFile, RunRecord, SetScore, compare_runs, run_key
from hypersphere.training.schedules import Schedule
from hypersphere.training.shard_state import load_replicated_state, load_state, replicated_state, save_state
from hypersphere.training.train_and_verify import TrainedRun, train_and_verify
from hypersphere.training.trainer import Trainer
from hypersphere.training.validation import NO_VALIDATION, UnseenPairs, unseen_pairs, validation_sets

__all__ = [
    "NO_VALIDATION",
    "SHIPPED_RECIPES",
    "Checkpoints",
    "ChosenRecipe",
    "DemoExtent",
    "DemoOutcome",
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
    "TrainedRun",
    "Trainer",
    "TrainingStopped",
    "UnseenPairs",
    "ValidationSettings",
    "WeightsAndBiases",
    "as_setting",
    "choose_recipe",
    "compare_cells",
    "compare_runs",
    "demo_recipes",
    "demo_row",
    "effective_margin",
    "find_recipe",
    "gain_lines",
    "gains_over_first",
    "is_data",
    "load_recipe",
    "load_replicated_state",
    "load_run",
    "load_state",
    "mean_embeddings",
    "newest_head",
    "open_models",
    "read_log",
    "recipe_from_table",
    "recipe_keys",
    "recipe_names",
    "replicated_state",
    "run_demo",
    "run_embedder",
    "run_folder",
    "run_key",
    "run_tasks",
    "save_state",
    "suggest_recipe",
    "table_lines",
    "train_and_verify",
    "train_recipe",
    "training_fit",
    "unseen_pairs",
    "validation_sets",
]
