"""What a training step changes and a checkpoint holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from hypersphere.distributed import World
from hypersphere.heads import Head
from hypersphere.optim import clip_grad_norm_
from hypersphere.training.build import Batches
from hypersphere.training.monitor import Monitor
from hypersphere.training.recipe import Recipe


@dataclass
class TrainState:
    """The state of a run.

    Args:
        backbone: the network that is trained.
        head: with the loss and its prototypes.
        averages: moving averages of the network by name: `average` is the run's model, `gallery` that of semi-siamese
            training.
        optimizer: its groups have a `base`, the learning rate before the schedule.
        scaler: of the loss under float16.
        batches: the order of the images.
        monitor: of the run's angles and accuracy.
        total: steps of the run.
        step: steps that are done.
    """

    backbone: nn.Module
    head: Head
    averages: dict[str, AveragedModel]
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    batches: Batches
    monitor: Monitor
    total: int
    step: int = 0

    def model(self) -> nn.Module:
        """Return the network to embed with: the moving average of the weights where the recipe keeps one."""
        average = self.averages.get("average")
        model: nn.Module = self.backbone if average is None else average.module
        return model

    def gallery(self) -> nn.Module:
        """Return the network whose embeddings are the prototypes of semi-siamese training."""
        model: nn.Module = self.averages.get("gallery", self.averages["average"]).module
        return model

    def lr_factor(self, recipe: Recipe, step: int) -> float:
        """Return the schedule's factor on the learning rate at a step, counted from 0."""
        return recipe.schedule.factor(step, self.total, self.batches.batches_per_epoch)

    def set_rates(self, recipe: Recipe, step: int) -> None:
        """Give the optimizer the learning rates of a step, counted from 0."""
        for group in self.optimizer.param_groups:
            group["lr"] = group["base"] * self.lr_factor(recipe, step)

    def set_training(self, recipe: Recipe) -> None:
        """Bring network and head into the mode that they train in."""
        self.backbone.train(not recipe.train.freeze_backbone or recipe.train.shift_batch_norm)
        self.head.train()

    def update(self, world: World, max_grad_norm: float | None) -> None:
        """Take the step that the gradients ask for; where they overflowed under float16, only lower the scale."""
        if self.head.sharding is None:
            world.all_reduce_mean_([p.grad for p in self.head.parameters() if p.grad is not None])
        self.scaler.unscale_(self.optimizer)  # before the norm is measured
        if max_grad_norm is not None:
            parameters: list[Any] = [p for group in self.optimizer.param_groups for p in group["params"]]
            clip_grad_norm_(parameters, max_grad_norm)
        self.scaler.step(self.optimizer)
        scale = self.scaler.get_scale()
        self.scaler.update()
        if self.scaler.get_scale() < scale:  # the scaler left the optimizer's step out: margins and averages wait, too
            return
        self.head.advance()
        for average in self.averages.values():
            average.update_parameters(self.backbone)
