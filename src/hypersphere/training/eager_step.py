"""A step of training as torch runs it: images, loss, gradients, optimizer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from hypersphere.distributed import World
from hypersphere.training.build import autocast
from hypersphere.training.loading import Loaded, Loader, Mixture, TrainingImages, mix, mix_seed
from hypersphere.training.loss_terms import BatchPart, TrainingLoss
from hypersphere.training.recipe import Recipe
from hypersphere.training.train_state import TrainState


class Stepped(NamedTuple):
    """What a step says: this process's loss, its embeddings and their labels, all detached."""

    loss: Tensor
    embeddings: Tensor
    labels: Tensor


class EagerStep:
    """Takes the steps of a run.

    Args:
        recipe: of the run.
        world: the processes that train together.
        images: of the run.
        state: moved by every step.
        loss: of a part of a batch.
        compile: hand the network to `torch.compile`, on a single GPU with CUDA graphs.
    """

    def __init__(
        self,
        recipe: Recipe,
        world: World,
        images: TrainingImages,
        state: TrainState,
        loss: TrainingLoss,
        *,
        compile: bool,  # noqa: A002
    ) -> None:
        self.recipe, self.world, self.images, self.state, self.loss = recipe, world, images, state, loss
        self.compile = compile
        self.graphs = compile and world.device.type == "cuda" and world.size == 1
        self.network: Callable[..., Any] = state.backbone
        self.parallel: DistributedDataParallel | None = None
        self.loaded: Loader | None = None
        self.waited = 0.0

    @contextmanager
    def opened(self, start: int, stop: int) -> Iterator[None]:
        """Hold the network as it is trained, and load the images of the steps from `start` to `stop`.

        The wrapper that averages gradients is dropped at the end: one that outlives the process group aborts the
        interpreter on its way out.
        """
        several = self.world.size > 1 and not self.recipe.train.freeze_backbone
        self.parallel = DistributedDataParallel(self.state.backbone) if several else None
        self.network = self.parallel or self.state.backbone
        if self.compile:
            self.network = torch.compile(self.network, mode="reduce-overhead" if self.graphs else "default")
        try:
            with (
                torch.backends.cudnn.flags(enabled=True, benchmark=True),
                self.images.loader(start, stop) as self.loaded,
            ):
                yield
        finally:
            self.network, self.parallel, self.loaded = self.state.backbone, None, None

    def __call__(self, step: int) -> Stepped:
        """Take a step, counted from 0."""
        return self.take(step, *self._next(step))

    def _next(self, step: int) -> Loaded:
        assert self.loaded is not None
        began = time.monotonic()
        images, labels = next(self.loaded)
        self.waited += time.monotonic() - began
        return self.images.to_device(images, labels, step)

    def take(self, step: int, images: Tensor, labels: Tensor) -> Stepped:
        """Take a step with these images."""
        settings, state = self.recipe.train, self.state
        torch.manual_seed(mix_seed(settings.seed, step, self.world.rank))  # before dropout and sampled classes draw
        state.set_rates(self.recipe, step)
        state.set_training(self.recipe)
        state.optimizer.zero_grad(set_to_none=True)
        total, embeddings = torch.zeros((), device=self.world.device), []
        parts = list(zip(images.chunk(settings.accumulate), labels.chunk(settings.accumulate), strict=True))
        counted = self.counted(labels)
        indices = torch.from_numpy(self.images.batches.batch_at(step)).chunk(settings.accumulate)
        rank = self.world.rank if state.head.sharding is None else 0  # one loss of all rows has one share of mixup
        mixing = torch.Generator().manual_seed(mix_seed(settings.seed, step, rank))
        for number, (part, owners) in enumerate(parts, 1):
            weight = self.weight(owners, counted)
            if self.graphs:
                torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
            with nullcontext() if number == len(parts) else self._without_exchange():
                mixture = mix(part, mixing, settings) if settings.mixup or settings.cutmix else None
                loss, embedded = self.part_loss(part, owners, mixture, indices[number - 1], weight)
                loss = loss / len(parts)
                state.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
            embeddings.append(embedded.detach().clone())  # a CUDA graph of the network overwrites its output
        state.update(self.world, self.recipe.optimizer.max_grad_norm)
        return Stepped(total, torch.cat(embeddings), labels)

    def gradients(self, images: Tensor, labels: Tensor, mixture: Mixture | None = None) -> tuple[Tensor, Tensor]:
        """Leave the gradients of a whole batch in the parameters; return its loss and embeddings."""
        loss, embeddings = self.part_loss(images, labels, mixture, labels, self.weight(labels, self.counted(labels)))
        loss.backward()  # type: ignore[no-untyped-call]
        return loss, embeddings

    def part_loss(
        self, images: Tensor, labels: Tensor, mixture: Mixture | None, indices: Tensor, weight: Tensor | float
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of a part of the batch, and its embeddings, those of a mixture in the order of their labels.

        Args:
            images, labels, indices: of the part.
            mixture: how its images were mixed.
            weight: of the terms that labels decide, what `weight` returned.
        """
        images = images if mixture is None else mixture[0]
        embeddings, before_neck = self._embed(images)
        loss = self.loss(BatchPart(images, labels, indices, embeddings, before_neck, mixture), weight)
        if mixture is not None:  # the log compares an embedding with the label that it has most of
            _, order, share, _ = mixture
            if isinstance(share, Tensor):
                embeddings = torch.where(share < 0.5, embeddings[order.argsort()], embeddings)
            elif share < 0.5:
                embeddings = embeddings[order.argsort()]
        return loss, embeddings

    def counted(self, labels: Tensor) -> Tensor | None:
        """Return how many samples of the batch, of all processes, count in the mean; None where all of them do."""
        if not self.images.unlabelled or getattr(self.state.head.objective, "counts_unlabelled", True):
            return None
        return self.world.all_reduce((labels >= 0).sum().float()).clamp(min=1)

    def weight(self, labels: Tensor, counted: Tensor | None) -> Tensor | float:
        """Return the factor that makes the mean over parts and ranks a mean over samples, however labels are spread."""
        if counted is None:
            return 1.0
        here = (labels >= 0).sum()
        everywhere = here * self.world.size if self.state.head.sharding is None else self.world.all_reduce(here)
        return everywhere * self.recipe.train.accumulate / counted

    def _embed(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the embeddings, and the features before the network's neck (the same where no loss wants them)."""
        frozen = torch.no_grad() if self.recipe.train.freeze_backbone else nullcontext()
        with frozen, autocast(self.recipe, self.world):
            if self.recipe.before_neck:
                both: tuple[Tensor, Tensor] = self.network(images, before_neck=True)
                return both
            embeddings: Tensor = self.network(images)
        return embeddings, embeddings

    def _without_exchange(self) -> AbstractContextManager[None]:
        """Keep the gradients local: more parts of the batch are to come."""
        return self.parallel.no_sync() if self.parallel is not None else nullcontext()
