"""The trainer: one loop whose every random choice follows from (seed, step), so that a resumed run is the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from hypersphere.core import Reporter, remove_partial, sync_file
from hypersphere.data import ImageSource
from hypersphere.distributed import World
from hypersphere.optim import clip_grad_norm_
from hypersphere.training.batch_norm import mend_statistics
from hypersphere.training.build import (
    check_parts,
    check_split,
    make_averages,
    make_backbone,
    make_head,
    make_neck_losses,
    make_optimizer,
    make_scaler,
    make_teacher,
    sharded_head,
    start_of,
    total_steps,
)
from hypersphere.training.checkpoints import Checkpoints, Snapshots
from hypersphere.training.finished_run import Trained, write_model
from hypersphere.training.loading import Loaded, Loader, Mixture, TrainingImages, mix, mix_seed
from hypersphere.training.logs import JsonLines, Logger, Logs, TrainingReporter, values_in_words
from hypersphere.training.monitor import Monitor, TrainingStopped, stop_unless_finite
from hypersphere.training.recipe import Recipe
from hypersphere.training.run_state import resume, save, save_sharded
from hypersphere.training.semi_siamese import VIEWS, SemiSiamese
from hypersphere.training.step_graph import make_step_graph
from hypersphere.training.whole_step import make_whole_step

_PRECISIONS = {"bfloat16": torch.bfloat16, "float16": torch.float16}
Evaluation = Callable[[nn.Module], Mapping[str, float]]


class Trainer:
    """Train one recipe in one folder; a folder with checkpoints of the same recipe is taken up where it stopped.

    Args:
        recipe: what to do.
        folder: where `recipe.toml`, `log.jsonl`, `checkpoints/` go.
        world: the processes that train together, from `join_world()`; this one alone on the CPU by default. The
            network's gradients are averaged over them, and each keeps a head of its own, equal to the others'; or,
            with `head.sharded` in the recipe, its share of the classes.
        source: training images; made from the recipe by default.
        evaluate: called with the network in eval mode at every checkpoint; its scores are logged by name.
        keep_best: let the first of these scores decide which checkpoint is the best one, to be kept and loaded. A run
            that goes on without it forgets which one was the best.
        loggers: written to besides `log.jsonl`.
        workers: processes that load images ahead; 0 loads them when needed.
        compile: hand the network to `torch.compile`, and on a single GPU to CUDA graphs; the augmentation too on a GPU.
        graph: take a step as one CUDA graph, launched at once: for small networks on one GPU. Of a run that holds its
            images there and has SGD that is the whole step; of others, its gradients.
        checking: called as `checking(done, total)` while the images are read once, before the run starts.
    """

    def __init__(
        self,
        recipe: Recipe,
        folder: str | Path,
        *,
        world: World | None = None,
        source: ImageSource | None = None,
        evaluate: Evaluation | None = None,
        keep_best: bool = True,
        loggers: Sequence[Logger] = (),
        workers: int = 0,
        compile: bool = False,  # noqa: A002
        graph: bool = False,
        checking: Reporter | None = None,
    ) -> None:
        self.folder = folder = Path(folder)
        self.recipe, self.loggers = recipe, loggers
        self.evaluate, self.keep_best = evaluate, keep_best
        self.scores: Mapping[str, float] = {}
        self.world = world or World()
        check_parts(recipe)
        check_split(recipe, self.world)
        self.device = self.world.device
        self.images = TrainingImages(
            recipe, folder, self.world, source=source, workers=workers, compile=compile, checking=checking
        )
        self.source = self.images.source
        torch.manual_seed(recipe.train.seed)
        self.checkpoints = Checkpoints(folder / "checkpoints", recipe.train.keep)
        self.begun = bool(self.checkpoints.steps())
        start = None if self.begun else start_of(recipe, folder)
        self.backbone = make_backbone(recipe, start).to(self.device)
        self.backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.head = make_head(recipe, self.source, start, self.world)
        self.sharded = sharded_head(recipe)
        self.loss_weight = float(recipe.head.get("loss_weight", 1.0))
        self.neck_losses = make_neck_losses(recipe)
        self.compile = compile
        self.graphs = compile and self.device.type == "cuda" and self.world.size == 1 and not graph
        self.network: Callable[..., Any] = self.backbone
        self.parallel: DistributedDataParallel | None = None
        self.averages = make_averages(recipe, self.backbone)
        self.average = self.averages.get("average")
        self.semi_siamese: SemiSiamese | None = None
        if recipe.train.semi_siamese is not None:
            gallery = self.averages.get("gallery", self.averages["average"])
            self.semi_siamese = SemiSiamese(self.head, gallery.module, recipe.train.semi_siamese, self.world)
        self.optimizer = make_optimizer(recipe, self.backbone, self.head)
        self.scaler = make_scaler(recipe, self.world)
        self.total = total_steps(recipe, self.images.batches)
        self.whole_step = make_whole_step(self) if graph else None
        apart = graph and self.whole_step is None
        self.step_graph = make_step_graph(recipe, self.world, self.gradients, self.optimizer) if apart else None
        self.monitor = Monitor(self.source.num_classes)
        self.teacher = make_teacher(recipe, self.source, folder, self.world, compile=compile, progress=checking)
        self.snapshots = Snapshots(
            folder / "snapshots", self.total, recipe.train.snapshots, recipe.train.snapshot_every
        )
        self.step, self.waited = 0, 0.0  # steps done, and seconds spent waiting for images

    def run(self, progress: TrainingReporter | None = None, until: int | None = None) -> Trained:
        """Train to the end (or to the step `until`), from the newest checkpoint if there is one.

        The folder is held meanwhile: another run in it is refused.
        """
        with self.world.hold(self.folder):
            if self.world.is_main:
                for folder in (self.folder, self.checkpoints.folder, self.snapshots.folder):
                    remove_partial(folder)
                if not self.keep_best:
                    self.checkpoints.forget_scores()
            return self._run(progress, until)

    def _run(self, progress: TrainingReporter | None, until: int | None) -> Trained:
        resume(self)
        logs = Logs([JsonLines(self.folder / "log.jsonl"), *self.loggers] if self.world.is_main else [], self.step)
        stop = min(self.total, until if until is not None else self.total)
        began, first, words, estimated = time.monotonic(), self.step, "", 0
        if progress is not None:
            progress.begin(self.step)
        with logs, self._joined(), self.images.loader(self.step, stop) as loaded:
            while self.step < stop:
                if self.whole_step is not None:
                    loss, embeddings, labels = self.whole_step(self.step, stop)
                else:
                    images, labels = self._next(loaded)
                    loss, embeddings = self._train_step(images, labels)
                self.step += 1
                self.images.batches.go_to(self.step)
                last = self.step == self.total
                due = self.step % self.recipe.train.checkpoint_every == 0 or last
                if self.step % self.recipe.train.log_every == 0 or last:
                    values = self._look(loss, embeddings, labels)
                    warning = self._warning()
                    logs.write(values | ({"warning": warning} if warning else {}))
                    seconds = time.monotonic() - began
                    speed = (self.step - first) * self.recipe.train.batch_size / seconds
                    words = f"{values_in_words(values)}, {speed:,.0f} images/s, {self.waited / seconds:.0%} waiting"
                    words += "".join(f", {name} {score:.2%}" for name, score in self.scores.items())
                    words += f"; {warning.partition(':')[0]}" if warning else ""
                if due and self.world.is_main:
                    estimated = mend_statistics(self)
                if self.snapshots.due(self.step) and self.world.is_main:
                    self.snapshots.save(self.step, self.model())
                if due:
                    stop_unless_finite(self._mean(loss))
                    self._save(logs)
                if progress is not None:
                    progress(self.step, self.total, words)
        trained_on = f"{len(self.source):,} images of {self.source.num_classes:,} identities"
        if self.step == self.total and self.world.is_main:
            write_model(self.recipe, self.folder, self.model(), trained_on, self.scores, self._warning())
        return Trained(
            self.model().eval(),
            self.head.eval(),
            self.folder,
            self.step,
            self.snapshots.paths(),
            statistics_batches=estimated,
            trained_on=trained_on,
            warning=self._warning(),
        )

    def _warning(self) -> str:
        """Return what is wrong with the network of a run that is over."""
        return self.monitor.warning(self.head.objective) if self.step == self.total else ""

    def model(self) -> nn.Module:
        """Return the network to embed with: the moving average of the weights where the recipe keeps one."""
        return self.average.module if self.average is not None else self.backbone

    @contextmanager
    def _joined(self) -> Iterator[None]:
        """Hold the network as it is trained: compiled, and with gradients averaged over the processes.

        The wrapper is dropped at the end: one that outlives the process group aborts the interpreter on its way out.
        """
        several = self.world.size > 1 and not self.recipe.train.freeze_backbone
        self.parallel = DistributedDataParallel(self.backbone) if several else None
        self.network = self.parallel or self.backbone
        if self.compile:
            self.network = torch.compile(self.network, mode="reduce-overhead" if self.graphs else "default")
        try:
            with torch.backends.cudnn.flags(enabled=True, benchmark=True):
                yield
        finally:
            self.network, self.parallel = self.backbone, None

    def _next(self, loaded: Loader) -> Loaded:
        began = time.monotonic()
        images, labels = next(loaded)
        self.waited += time.monotonic() - began
        return self.images.to_device(images, labels, self.step)

    def _train_step(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """One step of the optimizer; returns the loss of this process and the embeddings, both detached."""
        settings = self.recipe.train
        torch.manual_seed(mix_seed(settings.seed, self.step, self.world.rank))
        self.set_rates(self.step)
        self.set_training()
        if self.step_graph is not None:
            found = self.step_graph(images, labels)
            self.update()
            return found
        self.optimizer.zero_grad(set_to_none=True)
        total, embeddings = torch.zeros((), device=self.device), []
        parts = list(zip(images.chunk(settings.accumulate), labels.chunk(settings.accumulate), strict=True))
        counted = self._counted(labels)
        indices = torch.from_numpy(self.images.batches.batch_at(self.step)).chunk(settings.accumulate)
        place = self.world.rank if self.head.sharding is None else 0  # one loss of all rows has one share of mixup
        mixing = torch.Generator().manual_seed(mix_seed(settings.seed, self.step, place))
        for number, (part, owners) in enumerate(parts, 1):
            weight = self._weight(owners, counted)
            if self.graphs:
                torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
            with nullcontext() if number == len(parts) else self._alone():
                mixture = mix(part, mixing, settings) if settings.mixup or settings.cutmix else None
                loss, embedded = self._loss(part, owners, mixture, indices[number - 1], weight)
                loss = loss / len(parts)
                self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
            embeddings.append(embedded.detach().clone())
        self.update()
        return total, torch.cat(embeddings)

    def set_rates(self, step: int) -> None:
        """Give the optimizer the learning rates of a step, counted from 0."""
        for group in self.optimizer.param_groups:
            group["lr"] = group["base"] * self.lr_factor(step)

    def set_training(self) -> None:
        """Bring network and head into the mode that they train in."""
        self.backbone.train(not self.recipe.train.freeze_backbone or self.recipe.train.shift_batch_norm)
        self.head.train()

    def gradients(self, images: Tensor, labels: Tensor, mixture: Mixture | None = None) -> tuple[Tensor, Tensor]:
        """Leave the gradients of a whole batch in the parameters; return its loss and embeddings."""
        weight = self._weight(labels, self._counted(labels))
        loss, embeddings = self._loss(images, labels, mixture, labels, weight)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss, embeddings

    def _alone(self) -> Any:
        """Keep the gradients local: more parts of the batch are to come."""
        return self.parallel.no_sync() if self.parallel is not None else nullcontext()

    def _counted(self, labels: Tensor) -> Tensor | None:
        """Return how many samples of the batch, of all processes, count in the mean; None where all of them do."""
        if not self.images.unlabelled or getattr(self.head.objective, "counts_unlabelled", True):
            return None
        return self.world.all_reduce((labels >= 0).sum().float()).clamp(min=1)

    def _weight(self, labels: Tensor, counted: Tensor | None) -> Tensor | float:
        """Return the factor that makes the mean over parts and ranks a mean over samples, however labels are spread."""
        if counted is None:
            return 1.0
        here = (labels >= 0).sum()
        everywhere = here * self.world.size if self.head.sharding is None else self.world.all_reduce(here)
        return everywhere * self.recipe.train.accumulate / counted

    def _loss(
        self, images: Tensor, labels: Tensor, mixture: Mixture | None, indices: Tensor, weight: Tensor | float
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of a part of the batch, and its embeddings; a head of weight 0 is not called.

        `weight` is `_weight`'s, for all but the teacher's loss, which counts every image.
        """
        settings = self.recipe.train
        if mixture is None:
            embeddings, before = self._embed(images)
            targets = self._targets(images, indices)
            loss = torch.zeros((), device=self.device)
            if self.recipe.teacher.centers and self.teacher is not None and targets is not None:
                self.teacher.move_centers(self.head.weight, embeddings, targets, labels)
            if self.semi_siamese is not None:
                shown = images if settings.gallery_view == "augmented" else self.images.plain(indices)
                loss = self.loss_weight * self.semi_siamese.loss(embeddings, shown, labels, self.autocast())
            elif self.loss_weight:
                loss = self.loss_weight * self.head(embeddings, labels)
            for factor, extra in self.neck_losses:
                loss = loss + factor * extra(before, labels)
            return weight * loss + self._taught(embeddings, targets), embeddings
        mixed, order, share, rest = mixture
        embeddings, _ = self._embed(mixed)
        loss = torch.zeros((), device=self.device)
        if self.loss_weight:
            loss = share * self.head(embeddings, labels) + rest * self.head(embeddings, labels[order])
            loss = self.loss_weight * loss
        loss = weight * loss + self._taught(embeddings, self._targets(mixed, indices))
        if isinstance(share, Tensor):  # what is looked at stands at the label that it has most of
            embeddings = torch.where(share < 0.5, embeddings[order.argsort()], embeddings)
        elif share < 0.5:
            embeddings = embeddings[order.argsort()]
        return loss, embeddings

    def _targets(self, images: Tensor, indices: Tensor) -> Tensor | None:
        """Return what the teacher makes of the images of a step."""
        return None if self.teacher is None else self.teacher.embed(images, indices, self.autocast())

    def _taught(self, embeddings: Tensor, targets: Tensor | None) -> Tensor | float:
        """Return the teacher's loss."""
        return self.teacher.loss(embeddings, targets) if self.teacher is not None and targets is not None else 0.0

    def _embed(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the embeddings, and the features before the network's neck (the same where no loss wants them)."""
        frozen = torch.no_grad() if self.recipe.train.freeze_backbone else nullcontext()
        with frozen, self.autocast():
            if self.neck_losses:
                both: tuple[Tensor, Tensor] = self.network(images, before_neck=True)
                return both
            embeddings: Tensor = self.network(images)
        return embeddings, embeddings

    def autocast(self) -> torch.autocast:
        """Return the context of the precision that the recipe gives the network."""
        dtype = _PRECISIONS.get(self.recipe.train.precision)
        return torch.autocast(self.device.type, dtype=dtype, enabled=dtype is not None)

    def update(self) -> None:
        """Take the step that the gradients ask for."""
        if self.head.sharding is None:
            self.world.all_reduce_mean_([p.grad for p in self.head.parameters() if p.grad is not None])
        self.scaler.unscale_(self.optimizer)
        if self.recipe.optimizer.max_grad_norm is not None:
            parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
            clip_grad_norm_(parameters, self.recipe.optimizer.max_grad_norm)
        self.scaler.step(self.optimizer)
        before = self.scaler.get_scale()
        self.scaler.update()
        if self.scaler.get_scale() < before:
            return
        self.head.advance()
        for average in self.averages.values():
            average.update_parameters(self.backbone)

    def lr_factor(self, step: int) -> float:
        """Return the schedule's factor on the learning rate at a step, counted from 0."""
        return self.recipe.schedule.factor(step, self.total, self.images.batches.batches_per_epoch)

    def _mean(self, loss: Tensor) -> float:
        return float(self.world.all_reduce(loss)) / self.world.size

    def _look(self, loss: Tensor, embeddings: Tensor, labels: Tensor) -> dict[str, float]:
        """Return the log values of this step; a cause to stop stops every process."""
        mean, cause, values = self._mean(loss), None, {}
        if self.semi_siamese is not None:  # second images are the prototypes
            embeddings, labels = embeddings[::VIEWS], labels[::VIEWS]
        if not self.loss_weight:  # a student without a head's loss: there is nothing to say of its prototypes
            stop_unless_finite(mean)
        elif self.world.is_main or self.head.sharding is not None:
            try:
                values = self.monitor.look(self.head, embeddings, labels, mean, self.step / self.total)
            except TrainingStopped as stopped:
                cause = stopped if self.world.is_main else None
        if self.world.any(cause is not None):
            raise cause or TrainingStopped("the main process has stopped the run; its message says why")
        lr = self.recipe.optimizer.lr * self.lr_factor(self.step - 1)
        values |= self.teacher.log_values() if self.teacher is not None else {}
        return {"step": self.step, "epoch": self.images.batches.epoch, "loss": mean, "lr": lr, **values}

    def _save(self, logs: Logs) -> None:
        save_sharded(self)
        if not self.world.is_main:
            return
        score = None
        if self.evaluate is not None:
            self.scores = self.evaluate(self.model().eval())
            logs.write({"step": self.step, **self.scores})
            score = next(iter(self.scores.values())) if self.keep_best else None
        sync_file(self.folder / "log.jsonl")
        save(self, score)
