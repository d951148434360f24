"""Which learning rate each parameter of a head has: the prototypes their own, biases and factors the full one."""

from pathlib import Path

import pytest
from torch import Tensor

from hypersphere.training import Trainer, load_recipe
from tests.training.small import RECIPE


def test_the_factor_acts_on_prototypes_alone(tmp_path: Path) -> None:
    """Tables on record were trained so; MiSLAS's released code gives the small rate to the biases too."""
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    smoothed = ["head.name=label_aware_smoothing", "head.weight_scaling=true", "optimizer.lr=0.1"]
    small = ["optimizer.prototype_lr_factor=0.05", "optimizer.weight_decay=0.001"]
    trainer = Trainer(load_recipe(path, [*smoothed, *small]), tmp_path / "run")

    def group_of(parameter: Tensor) -> tuple[float, float]:
        (found,) = (g for g in trainer.state.optimizer.param_groups if any(p is parameter for p in g["params"]))
        return found["base"], found["weight_decay"]

    assert {name: group_of(parameter) for name, parameter in trainer.head.named_parameters()} == {
        "weight": (pytest.approx(0.005), 0.001),
        "objective.bias": (0.1, 0.0),
        "objective.class_scale": (0.1, 0.0),
    }
