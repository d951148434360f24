"""Many recipes trained one after another or several at once, each measured and put on record."""

from __future__ import annotations

import os
import platform
import queue
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import multiprocessing

from hypersphere.core import digest, load_plugins, staged_folder
from hypersphere.core.stored_array import StoredArray
from hypersphere.data import ImageSource, InMemory
from hypersphere.distributed import World, process_pool
from hypersphere.evaluation import embed
from hypersphere.heads import NoLogits
from hypersphere.training.finished_run import Trained, run_embedder
from hypersphere.training.logs import TensorBoard
from hypersphere.training.monitor import TrainingStopped
from hypersphere.training.recipe import Recipe
from hypersphere.training.recipe_stages import SECOND, train_recipe
from hypersphere.training.run_records import RunRecord, SetScore, run_key
from hypersphere.training.trainer import Trainer
from hypersphere.training.training_data import readable_source, training_source
from hypersphere.training.validation import UnseenPairs, validation_sets
from hypersphere.version import __version__

_CHUNK = 512
Measure = Callable[[Trained, Sequence[UnseenPairs], str], Mapping[str, float | npt.NDArray[Any]]]
"""Called as `measure(trained, validation sets, device)`; returns numbers and arrays of the network by name."""
Watch = Callable[[Trainer], Callable[[], None] | None]
"""Called with the trainer of each stage before it runs; returns what is called after every step, or None."""
Report = Callable[[int, int, int], None]
"""Called as `report(number of the run, steps done, steps in all)`."""


@dataclass(frozen=True)
class Task:
    """One run to do. Where there are several jobs, its functions are pickled: those of modules, or methods.

    Args:
        cell: that it belongs to.
        recipe: what to train.
        folder: of the run.
        key: what its record is filed under; `run_key` of the recipe by default.
        measure: measures more of the network than its pairs.
        watch: looks at the training; it may share an object with `measure`.
        source: opens its training images, where the recipe does not say how; on a GPU they are held there. How well the
            run fitted them is then left to `measure`.
    """

    cell: str
    recipe: Recipe
    folder: Path
    key: str = ""
    measure: Measure | None = None
    watch: Watch | None = None
    source: Callable[[Recipe], ImageSource] | None = None


@dataclass(frozen=True)
class Prepared:
    """What the runs on one data set share: training images and validation sets, decoded once where they are held."""

    source: ImageSource | None
    sets: tuple[UnseenPairs, ...]


def same_first_stages(recipes: Sequence[Recipe]) -> list[int | None]:
    """Return for every recipe the number of the one that trains its first stage; None for that one itself.

    Of several with the same first stage it is the first that has no other, whose record has then the time it took.
    """
    names = [digest(recipe.stages()[0]) for recipe in recipes]
    trains: dict[str, int] = {}
    for number in sorted(range(len(recipes)), key=lambda number: len(recipes[number].stages())):
        trains.setdefault(names[number], number)
    return [None if trains[name] == own else trains[name] for own, name in enumerate(names)]


def prepare(task: Task) -> Prepared:
    """Open what the runs of a comparison share; images of a recipe with `data.device` are held in memory.

    Which of them cannot be read is then listed beside the folders of the runs.
    """
    data = task.recipe.data
    sets = tuple(each.in_memory("cpu") for each in validation_sets(task.recipe))
    if data.device is None:
        return Prepared(None, sets)
    return Prepared(InMemory(readable_source(training_source(data), data, task.folder.parent)), sets)


