"""The trainer: one loop whose every random choice follows from (seed, step), so that a resumed run is the same run."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hypersphere.backbones import create_backbone
from hypersphere.core import Reporter
from hypersphere.core.config import as_table, digest, to_toml
from hypersphere.data import ClassBalancedBatches, IdentityBatches, ImageSource, ShuffledBatches, mixup
from hypersphere.heads import Head, create_head
from hypersphere.training.checkpoints import Checkpoints, write_atomically
from hypersphere.training.data import training_source
from hypersphere.training.logs import JsonLines
from hypersphere.training.monitor import Monitor
from hypersphere.training.recipe import Recipe

_PRECISIONS = {"bfloat16": torch.bfloat16, "float16": torch.float16}
Batches = ShuffledBatches | ClassBalancedBatches | IdentityBatches
Evaluation = Callable[[nn.Module], float]


@dataclass(frozen=True)
class Trained:
    """What a run leaves behind: the embedding network in eval mode, the head, and the folder."""

    backbone: nn.Module
    head: Head
    folder: Path
    steps: int


class Trainer:
    """Train one recipe in one folder; a folder with checkpoints of the same recipe is taken up where it stopped.

    Args:
        recipe: what to do.
        folder: where `recipe.toml`, `log.jsonl`, `checkpoints/` go.
        device: `cpu` or `cuda`.
        source: training images; made from the recipe by default.
        evaluate: called with the network in eval mode at every checkpoint; its result decides which one is the best.
    """

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        *,
        device: str = "cpu",
        source: ImageSource | None = None,
        evaluate: Evaluation | None = None,
    ) -> None:
        self.recipe, self.folder, self.device = recipe, folder, torch.device(device)
        self.source = source if source is not None else training_source(recipe.data)
        self.evaluate = evaluate
        self.labels = torch.from_numpy(np.asarray(self.source.labels, dtype=np.int64))
        torch.manual_seed(recipe.train.seed)
        self.backbone = self._backbone().to(self.device)
        self.head = create_head(dim=recipe.backbone["dim"], num_classes=self.source.num_classes, **recipe.head).to(
            self.device
        )
        self.average = _Average(self.backbone, recipe.train.ema) if recipe.train.ema is not None else None
        self.optimizer = self._optimizer()
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=recipe.train.precision == "float16")
        self.batches = self._batches()
        self.total = self._total_steps()
        self.monitor = Monitor(self.source.num_classes)
        self.checkpoints = Checkpoints(folder / "checkpoints", recipe.train.keep)
        self.step = 0

    def run(self, progress: Reporter | None = None, until: int | None = None) -> Trained:
        """Train to the end (or to the step `until`), from the newest checkpoint if there is one."""
        self._take_up()
        log = JsonLines(self.folder / "log.jsonl", self.step)
        settings, stop = self.recipe.train, min(self.total, until if until is not None else self.total)
        while self.step < stop:
            loss, embeddings, labels = self._train_step()
            self.step += 1
            last = self.step == self.total
            if self.step % settings.log_every == 0 or last:
                figures = self.monitor.look(self.head, embeddings, labels, loss)
                log.write(
                    {"step": self.step, "epoch": self.batches.epoch, "loss": loss, "rate": self._rate(), **figures}
                )
            if self.step % settings.checkpoint_every == 0 or last:
                self._save(log)
            if progress is not None:
                progress(self.step, self.total)
        return Trained(self.model().eval(), self.head.eval(), self.folder, self.step)

    def model(self) -> nn.Module:
        """The network to embed with: the moving average of the weights where the recipe keeps one."""
        return self.average.network if self.average is not None else self.backbone

    def _train_step(self) -> tuple[float, Tensor, Tensor]:
        recipe = self.recipe
        torch.manual_seed(_mix(recipe.train.seed, self.step))
        for group in self.optimizer.param_groups:
            group["lr"] = group["base"] * self._rate()
        self.backbone.train(not recipe.train.freeze_backbone)
        self.head.train()
        self.optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for indices in np.array_split(self.batches.next_batch(), recipe.train.accumulate):
            images, labels = self._load(indices)
            loss, embeddings = self._loss(images, labels)
            self.scaler.scale(loss / recipe.train.accumulate).backward()  # type: ignore[no-untyped-call]
            total += loss.item() / recipe.train.accumulate
        self._update()
        return total, embeddings.detach(), labels

    def _load(self, indices: np.ndarray[Any, Any]) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(_mix(self.recipe.train.seed, self.step, int(indices[0])))
        images = self.recipe.augment(self.source.batch(indices), generator)
        return images.to(self.device), self.labels[torch.from_numpy(indices)].to(self.device)

    def _loss(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        settings = self.recipe.train
        if settings.mixup is None:
            embeddings = self._embed(images)
            return self.head(embeddings, labels), embeddings
        generator = torch.Generator().manual_seed(_mix(settings.seed, self.step, 1))
        mixed, order, weight = mixup(images, generator, settings.mixup)
        embeddings = self._embed(mixed)
        loss = weight * self.head(embeddings, labels) + (1 - weight) * self.head(embeddings, labels[order])
        return loss, embeddings

    def _embed(self, images: Tensor) -> Tensor:
        dtype = _PRECISIONS.get(self.recipe.train.precision)
        frozen = torch.no_grad() if self.recipe.train.freeze_backbone else nullcontext()
        with frozen, torch.autocast(self.device.type, dtype=dtype, enabled=dtype is not None):
            embeddings: Tensor = self.backbone(images)
        return embeddings

    def _update(self) -> None:
        self.scaler.unscale_(self.optimizer)
        if self.recipe.optimizer.clip is not None:
            parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
            nn.utils.clip_grad_norm_(parameters, self.recipe.optimizer.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.head.advance()
        if self.average is not None:
            self.average.update(self.backbone)

    def _rate(self) -> float:
        return self.recipe.schedule.factor(self.step, self.total, self.batches.batches_per_epoch)

    def _backbone(self) -> nn.Module:
        data, settings = self.recipe.data, self.recipe.train
        channels = 1 if data.grey else 3
        network = create_backbone(input_size=data.size, channels=channels, **self.recipe.backbone)
        if settings.start is not None:
            network.load_state_dict(torch.load(settings.start, map_location="cpu", weights_only=True))
        return network.requires_grad_(not settings.freeze_backbone)

    def _optimizer(self) -> torch.optim.Optimizer:
        settings = self.recipe.optimizer
        trained = [p for p in self.backbone.parameters() if p.requires_grad]
        own = [p for name, p in self.head.named_parameters() if name != "weight" and p.requires_grad]
        prototypes = [self.head.weight] if isinstance(self.head.weight, nn.Parameter) else []
        decay = settings.decay if settings.prototype_decay is None else settings.prototype_decay
        groups: list[dict[str, Any]] = [
            {"params": trained, "base": settings.rate, "weight_decay": settings.decay},
            {"params": prototypes, "base": settings.rate * settings.prototype_rate, "weight_decay": decay},
            {"params": own, "base": settings.rate, "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        if settings.kind == "adamw":
            return torch.optim.AdamW(groups, lr=settings.rate)
        return torch.optim.SGD(groups, lr=settings.rate, momentum=settings.momentum)

    def _batches(self) -> Batches:
        settings, labels = self.recipe.train, np.asarray(self.source.labels)
        if settings.sampler == "identity":
            identities, rest = divmod(settings.batch_size, settings.images_per_identity)
            if rest:
                raise ValueError(
                    f"batch_size={settings.batch_size} must be a multiple of images_per_identity="
                    f"{settings.images_per_identity}"
                )
            return IdentityBatches(labels, identities, settings.images_per_identity, seed=settings.seed)
        if settings.sampler == "class_balanced":
            return ClassBalancedBatches(labels, settings.batch_size, seed=settings.seed)
        return ShuffledBatches(len(labels), settings.batch_size, seed=settings.seed)

    def _total_steps(self) -> int:
        settings = self.recipe.train
        if settings.steps is not None:
            return settings.steps
        assert settings.epochs is not None
        return max(1, math.ceil(settings.epochs * self.batches.batches_per_epoch))

    def _take_up(self) -> None:
        """Continue from the newest checkpoint, or write down the recipe of a new run."""
        name = digest(self.recipe)
        found = self.checkpoints.load_newest()
        if found is None:
            text = f"# recipe {name}\n{to_toml(as_table(self.recipe))}"
            write_atomically(self.folder / "recipe.toml", text.encode())
            return
        step, state = found
        if state["recipe"] != name:
            raise ValueError(
                f"{self.folder} holds a run of another recipe ({state['recipe']}, not {name}): choose another folder"
            )
        self.backbone.load_state_dict(state["backbone"])
        self.head.load_state_dict(state["head"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.batches.load_state_dict(state["batches"])
        self.monitor.load_state_dict(state["monitor"])
        if self.average is not None:
            self.average.network.load_state_dict(state["average"])
        self.step = step

    def _save(self, log: JsonLines) -> None:
        score = None
        if self.evaluate is not None:
            score = self.evaluate(self.model().eval())
            log.write({"step": self.step, "score": score})
        state = {
            "recipe": digest(self.recipe),
            "backbone": self.backbone.state_dict(),
            "head": self.head.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "batches": self.batches.state_dict(),
            "monitor": self.monitor.state_dict(),
            "average": self.average.network.state_dict() if self.average is not None else None,
        }
        self.checkpoints.save(self.step, state, score)


class _Average:
    """An exponential moving average of a network's weights and buffers."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.decay = decay
        self.network = copy.deepcopy(network).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        for mine, theirs in zip(_tensors(self.network), _tensors(network), strict=True):
            if mine.is_floating_point():
                mine.lerp_(theirs, 1 - self.decay)
            else:
                mine.copy_(theirs)


def _tensors(network: nn.Module) -> Iterator[Tensor]:
    yield from network.parameters()
    yield from network.buffers()


def _mix(*numbers: int) -> int:
    """One 63-bit seed from several numbers."""
    mixed = 0
    for number in numbers:
        mixed = (mixed * 6364136223846793005 + number + 1442695040888963407) % 2**63
    return mixed
