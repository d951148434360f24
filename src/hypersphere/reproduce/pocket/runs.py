"""Runs: a setting and a seed, trained and measured once; many of them in several processes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from torch import nn

from hypersphere.core import Reporter
from hypersphere.data import ImageSource
from hypersphere.heads import Head
from hypersphere.reproduce.pocket import measure
from hypersphere.reproduce.pocket.images import paint_all, training_images, unseen_images
from hypersphere.reproduce.pocket.records import Record, read_record, write_record
from hypersphere.reproduce.pocket.settings import Setting, unique
from hypersphere.reproduce.results import describe_machine
from hypersphere.training import Processes, Recipe, Trained, Trainer, TrainingStopped, train_recipe

Runner = Callable[[Setting, int, Path, str], Record]
"""Called with setting, seed, cache and device; trains and measures."""


@dataclass(frozen=True)
class Gathered:
    """The records of settings.

    Args:
        records: by key.
        failures: by key, the message of a run that broke.
    """

    records: Mapping[str, Record]
    failures: Mapping[str, str] = field(default_factory=dict)


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
        cache: folder of records and painted images.
        jobs: processes.
        device: of all of them.
        progress: called with runs.
        runner: in place of training, in this process.
    """
    runs = unique(settings, seeds)
    records = {key: record for key in runs if (record := read_record(cache, key)) is not None}
    left = {key: run for key, run in runs.items() if key not in records}
    failures: dict[str, str] = {}
    report = progress or (lambda done, total: None)

    def keep(key: str, problem: str) -> None:
        record = None if problem else read_record(cache, key)
        if record is None:
            setting, seed = left[key]
            failures[key] = f"{setting.title}, seed {seed}: {problem or 'it left no record'}"
        else:
            records[key] = record
        report(len(runs) - len(left) + len(failures) + len(records.keys() & left.keys()), len(runs))

    if jobs == 1 or len(left) <= 1 or runner is not None:
        for key, (setting, seed) in left.items():
            keep(key, run_and_write(setting, seed, cache, device, runner or train_and_measure))
        return Gathered(records, failures)
    _paint(left.values(), cache)
    with ProcessPoolExecutor(min(jobs, len(left)), get_context("spawn"), _one_thread) as pool:
        futures: dict[Future[str], str] = {
            pool.submit(run_and_write, setting, seed, cache, device, train_and_measure): key
            for key, (setting, seed) in left.items()
        }
        for future in as_completed(futures):
            error = future.exception()
            keep(futures[future], _message(error) if error is not None else future.result())
    return Gathered(records, failures)


def run_and_write(setting: Setting, seed: int, cache: Path, device: str, runner: Runner) -> str:
    """Run and write the record; returns what went wrong, nothing where all went well."""
    try:
        write_record(cache, setting.key(seed), runner(setting, seed, cache, device))
    except Exception as error:  # a run that breaks must not take the others with it
        return _message(error)
    return ""


def train_and_measure(setting: Setting, seed: int, cache: Path, device: str) -> Record:
    """Train a setting in a folder that is thrown away, and measure the network."""
    recipe, start, folder = setting.recipe(seed), time.monotonic(), cache / "images"
    train, new = training_images(recipe.data, folder, new=setting.measure != "people")
    history: list[tuple[float, ...]] = []
    try:
        with tempfile.TemporaryDirectory() as place:
            trained = _train(recipe, Path(place), train, new, device, history)
            embed = measure.embedder(trained.backbone, recipe.augment, device)
            people = None if new is not None else measure.measure_people(embed, unseen_images(recipe.data, folder))
    except TrainingStopped as stopped:
        return Record(setting.title, seed, time.monotonic() - start, describe_machine(), str(stopped))
    if new is None:
        assert people is not None
        numbers, arrays = people
        own_numbers, own_arrays = measure.measure_head(trained.head)
        numbers |= own_numbers | measure.logit_spread(embed, trained.head, train)
        arrays |= own_arrays
    else:
        numbers, arrays = measure.measure_classes(embed, trained.head, new)
    if setting.measure == "features":
        arrays |= measure.measure_features(embed, trained.head, train)
    if history:
        arrays["history"] = np.array(history)
    seconds = time.monotonic() - start
    return Record(setting.title, seed, seconds, describe_machine(), numbers=numbers, arrays=arrays)


def _train(
    recipe: Recipe,
    folder: Path,
    source: ImageSource,
    new: ImageSource | None,
    device: str,
    history: list[tuple[float, ...]],
) -> Trained:
    """Train all stages; with checkpoints before the end, `history` gets step, accuracy, class and sample margin."""

    def make(stage: Recipe, place: Path) -> Trainer:
        trainer = Trainer(stage, place, source=source, processes=Processes(device=torch.device(device)))
        if new is not None and stage.train.checkpoint_every < trainer.total:
            trainer.evaluate = lambda network: _look(trainer.step, network, trainer.head, stage, new)
            trainer.keep_best = False
        return trainer

    def _look(step: int, network: nn.Module, head: Head, stage: Recipe, images: ImageSource) -> dict[str, float]:
        numbers, _ = measure.measure_classes(measure.embedder(network, stage.augment, device), head, images)
        history.append((step, numbers["accuracy"], numbers["class margin"], numbers["sample margin"]))
        return {"accuracy": numbers["accuracy"]}

    return train_recipe(recipe, folder, make)


def _paint(runs: Iterable[tuple[Setting, int]], cache: Path) -> None:
    """Every set of images that runs need, once."""
    for data, measure_ in dict.fromkeys((setting.recipe(seed).data, setting.measure) for setting, seed in runs):
        paint_all(data, cache / "images", measure_)


def _one_thread() -> None:
    torch.set_num_threads(1)


def _message(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
