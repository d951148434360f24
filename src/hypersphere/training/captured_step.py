"""Whole training steps as one CUDA graph: images, augmentation, gradients and SGD, without a word from the host.

For small networks, of which many are trained on one GPU at once: there the launches of kernels take longer than the
kernels. What differs between steps (which images, how they are changed, the learning rates) lies in tables on the
device, sent for many steps at once; a counter there says which row is next.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hypersphere.data import InMemory, draw_mixup
from hypersphere.optim import RowSGD
from hypersphere.training.eager_step import EagerStep, Stepped
from hypersphere.training.loading import mix_seed

WARM_UP = 3
"""Steps that are taken as usual before one is captured, as torch asks."""
_BLOCK = 64
"""Steps whose choice of images, random numbers and learning rates are sent to the device at once."""


def can_capture(eager: EagerStep) -> bool:
    """Return whether one graph can hold the steps of a run.

    That is so for one process on a GPU, with images held there and SGD of dense rows, where nothing is drawn, asked or
    averaged from step to step but what the tables hold.
    """
    train, state, images = eager.recipe.train, eager.state, eager.images.source
    return (
        eager.world.device.type == "cuda"
        and eager.world.size == 1
        and isinstance(images, InMemory)
        and images.images.device.type == "cuda"
        and isinstance(state.optimizer, RowSGD)
        and state.optimizer.steps_as_torch()
        and state.head.sampler is None
        and train.accumulate == 1
        and train.precision != "float16"  # the scaler asks the device whether gradients overflowed
        and not (state.averages or train.cutmix or train.semi_siamese or eager.recipe.teacher.model)
        and not any(isinstance(layer, nn.Dropout) and layer.p for layer in state.backbone.modules())
    )


class CapturedStep:
    """Takes a run's steps; on a GPU, after a few of them, by replaying one.

    Args:
        eager: how a step is taken as usual; of a run that `can_capture`.
        compile: compile the augmentation.
    """

    def __init__(self, eager: EagerStep, *, compile: bool) -> None:  # noqa: A002
        source = eager.images.source
        assert isinstance(source, InMemory)
        self.eager, self.pixels, self.device = eager, source.images, eager.world.device
        self.labels = eager.images.labels.to(self.device)
        self.change = eager.recipe.augment.change(compile=compile)
        self.layout: Any = ()
        self.tables: tuple[Tensor, ...] = ()
        self.row = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.stop = self.first = self.end = self.taken = 0
        self.waited = 0.0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.result: Stepped | None = None

    @contextmanager
    def opened(self, start: int, stop: int) -> Iterator[None]:
        """Begin anew: a checkpoint may have been read, whose momenta lie elsewhere than the graph's."""
        self.stop, self.first, self.end, self.taken, self.graph, self.result = stop, 0, 0, 0, None, None
        with torch.backends.cudnn.flags(enabled=True, benchmark=True):
            yield

    def __call__(self, step: int) -> Stepped:
        """Take a step, counted from 0; the next one overwrites what it returns."""
        if not self.first <= step < self.end:
            self._send(step, min(step + _BLOCK, self.stop))
        self.eager.state.set_training(self.eager.recipe)
        if self.device.type != "cuda":
            self.result = self._step()
        elif self.taken < WARM_UP:
            self.result = self._on_own_stream()
        else:
            if self.graph is None:
                self._capture()
            assert self.graph is not None
            self.graph.replay()
        self.taken += 1
        self.eager.state.set_rates(self.eager.recipe, step)  # as numbers, for checkpoints
        assert self.result is not None
        return self.result

    def _send(self, first: int, end: int) -> None:
        """Fill the tables with the rows of the steps from `first` to before `end`, and begin at the first row."""
        recipe, images, state = self.eager.recipe, self.eager.images, self.eager.state
        steps, seed = range(first, end), recipe.train.seed
        indices = np.stack([images.batches.batch_at(step) for step in steps])
        drawn = [
            recipe.augment.draw(indices.shape[1], torch.Generator().manual_seed(mix_seed(seed, step))) for step in steps
        ]
        numbers, self.layout = recipe.augment.plan(torch.cat(drawn), *self.pixels.shape[1:])
        rates = [
            [group["base"] * state.lr_factor(recipe, step) for group in state.optimizer.param_groups] for step in steps
        ]
        exact = torch.float32 if self.device.type == "cuda" else torch.float64
        rows = [
            torch.from_numpy(indices),
            numbers.view(len(steps), indices.shape[1], -1),
            torch.tensor(rates, dtype=exact),
        ]
        if alpha := recipe.train.mixup:
            drawings = (torch.Generator().manual_seed(mix_seed(seed, step, 0)) for step in steps)
            mixtures = [draw_mixup(indices.shape[1], generator, alpha) for generator in drawings]
            rows += [torch.stack([order for order, _ in mixtures])]
            rows += [torch.tensor([[share, 1 - share] for _, share in mixtures])]
        if not self.tables:  # made once: the graph reads them where they lie
            self.tables = tuple(
                torch.zeros((_BLOCK, *part.shape[1:]), dtype=part.dtype, device=self.device) for part in rows
            )
        for table, part in zip(self.tables, rows, strict=True):
            table[: len(part)].copy_(part.pin_memory() if self.device.type == "cuda" else part, non_blocking=True)
        self.row.zero_()
        self.first, self.end = first, end

    def _step(self) -> Stepped:
        """Take a step, all of whose numbers lie on the device."""
        recipe, state = self.eager.recipe, self.eager.state
        indices, numbers, rates, *mixing = (table.index_select(0, self.row)[0] for table in self.tables)
        images, labels = self.pixels.index_select(0, indices), self.labels.index_select(0, indices)
        images = self.change(images, numbers, self.layout).contiguous(memory_format=torch.channels_last)
        mixture = None
        if mixing:
            order, (share, rest) = mixing
            mixture = torch.lerp(images[order], images, share), order, share, rest
        state.optimizer.zero_grad(set_to_none=True)
        loss, embeddings = self.eager.gradients(images, labels, mixture)
        for group, rate in zip(state.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        state.update(self.eager.world, recipe.optimizer.max_grad_norm)
        self.row += 1
        return Stepped(loss.detach(), embeddings.detach(), labels)

    def _on_own_stream(self) -> Stepped:
        """Take a step on a stream of its own, as torch asks before a capture."""
        current, own = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        own.wait_stream(current)
        with torch.cuda.stream(own):
            result = self._step()
        current.wait_stream(own)
        return result

    def _capture(self) -> None:
        """Record the kernels of a step without running them.

        Garbage is collected before: a graph of an earlier run that is destroyed meanwhile would end the capture.
        """
        gc.collect()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.result = self._step()
