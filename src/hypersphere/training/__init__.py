"""Training: recipes, the trainer, schedules, checkpoints, logs."""

from hypersphere.training.checkpoints import Checkpoints
from hypersphere.training.compare import UnseenPairs, compare_cells, unseen_pairs
from hypersphere.training.monitor import Monitor, TrainingStopped, effective_margin
from hypersphere.training.recipe import Recipe, load_recipe
from hypersphere.training.runs import load_run, mean_embeddings
from hypersphere.training.schedules import Schedule
from hypersphere.training.trainer import Trained, Trainer

__all__ = [
    "Checkpoints",
    "Monitor",
    "Recipe",
    "Schedule",
    "Trained",
    "Trainer",
    "TrainingStopped",
    "UnseenPairs",
    "compare_cells",
    "effective_margin",
    "load_recipe",
    "load_run",
    "mean_embeddings",
    "unseen_pairs",
]
