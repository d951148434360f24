"""Training: recipes, the trainer, schedules, checkpoints, logs."""

from hypersphere.core.stored_array import StoredArray
from hypersphere.training.build import make_batches, total_steps
from hypersphere.training.checkpoints import Checkpoints
from hypersphere.training.choose_recipe import ChosenRecipe, as_setting, choose_recipe, is_data, run_folder
from hypersphere.training.compare_report import Compared, write_comparison_page
from hypersphere.training.compare_table import gain_lines, gains_over_first, table_lines
from hypersphere.training.comparison import check_same_plugins, compare_cells
from hypersphere.training.demo import DemoExtent, demo_recipes, run_demo
from hypersphere.training.demo_report import DemoOutcome, demo_row
from hypersphere.training.finished_run import Trained, load_run, mean_embeddings, newest_head, run_embedder
from hypersphere.training.jobs import Measure, Task, machine_name, run_tasks, same_first_stages, training_fit
from hypersphere.training.logs import Logger, TensorBoard, TrainingReporter, WeightsAndBiases, read_log
from hypersphere.training.monitor import Monitor, TrainingStopped
from hypersphere.training.open_models import open_models
from hypersphere.training.own_data import suggest_recipe
from hypersphere.training.recipe import (
    DataSettings,
    Recipe,
    ValidationSettings,
    load_recipe,
    recipe_from_table,
    recipe_keys,
)
from hypersphere.training.recipe_names import SHIPPED_RECIPES, find_recipe, recipe_names
from hypersphere.training.recipe_stages import train_recipe
from hypersphere.training.run_records import RecordFile, RunRecord, SetScore, compare_runs, run_key
from hypersphere.training.schedules import Schedule
from hypersphere.training.shard_state import load_replicated_state, load_state, replicated_state, save_state
from hypersphere.training.train_and_verify import TrainedRun, train_and_verify
from hypersphere.training.trainer import Trainer
from hypersphere.training.training_data import training_source
from hypersphere.training.validation import NO_VALIDATION, UnseenPairs, unseen_pairs, validation_sets

__all__ = [
    "NO_VALIDATION",
    "SHIPPED_RECIPES",
    "Checkpoints",
    "ChosenRecipe",
    "Compared",
    "DataSettings",
    "DemoExtent",
    "DemoOutcome",
    "Logger",
    "Measure",
    "Monitor",
    "Recipe",
    "RecordFile",
    "RunRecord",
    "Schedule",
    "SetScore",
    "StoredArray",
    "Task",
    "TensorBoard",
    "Trained",
    "TrainedRun",
    "Trainer",
    "TrainingReporter",
    "TrainingStopped",
    "UnseenPairs",
    "ValidationSettings",
    "WeightsAndBiases",
    "as_setting",
    "check_same_plugins",
    "choose_recipe",
    "compare_cells",
    "compare_runs",
    "demo_recipes",
    "demo_row",
    "find_recipe",
    "gain_lines",
    "gains_over_first",
    "is_data",
    "load_recipe",
    "load_replicated_state",
    "load_run",
    "load_state",
    "machine_name",
    "make_batches",
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
    "same_first_stages",
    "save_state",
    "suggest_recipe",
    "table_lines",
    "total_steps",
    "train_and_verify",
    "train_recipe",
    "training_fit",
    "training_source",
    "unseen_pairs",
    "validation_sets",
    "write_comparison_page",
]
