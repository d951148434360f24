"""Runs on MNIST and CIFAR-10 that a folder has on record; with the images beside them, the others are trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hypersphere_papers.engine.cifar10 import is_cifar
from hypersphere_papers.engine.record import write_record
from hypersphere_papers.engine.record_lines import RecordLines
from hypersphere_papers.engine.run import Announce, Gathered, ProgressFactory, train_runs
from hypersphere_papers.engine.setting import Setting, unique

RECORDS = "records.jsonl"
IMAGES = {"mnist": ("mnist.npz",), "cifar10": ("cifar10.tar", "cifar10.tar.xz", "cifar10")}
"""By the data, what the images are called in a folder of records."""


def is_record_folder(data: Path | None) -> bool:
    """Whether a path is a folder of records."""
    return data is not None and (data / RECORDS).is_file()


def objects_at_hand(data: Path | None) -> bool:
    """Whether a path has CIFAR-10, or a folder of records: then items are about them, and not about people."""
    return data is not None and (is_record_folder(data) or is_cifar(data))


def image_path(data: Path | None, kind: str) -> Path | None:
    """Where the images of a kind are: at `data`, or beside the records there; None where they are not at hand."""
    if data is None or not is_record_folder(data):
        return data
    return next((data / name for name in IMAGES[kind] if (data / name).exists()), None)


def recorded_runs(
    settings: Sequence[Setting],
    seeds: Sequence[int],
    folder: Path,
    cache: Path,
    *,
    jobs: int,
    device: str,
    progress: ProgressFactory,
    announce: Announce,
) -> Gathered:
    """The runs that `records.jsonl` of a folder has; those that it lacks are trained and added where there are images.

    Args:
        settings, seeds, cache, jobs, device, progress, announce: as of `train_runs`.
        folder: of the records.
    """
    lines, wanted = RecordLines(folder / RECORDS), unique(settings, seeds)
    left = {key: run for key, run in wanted.items() if key not in lines.records}
    trained = [setting for setting, _ in left.values() if image_path(folder, setting.data) is not None]
    if len(left) > len(trained):
        announce(
            f"{len(left) - len(trained)} of {len(wanted)} runs are not on record; with the images in {folder} "
            f"({', '.join(names[0] for names in IMAGES.values())}) they would be trained"
        )
    failures = {}
    if trained:
        for key in wanted.keys() & lines.records.keys():
            write_record(cache, key, lines.records[key])
        chosen = list(dict.fromkeys(trained))
        got = train_runs(chosen, seeds, cache, jobs=jobs, device=device, progress=progress, announce=announce)
        failures = dict(got.failures)
        for key in got.records.keys() - lines.records.keys():
            lines.add(key, got.records[key])
    return Gathered({key: lines.records[key] for key in wanted if key in lines.records}, failures)
