"""Whole training steps as one CUDA graph: images, augmentation, gradients and SGD, without a word from the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from hypersphere.data import InMemory, draw_mixup
from hypersphere.optim import RowSGD
from hypersphere.training.loading import mix_seed
from hypersphere.training.step_graph import WARM_UP, capture, check_graph, on_own_stream

if TYPE_CHECKING:
    from hypersphere.training.trainer import Trainer

Stepped = tuple[Tensor, Tensor, Tensor]
_BLOCK = 64
"""Steps whose choice of images, random numbers and learning rates are sent to the device at once."""


def make_whole_step(trainer: Trainer) -> WholeStep | None:
    """Return what takes the steps of a run, or None where a graph can hold no more than their gradients.

    That is so where images are not on the device or pasted into each other, the optimizer is not SGD of dense rows,
    weights are averaged, or a layer drops values at random.
    """
    check_graph(trainer.recipe, trainer.world, mixed=False)
    source, optimizer = trainer.source, trainer.optimizer
    drops = any(isinstance(layer, nn.Dropout) and layer.p for layer in trainer.backbone.modules())
    possible = (
        isinstance(source, InMemory)
        and source.images.device.type == trainer.device.type
        and isinstance(optimizer, RowSGD)
        and optimizer.steps_as_torch()
        and not (trainer.averages or drops or trainer.recipe.train.cutmix)
    )
    return WholeStep(trainer) if possible else None


class WholeStep:
    """Takes a run's steps; on a GPU, after a few of them, by replaying one.

    What differs between steps (which images, how they are changed, the learning rates) lies in tables on the device,
    sent for many steps at once; a counter there says which row is next.

    Args:
        trainer: of the run, whose images are held on its device.
    """

    def __init__(self, trainer: Trainer) -> None:
        assert isinstance(trainer.source, InMemory)
        self.trainer, self.pixels = trainer, trainer.source.images
        self.labels = trainer.images.labels.to(trainer.device)
        self.change = trainer.recipe.augment.change(compile=trainer.compile)
        self.layout: Any = ()
        self.tables: tuple[Tensor, ...] = ()
        self.row = torch.zeros(1, dtype=torch.int64, device=trainer.device)
        self.begin()

    def begin(self) -> None:
        """Forget what the steps before were: a checkpoint was read, whose momenta lie elsewhere than the graph's."""
        self.first = self.end = self.taken = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.result: Stepped | None = None

    def __call__(self, step: int, stop: int) -> Stepped:
        """Take a step; return its loss, embeddings and labels, which the next one overwrites.

        Args:
            step: counted from 0.
            stop: the step before which the run ends: nothing is sent beyond it.
        """
        if not self.first <= step < self.end:
            self._send(step, min(step + _BLOCK, stop))
        if self.trainer.device.type != "cuda" or self.taken < WARM_UP:
            self.result = self._apart()
        else:
            if self.graph is None:
                self._capture()
            assert self.graph is not None
            self.graph.replay()
        self.taken += 1
        self.trainer.set_rates(step)  # as numbers, for checkpoints
        assert self.result is not None
        return self.result

    def _send(self, first: int, end: int) -> None:
        """Fill the tables with the rows of the steps from `first` to before `end`, and begin at the first row."""
        trainer, device = self.trainer, self.trainer.device
        steps, seed = range(first, end), trainer.recipe.train.seed
        indices = np.stack([trainer.images.batches.batch_at(step) for step in steps])
        drawn = [
            trainer.recipe.augment.draw(indices.shape[1], torch.Generator().manual_seed(mix_seed(seed, step)))
            for step in steps
        ]
        numbers, self.layout = trainer.recipe.augment.plan(torch.cat(drawn), *self.pixels.shape[1:])
        rates = [
            [group["base"] * trainer.lr_factor(step) for group in trainer.optimizer.param_groups] for step in steps
        ]
        exact = torch.float32 if device.type == "cuda" else torch.float64
        made = [
            torch.from_numpy(indices),
            numbers.view(len(steps), indices.shape[1], -1),
            torch.tensor(rates, dtype=exact),
        ]
        if alpha := trainer.recipe.train.mixup:
            drawings = (torch.Generator().manual_seed(mix_seed(seed, step, 0)) for step in steps)
            mixtures = [draw_mixup(indices.shape[1], generator, alpha) for generator in drawings]
            made += [torch.stack([order for order, _ in mixtures])]
            made += [torch.tensor([[share, 1 - share] for _, share in mixtures])]
        if not self.tables:
            self.tables = tuple(
                torch.zeros((_BLOCK, *each.shape[1:]), dtype=each.dtype, device=device) for each in made
            )
        for table, each in zip(self.tables, made, strict=True):
            table[: len(each)].copy_(each.pin_memory() if device.type == "cuda" else each, non_blocking=True)
        self.row.zero_()
        self.first, self.end = first, end

    def _step(self) -> Stepped:
        """One step, all of whose numbers lie on the device."""
        trainer = self.trainer
        indices, numbers, rates, *mixing = (table.index_select(0, self.row)[0] for table in self.tables)
        images, labels = self.pixels.index_select(0, indices), self.labels.index_select(0, indices)
        images = self.change(images, numbers, self.layout).contiguous(memory_format=torch.channels_last)
        mixture = None
        if mixing:
            order, (share, rest) = mixing
            mixture = torch.lerp(images[order], images, share), order, share, rest
        trainer.optimizer.zero_grad(set_to_none=True)
        loss, embeddings = trainer.gradients(images, labels, mixture)
        for group, rate in zip(trainer.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        trainer.update()
        self.row += 1
        return loss.detach(), embeddings.detach(), labels

    def _apart(self) -> Stepped:
        """Take a step as usual."""
        self.trainer.set_training()
        return on_own_stream(self._step) if self.trainer.device.type == "cuda" else self._step()

    def _capture(self) -> None:
        self.trainer.set_training()
        self.graph, self.result = capture(self._step)
