"""Runs: a setting and a seed, trained and measured once and kept as a record; many of them in several processes."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hypersphere.core import Reporter, counted, duration
from hypersphere.data import ImageSource, InMemory
from hypersphere.distributed import World, process_pool
from hypersphere.heads import Head
from hypersphere.training import Recipe, Trained, Trainer, TrainingReporter, TrainingStopped, train_recipe
from hypersphere_papers.engine import measure
from hypersphere_papers.engine.class_images import class_images
from hypersphere_papers.engine.record import Record, describe_machine, read_record, write_record
from hypersphere_papers.engine.run_plan import estimate_seconds, plan_runs, steps_of
from hypersphere_papers.engine.setting import Setting

Count = Callable[[int], None]
"""Called with the number of optimizer steps that were done since the last call."""
Runner = Callable[[Setting, int, Path, str, Count], Record]
"""Called with setting, seed, cache and device, and what counts its steps; trains and measures."""
Announce = Callable[[str], None]
"""Called with a sentence before something long begins."""
ProgressFactory = Callable[[str, str], contextlib.AbstractContextManager[TrainingReporter]]
"""Called with a title and a unit; `Progress` is one."""
_LOOK_SECONDS = 0.2


class _Silence:
    def begin(self, done: int) -> None:
        pass

    def __call__(self, done: int, total: int, note: str = "") -> None:
        pass


@contextlib.contextmanager
def silent(title: str, unit: str) -> Iterator[TrainingReporter]:
    """Progress that nobody sees."""
    yield _Silence()


@dataclass(frozen=True)
class Gathered:
    """The records of settings.

    Args:
        records: by key.
        failures: by key, the message of a run that broke.
    """

    records: Mapping[str, Record] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)


def train_runs(
    settings: Sequence[Setting],
    seeds: Sequence[int],
    cache: Path,
    *,
    jobs: int = 1,
    device: str = "cpu",
    progress: ProgressFactory = silent,
    announce: Announce = lambda _: None,
) -> Gathered:
    """The records of all settings and seeds; what has to be trained is announced with an estimate and shown by one bar.

    Args:
        settings, seeds, cache, jobs, device: as of `gather`.
        progress: makes the bar, whose rate leaves out what comes before the first step: starting processes, decoding.
        announce: told how many runs there are, about how long they take, and which broke.
    """
    plan = plan_runs(settings, seeds, cache)
    count = len(plan.left)
    if not count:
        return Gathered(plan.records)
    found = f" ({len(plan.records)} more are in {cache})" if plan.records else ""
    announce(f"{counted(count, 'run')} to train, {plan.steps:,} steps in all{found}")
    seconds = estimate_seconds(plan, cache, jobs=jobs, device=device)
    announce(f"about {duration(seconds)} on {device} with --jobs {jobs}")
    with progress("training", "steps") as bar:
        begun = False

        def report(done: int, total: int) -> None:
            nonlocal begun
            if begun:
                bar(done, total)
            elif done:
                bar.begin(done)
                begun = True

        got = gather(settings, seeds, cache, jobs=jobs, device=device, progress=report)
    announce(f"{len(got.records)} runs in {cache}, {len(got.failures)} failed")
    for problem in got.failures.values():
        announce(f"failed: {problem}")
    return got


def gather(
    settings: Iterable[Setting],
    seeds: Sequence[int],
    cache: Path,
    *,
    jobs: int = 1,
    device: str = "cpu",
    progress: Reporter | None = None,
    runner: Runner | None = None,
) -> Gathered:
    """The records of all settings and seeds: from the cache, or run now and put there.

    A run whose training stops itself (a collapse) has a record that says so. One that breaks has none: its message is
    among the failures, the others go on, and the next call tries it again.

    Args:
        settings: each run once, however often it is named.
        seeds: runs of each.
        cache: folder of records and decoded images.
        jobs: processes.
        device: of all of them.
        progress: called with optimizer steps, of all runs that are not in the cache.
        runner: in place of training, in this process.
    """
    plan = plan_runs(settings, seeds, cache)
    records, left, total = dict(plan.records), plan.left, plan.steps
    failures: dict[str, str] = {}
    report = progress or (lambda done, total: None)

    def keep(key: str, problem: str) -> None:
        record = None if problem else read_record(cache, key)
        if record is None:
            setting, seed = left[key]
            failures[key] = f"{setting.title}, seed {seed}: {problem or 'it left no record'}"
        else:
            records[key] = record

    if jobs == 1 or len(left) <= 1 or runner is not None:
        done = 0

        def count(steps: int) -> None:
            nonlocal done
            done += steps
            report(done, total)

        for key, (setting, seed) in left.items():
            keep(key, run_and_write(setting, seed, cache, device, runner or train_and_measure, count))
        return Gathered(records, failures)
    _decode(left.values(), cache)
    counter = get_context("spawn").Value("q", 0)
    with process_pool(min(jobs, len(left)), _start_worker, counter) as pool:
        futures: dict[Future[str], str] = {
            pool.submit(run_and_write, setting, seed, cache, device, train_and_measure, _count_in_worker): key
            for key, (setting, seed) in left.items()
        }
        waiting = set(futures)
        while waiting:
            finished, waiting = wait(waiting, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for future in finished:
                error = future.exception()
                keep(futures[future], _message(error) if error is not None else future.result())
            report(counter.value, total)
    return Gathered(records, failures)


def run_and_write(setting: Setting, seed: int, cache: Path, device: str, runner: Runner, count: Count) -> str:
    """Run and write the record; returns what went wrong, nothing where all went well.

    Steps that a run leaves out, because it stopped or broke, are counted at its end.
    """
    left = steps_of(setting, seed)

    def count_down(steps: int) -> None:
        nonlocal left
        left -= steps
        count(steps)

    try:
        write_record(cache, setting.key(seed), runner(setting, seed, cache, device, count_down))
    except Exception as error:  # a run that breaks must not take the others with it
        return _message(error)
    finally:
        count(left)
    return ""


class _StepCount:
    """Tells a `Count` the steps of a trainer, stage after stage; of a `head`, measures the prototypes after each."""

    def __init__(self, count: Count) -> None:
        self.count, self.last = count, 0
        self.head: Head | None = None
        self.lengths: list[Tensor] = []

    def begin(self, done: int) -> None:
        self.last = done

    def __call__(self, done: int, total: int, note: str = "") -> None:
        self.count(done - self.last)
        self.last = done
        if self.head is not None:
            lengths = self.head.weight.detach().norm(dim=1)
            self.lengths.append(lengths.max() / lengths.min())  # waited for at the end, not at every step


def train_and_measure(
    setting: Setting,
    seed: int,
    cache: Path,
    device: str,
    count: Count,
    *,
    graph: bool | None = None,
    compile: bool = False,  # noqa: A002
) -> Record:
    """Train a setting in a folder that is thrown away, and measure the network.

    Args:
        setting, seed: what to train.
        cache: folder of decoded images.
        device: where; a GPU holds the training images.
        count: told of the steps.
        graph: as of `Trainer`; by default on a GPU.
        compile: as of `Trainer`.
    """
    recipe, start, folder = setting.recipe(seed), time.monotonic(), cache / "images"
    train, new = class_images(recipe.data, folder)
    if torch.device(device).type == "cuda":
        train = InMemory(train, device)
    if graph is None:
        graph = torch.device(device).type == "cuda"
    history: list[tuple[float, ...]] = []
    steps = _StepCount(count)
    try:
        with tempfile.TemporaryDirectory() as place:
            made = {"world": World(device=torch.device(device)), "graph": graph, "compile": compile}
            trained = _train(setting, seed, Path(place), train, new, options=made, history=history, progress=steps)
    except TrainingStopped as stopped:
        return Record(setting.title, seed, time.monotonic() - start, describe_machine(), str(stopped))
    embed = measure.embedder(recipe, trained.backbone, device)
    numbers, arrays = measure.measure_classes(embed, trained.head, new)
    fit_numbers, fit_arrays = measure.measure_fit(embed, trained.head, train)
    numbers |= fit_numbers
    arrays |= fit_arrays
    if setting.measure == "features":
        arrays |= measure.measure_features(embed, trained.head, train, new)
    if history:
        arrays["history"] = np.array(history)
    if steps.lengths:
        arrays["lengths"] = torch.stack(steps.lengths).float().cpu().numpy()
    seconds = time.monotonic() - start
    return Record(setting.title, seed, seconds, describe_machine(), numbers=numbers, arrays=arrays)


def _train(
    setting: Setting,
    seed: int,
    folder: Path,
    source: ImageSource,
    new: ImageSource,
    *,
    options: Mapping[str, Any],
    history: list[tuple[float, ...]],
    progress: _StepCount,
) -> Trained:
    """Train all stages; with checkpoints before the end, `history` gets step, accuracy, class and sample margin.

    `options` are further ones of the trainer.
    """
    device = str(options["world"].device)

    def make(stage: Recipe, place: Path) -> Trainer:
        trainer = Trainer(stage, place, source=source, **options)
        if stage.train.checkpoint_every < trainer.total:
            trainer.evaluate = lambda network: _look(trainer.step, network, trainer.head, stage)
            trainer.keep_best = False
        if setting.measure == "lengths":
            progress.head = trainer.head
        return trainer

    def _look(step: int, network: nn.Module, head: Head, stage: Recipe) -> dict[str, float]:
        numbers, _ = measure.measure_classes(measure.embedder(stage, network, device), head, new)
        history.append((step, numbers["accuracy"], numbers["class margin"], numbers["sample margin"]))
        return {"accuracy": numbers["accuracy"]}

    return train_recipe(setting.recipe(seed), folder, make, progress)


def _decode(runs: Iterable[tuple[Setting, int]], cache: Path) -> None:
    """Decode every set of images that runs need, before many processes ask for it at once."""
    for data in dict.fromkeys(setting.recipe(seed).data for setting, seed in runs):
        class_images(data, cache / "images")


_counter: Any = None
"""In a worker, the steps that all workers have done; shared memory with a lock."""


def _start_worker(counter: Any) -> None:
    global _counter  # noqa: PLW0603
    _counter = counter
    torch.set_num_threads(1)


def _count_in_worker(steps: int) -> None:
    with _counter.get_lock():
        _counter.value += steps


def _message(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