def run_task(
    task: Task,
    prepared: Prepared,
    world: World,
    options: Mapping[str, Any],
    report: Callable[[int, int], None],
    *,
    begin_from: Path | None = None,
    tensorboard: bool = False,
) -> RunRecord:
    """Train one recipe and measure what it left behind; a run that stops itself has a record that says why.

    Args:
        task: the run.
        prepared: its data.
        world: the processes that train together; only the main one measures.
        options: further keywords of the trainer.
        report: called as `report(step, steps)`.
        begin_from: folder of a run that has trained the same first stage, which is copied.
        tensorboard: log to `tensorboard` in the folder of each stage, too.
    """
    if begin_from is not None and begin_from.is_dir() and not task.folder.exists():
        with staged_folder(task.folder) as place:
            shutil.copytree(begin_from, place, ignore=shutil.ignore_patterns(SECOND), dirs_exist_ok=True)
    began, recipe, device = time.monotonic(), task.recipe, world.device
    source = prepared.source
    if task.source is not None:
        source = task.source(recipe)
        source = InMemory(source, str(device)) if device.type == "cuda" else source
    elif isinstance(source, InMemory) and recipe.data.device == "cuda":
        source = source.to(device)
    begun = RunRecord(
        cell=task.cell,
        seed=recipe.train.seed,
        recipe=task.key or run_key(recipe),
        machine=machine_name(device),
        version=__version__,
    )

    steps = _Steps(report)

    def make(stage: Recipe, place: Path) -> Trainer:
        loggers = [TensorBoard(place / "tensorboard")] if tensorboard and world.is_main else []
        trainer = Trainer(stage, place, world=world, source=source, loggers=loggers, **options)
        steps.after_step = None if task.watch is None else task.watch(trainer)
        return trainer

    try:
        trained = train_recipe(recipe, task.folder, make, steps)
    except TrainingStopped as cause:
        return replace(begun, stopped=str(cause), seconds=time.monotonic() - began)
    if not world.is_main:
        return replace(begun, steps=trained.steps)
    held = device if recipe.data.device == "cuda" else "cpu"
    sets = [replace(each.in_memory(held), recipe=recipe) for each in prepared.sets]
    whole = trained.head.sharding is None and task.source is None
    accuracy, norm = training_fit(trained, recipe, source, device) if whole else (None, None)
    more = {} if task.measure is None else task.measure(trained, sets, str(device))
    return replace(
        begun,
        warning=trained.warning,
        train_accuracy=accuracy,
        norm=norm,
        scores={each.title: SetScore.of(each.verify_run(trained, str(device))) for each in sets},
        numbers={name: value for name, value in more.items() if isinstance(value, float)},
        arrays={name: StoredArray.of(value) for name, value in more.items() if not isinstance(value, float)},
        steps=trained.steps,
        seconds=time.monotonic() - began,
    )


@dataclass
class _Steps:
    """Hands the trainer's progress on: the steps done here, of all stages so far, not those that were done before."""

    report: Callable[[int, int], None]
    done: int = 0
    last: int = 0
    after_step: Callable[[], None] | None = None

    def begin(self, done: int) -> None:
        self.last = done

    def __call__(self, done: int, total: int, note: str = "") -> None:
        self.done += done - self.last
        self.last = done
        if self.after_step is not None:
            self.after_step()
        self.report(self.done, self.done + total - done)


@torch.no_grad()
def training_fit(
    trained: Trained, recipe: Recipe, source: ImageSource | None, device: torch.device
) -> tuple[float | None, float]:
    """Return how well a run fitted its training images: the share that the head puts in their class, and mean ||x||.

    A run that has not fitted its training set tests nothing. Images are not augmented; those labelled -1 do not count.
    A head whose loss has no logits, such as a pair loss, puts none in a class: None.
    """
    source = source if source is not None else training_source(recipe.data)
    labels = torch.from_numpy(np.asarray(source.labels, dtype=np.int64))
    known = torch.from_numpy(np.flatnonzero(labels.numpy() >= 0))
    embeddings = embed(run_embedder(recipe, trained.backbone, str(device)), source, known)
    head, right = trained.head, 0
    norm = float(embeddings.norm(dim=1).mean())
    try:
        for start in range(0, len(known), _CHUNK):
            predicted = head.predict(embeddings[start : start + _CHUNK].to(device)).cpu()
            right += int((predicted == labels[known[start : start + _CHUNK]]).sum())
    except NoLogits:
        return None, norm
    return right / len(known), norm


