"""Run items of the catalogue."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from hypersphere.core import install_hint, is_installed
from hypersphere.reproduce.catalogue import Entry
from hypersphere.reproduce.items import Job, ProgressFactory, find_item, silent
from hypersphere.reproduce.results import Result, write_result


def missing(entry: Entry, data: str | Path | None) -> str:
    """What stands in the way of running an item, and how to give it; nothing where it can run."""
    if find_item(entry.id) is None:
        own = f"needs {entry.needs}" if entry.kind == "real" else "not run yet"
        return f"{own}; recipe recipes/{entry.recipe}.toml" if entry.recipe else own
    if entry.kind == "real" and data is None:
        return f"needs {entry.needs}: give its path with --data"
    if entry.kind == "illustration" and not is_installed("matplotlib"):
        return install_hint("matplotlib", "its picture")
    return ""


def recipe_command(entry: Entry) -> str:
    """What trains the paper's own setting."""
    return f"hypersphere train recipes/{entry.recipe}.toml data.source=PATH"


def run_entry(
    entry: Entry,
    folder: str | Path,
    *,
    data: str | Path | None = None,
    seeds: tuple[int, ...] = (0,),
    epochs: int | None = None,
    cache: str | Path | None = None,
    jobs: int = 1,
    device: str = "cpu",
    progress: ProgressFactory = silent,
    announce: Callable[[str], None] = lambda _: None,
) -> Result:
    """Run one item and write its result and figures.

    Args:
        entry: of the catalogue.
        folder: for `results/` and `images/`.
        data: the path that a `real` item needs.
        seeds: of an item that trains.
        epochs: of a `real` item that trains; its own small number by default.
        cache: of the runs of `pocket` items; `folder/cache` by default.
        jobs, device: of `pocket` items that train.
        progress: shown while it runs.
        announce: called with a sentence before something long begins.
    """
    problem = missing(entry, data)
    run = find_item(entry.id)
    if problem or run is None:
        raise ValueError(f"{entry.id} cannot run: {problem}")
    folder, start = Path(folder), time.monotonic()
    job = Job(
        entry=entry,
        data=None if data is None else Path(data),
        seeds=seeds,
        epochs=epochs,
        cache=Path(cache or folder / "cache"),
        jobs=jobs,
        device=device,
        progress=progress,
        announce=announce,
    )
    outcome = run(job)
    used = seeds if outcome.seeds is None else outcome.seeds
    command = entry.command
    if len(used) > 1:
        command += f" --seeds {len(used)}"
    if epochs is not None:
        command += f" --epochs {epochs}"
    return write_result(folder, entry.id, outcome, command=command, seconds=time.monotonic() - start, seeds=used)
