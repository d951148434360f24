"""The trainer: one loop whose every random choice follows from (seed, step), so that a resumed run is the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from hypersphere.core import Reporter, remove_partial, sync_file
from hypersphere.data import ImageSource
from hypersphere.distributed import World
from hypersphere.heads import Head
from hypersphere.training.batch_norm import mend_statistics
from hypersphere.training.build import (
    autocast,
    check_parts,
    check_split,
    make_averages,
    make_backbone,
    make_head,
    make_optimizer,
    make_scaler,
    make_teacher,
    start_of,
    total_steps,
)
from hypersphere.training.captured_step import CapturedStep, can_capture
from hypersphere.training.checkpoints import Checkpoints, Snapshots
from hypersphere.training.eager_step import EagerStep, Stepped
from hypersphere.training.finished_run import Trained, write_model
from hypersphere.training.loading import TrainingImages
from hypersphere.training.logs import JsonLines, Logger, Logs, TrainingReporter, values_in_words
from hypersphere.training.loss_terms import make_loss
from hypersphere.training.monitor import Monitor, TrainingStopped, stop_unless_finite
from hypersphere.training.recipe import Recipe
from hypersphere.training.run_state import resume, save, save_sharded
from hypersphere.training.semi_siamese import VIEWS, SemiSiamese
from hypersphere.training.train_state import TrainState

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
        graph: take a step as one CUDA graph where one can hold it (`can_capture`): for small networks on one GPU that
            holds the images, trained by SGD. Elsewhere steps are taken as usual.
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
        self.recipe, self.folder, self.world = recipe, Path(folder), world or World()
        self.evaluate, self.keep_best, self.loggers = evaluate, keep_best, loggers
        check_parts(recipe)
        check_split(recipe, self.world)
        self.images = TrainingImages(
            recipe, self.folder, self.world, source=source, workers=workers, compile=compile, checking=checking
        )
        self.checkpoints = Checkpoints(self.folder / "checkpoints", recipe.train.keep)
        self.state = self._new_state()
        self.snapshots = Snapshots(
            self.folder / "snapshots", self.state.total, recipe.train.snapshots, recipe.train.snapshot_every
        )
        teacher = make_teacher(recipe, self.source, self.folder, self.world, compile=compile, progress=checking)
        semi_siamese = None
        if recipe.train.semi_siamese is not None:
            semi_siamese = SemiSiamese(self.head, self.state.gallery(), recipe.train.semi_siamese, self.world)
        precision = partial(autocast, recipe, self.world)
        self.loss = make_loss(recipe, self.head, self.images, semi_siamese, teacher, autocast=precision)
        eager = EagerStep(recipe, self.world, self.images, self.state, self.loss, compile=compile)
        captured = graph and can_capture(eager)
        self.take_step: EagerStep | CapturedStep = CapturedStep(eager, compile=compile) if captured else eager

    def _new_state(self) -> TrainState:
        """Return the state that a run begins with; one that goes on replaces it when it runs."""
        recipe, world = self.recipe, self.world
        torch.manual_seed(recipe.train.seed)  # before any weight is drawn
        start = None if self.checkpoints.steps() else start_of(recipe, self.folder)
        backbone = make_backbone(recipe, start).to(world.device)
        backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        head = make_head(recipe, self.source, start, world)
        # Averages copy the weights and the optimizer holds them: both come after the weights are where they stay.
        return TrainState(
            backbone,
            head,
            make_averages(recipe, backbone),
            make_optimizer(recipe, backbone, head),
            make_scaler(recipe, world),
            self.images.batches,
            Monitor(self.source.num_classes),
            total_steps(recipe, self.images.batches),
        )

    @property
    def source(self) -> ImageSource:
        """The training images."""
        return self.images.source

    @property
    def backbone(self) -> nn.Module:
        """The network that is trained."""
        return self.state.backbone

    @property
    def head(self) -> Head:
        """The head, with its loss and prototypes."""
        return self.state.head

    @property
    def step(self) -> int:
        """How many steps are done."""
        return self.state.step

    @property
    def total(self) -> int:
        """How many steps the run has."""
        return self.state.total

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
        state, settings = self.state, self.recipe.train
        resume(self.folder, self.recipe, self.world, self.checkpoints, self.snapshots, state)
        logs = Logs([JsonLines(self.folder / "log.jsonl"), *self.loggers] if self.world.is_main else [], state.step)
        stop = min(state.total, until if until is not None else state.total)
        began, first, words, estimated = time.monotonic(), state.step, "", 0
        scores: Mapping[str, float] = {}
        if progress is not None:
            progress.begin(state.step)
        with logs, self.take_step.opened(state.step, stop):
            while state.step < stop:
                stepped = self.take_step(state.step)
                state.step += 1
                state.batches.go_to(state.step)
                last = state.step == state.total
                due = state.step % settings.checkpoint_every == 0 or last
                if state.step % settings.log_every == 0 or last:
                    values = self._look(stepped)
                    warning = self._warning()
                    logs.write(values | ({"warning": warning} if warning else {}))
                    words = self._in_words(values, scores, warning, time.monotonic() - began, state.step - first)
                if due and self.world.is_main:  # before snapshots and checkpoints copy the statistics
                    estimated = mend_statistics(self.recipe, self.world, self.images, state)
                if self.snapshots.due(state.step) and self.world.is_main:
                    self.snapshots.save(state.step, state.model())
                if due:
                    stop_unless_finite(self._mean(stepped.loss))  # a checkpoint of NaN would be gone on from
                    scores = self._save(logs) or scores
                if progress is not None:
                    progress(state.step, state.total, words)
        trained_on = f"{len(self.source):,} images of {self.source.num_classes:,} identities"
        about = {"trained_on": trained_on, "warning": self._warning()}
        if state.step == state.total and self.world.is_main:
            write_model(self.recipe, self.folder, state.model(), scores=scores, **about)
        network, head, late = state.model().eval(), state.head.eval(), self.snapshots.paths()
        return Trained(network, head, self.folder, state.step, late, statistics_batches=estimated, **about)

    def _warning(self) -> str:
        """Return what is wrong with the network of a run that is over."""
        return self.state.monitor.warning(self.head.objective) if self.step == self.total else ""

    def _in_words(
        self, values: Mapping[str, float], scores: Mapping[str, float], warning: str, seconds: float, steps: int
    ) -> str:
        """Return the log values of a step for a progress line, with the speed of this call's steps."""
        speed = steps * self.recipe.train.batch_size / seconds
        words = f"{values_in_words(values)}, {speed:,.0f} images/s, {self.take_step.waited / seconds:.0%} waiting"
        words += "".join(f", {name} {score:.2%}" for name, score in scores.items())
        return words + (f"; {warning.partition(':')[0]}" if warning else "")

    def _mean(self, loss: Tensor) -> float:
        return float(self.world.all_reduce(loss)) / self.world.size

    def _look(self, stepped: Stepped) -> dict[str, float]:
        """Return the log values of this step; a cause to stop stops every process."""
        mean, cause, values, state = self._mean(stepped.loss), None, dict[str, float](), self.state
        _, embeddings, labels = stepped
        if self.recipe.train.semi_siamese is not None:  # second images are the prototypes
            embeddings, labels = embeddings[::VIEWS], labels[::VIEWS]
        if not self.recipe.head.get("loss_weight", 1.0):  # nothing is learned that could be said of the prototypes
            stop_unless_finite(mean)
        elif self.world.is_main or state.head.sharding is not None:
            try:
                values = state.monitor.look(state.head, embeddings, labels, mean, state.step / state.total)
            except TrainingStopped as stopped:
                cause = stopped if self.world.is_main else None
        if self.world.any(cause is not None):
            raise cause or TrainingStopped("the main process has stopped the run; its message says why")
        lr = self.recipe.optimizer.lr * state.lr_factor(self.recipe, state.step - 1)
        values |= self.loss.log_values()
        return {"step": state.step, "epoch": state.batches.epoch, "loss": mean, "lr": lr, **values}

    def _save(self, logs: Logs) -> Mapping[str, float]:
        """Write a checkpoint, scored where there is something to score it on; return the scores."""
        save_sharded(self.recipe, self.checkpoints, self.state)
        if not self.world.is_main:
            return {}
        scores: Mapping[str, float] = {}
        if self.evaluate is not None:
            scores = self.evaluate(self.state.model().eval())
            logs.write({"step": self.step, **scores})
        sync_file(self.folder / "log.jsonl")  # before the checkpoint: a run that goes on keeps the lines before it
        score = next(iter(scores.values())) if scores and self.keep_best else None
        save(self.recipe, self.checkpoints, self.snapshots, self.state, score)
        return scores