def machine_name(device: torch.device) -> str:
    """Return the processor or card that computes, and torch's version."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{platform.machine()} CPU"
    return f"{name}, torch {torch.__version__.partition('+')[0]}"


def run_tasks(
    tasks: Sequence[Task],
    world: World,
    options: Mapping[str, Any],
    *,
    jobs: int = 1,
    report: Report | None = None,
    on_error: Callable[[int, Exception], None] | None = None,
    plugins: Sequence[str | Path] = (),
    tensorboard: bool = False,
) -> Iterator[RunRecord]:
    """Train every task; records come as they are ready.

    A first stage that several of them begin with is trained once, by the first or by one that has no other stage;
    where processes train a run together, each run trains its own.

    Args:
        tasks: the runs.
        world: the processes that train each of them together.
        options: further keywords of the trainer.
        jobs: how many runs at once, each in a process of its own with its share of the cores and of the card's memory.
        report: called as `report(number of the task, steps done, steps in all)`.
        on_error: called with the number of a task that breaks and its error, and the others go on; by default the error
            ends all of them.
        plugins: files that `load_plugins` has run here, for processes of their own to run, too.
        tensorboard: log to TensorBoard in the folder of every run, too.
    """
    shared: dict[str, Prepared] = {}
    for task in tasks:
        key = digest(task.recipe.data)
        if key not in shared:
            shared[key] = prepare(task)
    firsts = same_first_stages([task.recipe for task in tasks]) if world.size == 1 else [None] * len(tasks)
    if jobs == 1:
        for number in sorted(range(len(tasks)), key=lambda number: firsts[number] is not None):
            task, first = tasks[number], _folder(tasks, firsts[number])
            prepared, steps = shared[digest(task.recipe.data)], _numbered(report, number)
            try:
                record = run_task(task, prepared, world, options, steps, begin_from=first, tensorboard=tensorboard)
            except Exception as error:
                if on_error is None:
                    raise
                on_error(number, error)
            else:
                yield record
        return
    if world.size > 1:
        raise ValueError(f"jobs={jobs}: runs that {world.size} processes share are trained one after another")
    worker = _Worker(shared, options, str(world.device), jobs, plugins, tensorboard)
    yield from _in_processes(tasks, firsts, worker, report, on_error)


def _folder(tasks: Sequence[Task], number: int | None) -> Path | None:
    return None if number is None else tasks[number].folder


def _numbered(report: Report | None, number: int) -> Callable[[int, int], None]:
    return lambda done, total: None if report is None else report(number, done, total)


@dataclass
class _Worker:
    """What a worker process is started with."""

    shared: dict[str, Prepared]
    options: Mapping[str, Any]
    device: str
    jobs: int
    plugins: Sequence[str | Path] = ()
    tensorboard: bool = False
    steps: Any = None

    def begin(self) -> None:
        """Take a share of the machine; the worker calls this first."""
        global _worker  # noqa: PLW0603
        _worker = self
        load_plugins(self.plugins)
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // self.jobs))
        if self.device.startswith("cuda"):
            torch.cuda.set_per_process_memory_fraction(1 / self.jobs)


_worker: _Worker | None = None


def _work(number: int, task: Task, begin_from: Path | None) -> RunRecord:
    worker, told = _worker, 0.0
    assert worker is not None

    def report(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told > 0.5 or done == total:
            told = time.monotonic()
            worker.steps.put((number, done, total))

    world, prepared = World(device=torch.device(worker.device)), worker.shared[digest(task.recipe.data)]
    more: dict[str, Any] = {"begin_from": begin_from, "tensorboard": worker.tensorboard}
    return run_task(task, prepared, world, worker.options, report, **more)


def _in_processes(
    tasks: Sequence[Task],
    firsts: Sequence[int | None],
    worker: _Worker,
    report: Report | None,
    on_error: Callable[[int, Exception], None] | None,
) -> Iterator[RunRecord]:
    """A run whose first stage another one trains (`firsts`) begins when that one has ended.

    Runs that an interruption ends go on from their checkpoints when they are asked for again.
    """
    worker.steps = multiprocessing.get_context("spawn").Queue()
    with process_pool(worker.jobs, worker.begin) as pool:
        running: dict[Future[RunRecord], int] = {}

        def begin_after(first: int | None) -> None:
            for number, task in enumerate(tasks):
                if firsts[number] == first:
                    running[pool.submit(_work, number, task, _folder(tasks, first))] = number

        begin_after(None)
        while running:
            done, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
            _drain(worker.steps, report)
            for future in done:
                number, error = running.pop(future), future.exception()
                begin_after(number)
                if error is None:
                    yield future.result()
                elif on_error is not None and isinstance(error, Exception):
                    on_error(number, error)
                else:
                    raise error


def _drain(steps: Any, report: Report | None) -> None:
    while True:
        try:
            number, done, total = steps.get_nowait()
        except queue.Empty:
            return
        if report is not None:
            report(number, done, total)
