"""Run items of the catalogue: train what they need, all together, then judge one after another."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hypersphere.core import install_hint, is_installed
from hypersphere_papers.catalogue import Entry
from hypersphere_papers.engine.evidence import settings_of
from hypersphere_papers.engine.job import Job, find_item
from hypersphere_papers.engine.record_folder import (
    RECORDS,
    RunFiles,
    faces_at_hand,
    missing_faces,
    objects_at_hand,
)
from hypersphere_papers.engine.result_file import Result, write_result
from hypersphere_papers.engine.runs import Announce, ProgressFactory, gather_runs, silent


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How items are run.

    Args:
        data: the path that a `real` item needs.
        seeds: of items that train.
        epochs: of a `real` item that trains; its own small number by default.
        cache: folder of the runs; `cache` in the folder of the results by default.
        jobs: processes that train at once.
        device: of all of them.
        progress: makes the bar of what is long.
        announce: called with a sentence before something long begins.
    """

    data: Path | None = None
    seeds: tuple[int, ...] = (0,)
    epochs: int | None = None
    cache: Path | None = None
    jobs: int = 1
    device: str = "cpu"
    progress: ProgressFactory = silent
    announce: Announce = lambda _: None


def missing(entry: Entry, data: str | Path | None) -> str:
    """What stands in the way of running an item, and how to give it; nothing where it can run."""
    if find_item(entry.id) is None:
        own = f"needs {entry.needs}" if entry.kind == "real" else "not run yet"
        return f"{own}; recipe papers/recipes/{entry.recipe}.toml" if entry.recipe else own
    if entry.kind == "real" and data is None:
        return f"needs {entry.needs}: give its path with --data"
    if entry.kind == "illustration" and not is_installed("matplotlib"):
        return install_hint("matplotlib", "its picture")
    return "" if data is None else _missing_data(entry, Path(data))


def _missing_data(entry: Entry, data: Path) -> str:
    """What a path lacks for an item."""
    if entry.data == "CIFAR-10" and not objects_at_hand(data):
        return (
            f"{data} has neither CIFAR-10 (a folder or a .tar) nor {RECORDS}; papers/records/cifar has runs on record"
        )
    if entry.file and data.is_dir() and not (data / entry.file).is_file():
        return f"{data} has no {entry.file}; needs {entry.needs}"
    if entry.data == "faces" and not faces_at_hand(data):
        trained = any(setting.data == "faces" for setting in settings_of(Job(entry=entry, data=data)))
        return missing_faces(data) if trained else ""
    return ""


def recipe_command(entry: Entry) -> str:
    """What trains the paper's own setting."""
    return f"hypersphere train papers/recipes/{entry.recipe}.toml data.source=PATH"


def run_entries(
    entries: Sequence[Entry], folder: str | Path, options: RunOptions | None = None
) -> Iterator[tuple[Entry, Result | ValueError | OSError]]:
    """Train the runs that the items need, each once; then judge item after item, and write its result and figures.

    Args:
        entries: of the catalogue, each of which can run (`missing`).
        folder: for `results/` and `images/`.
        options: see `RunOptions`.

    Yields:
        Every entry with its result, or with what stopped it.
    """
    folder, options = Path(folder), options or RunOptions()
    for entry in entries:
        if problem := missing(entry, options.data):
            raise ValueError(f"{entry.id} cannot run: {problem}")
    jobs = [
        Job(
            entry=entry,
            data=options.data,
            seeds=options.seeds,
            epochs=options.epochs,
            progress=options.progress,
            announce=options.announce,
        )
        for entry in entries
    ]
    settings = [setting for job in jobs for setting in settings_of(job)]
    gathered = gather_runs(
        settings if options.data is not None else [each for each in settings if each.data != "faces"],
        options.seeds,
        RunFiles(options.data, options.cache or folder / "cache"),
        jobs=options.jobs,
        device=options.device,
        progress=options.progress,
        announce=options.announce,
    )
    for job in jobs:
        options.announce(f"\n{job.entry.id}: {job.entry.title}")
        try:
            yield job.entry, _run(replace(job, gathered=gathered), folder)
        except (ValueError, OSError) as error:
            yield job.entry, error


def run_entry(entry: Entry, folder: str | Path, options: RunOptions | None = None) -> Result:
    """Run one item, see `run_entries`; raises what stopped it."""
    ((_, result),) = run_entries([entry], folder, options)
    if isinstance(result, Exception):
        raise result
    return result


def _run(job: Job, folder: Path) -> Result:
    run, start = find_item(job.entry.id), time.monotonic()
    assert run is not None
    outcome, command = run(job), job.entry.command
    if job.data is not None and not job.data.is_absolute():  # an absolute one is of a machine
        command = command.replace("PATH", job.data.as_posix())
    if len(job.seeds) > 1:
        command += f" --seeds {len(job.seeds)}"
    if job.epochs is not None:
        command += f" --epochs {job.epochs}"
    seconds = time.monotonic() - start
    return write_result(folder, job.entry.id, outcome, command=command, seconds=seconds, seeds=job.seeds)
