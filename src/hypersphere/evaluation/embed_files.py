"""Embed a set of images into a file: in parts that survive a kill, by one process or by many, with the same bits."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hypersphere.core import (
    Reporter,
    check_integer,
    parse_json,
    read_bounded,
    remove_partial,
    whole_file,
    write_atomically,
)
from hypersphere.data import Fitted, UnreadableImage, open_every_image
from hypersphere.distributed import World
from hypersphere.evaluation.arrays import Array
from hypersphere.evaluation.embeddings import names_text
from hypersphere.evaluation.vector_files import check_vector_files, vector_files, write_vectors
from hypersphere.models import STARTER, Embedder, embedded_batches, load_model

PART = 8
"""Batches of a part: what a killed process loses at most."""
_LONGEST = 2**26

Unreadable = dict[int, str]
Part = tuple[int, Array, Unreadable]
"""The number of a part, its vectors, and which of its images could not be read."""


@dataclass(frozen=True, kw_only=True)
class EmbedTask:
    """Which images are embedded by which model, in plain values that can be sent to another process.

    Args:
        images: as `open_every_image` takes them.
        model: as `load_model` takes it.
        format: of the images; guessed by default.
        contract: of an ONNX file.
        device: to compute on.
        resize: resize images of another size than the model's, instead of refusing them.
        allow_unreadable: leave out images that cannot be read, and name them; otherwise one is an error.
        batch_size: images at a time; it decides which images are computed together, and so the last bits.
        workers: threads that load.

    Example:
        >>> task = EmbedTask(images="people", model="runs/faces", resize=True)
        >>> embed_to_file(task, "vectors.npy").count
        14
        >>> hs.evaluation.load_embeddings("vectors.npy", "vectors.txt").dim
        512
    """

    images: str
    model: str = STARTER
    format: str | None = None
    contract: str | None = None
    device: str = "cpu"
    resize: bool = False
    allow_unreadable: bool = False
    batch_size: int = 128
    workers: int = 2

    def open(self) -> OpenTask:
        """Open the images, and load the model last: it takes longest."""
        check_integer("batch_size", self.batch_size, 1)
        source, names = open_every_image(self.images, self.format)
        names_text(names)
        model = load_model(self.model, self.contract, device=self.device)
        return OpenTask(self, model, model.fitted(source, resize=self.resize, resize_option="--resize"), names)


@dataclass(frozen=True, eq=False)
class OpenTask:
    """A task with its model and images; parts are numbered from 0, and each is computed on its own."""

    task: EmbedTask
    model: Embedder
    source: Fitted
    names: Sequence[str]

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return -(-len(self.names) // (PART * self.task.batch_size))

    def indices(self, number: int) -> range:
        """The images of a part."""
        size = PART * self.task.batch_size
        return range(number * size, min((number + 1) * size, len(self.names)))

    @cached_property
    def plan(self) -> dict[str, Any]:
        """What makes the vectors what they are: parts of another plan cannot be gone on with."""
        path = Path(self.task.images)
        stat = path.stat() if path.is_file() else None
        return {
            "model": self.model.name,
            "contract": parse_json(json.dumps(self.model.contract.table()), "contract"),
            "images": path.name,
            "count": len(self.names),
            "names": hashlib.sha256("\n".join(self.names).encode("utf-8", "surrogateescape")).hexdigest(),
            "bytes": None if stat is None else stat.st_size,
            "batch_size": self.task.batch_size,
            "resize": self.task.resize,
        }

    def embed_part(self, number: int, progress: Reporter | None = None) -> Part:
        """The unit vectors of a part's images."""
        indices = np.array(self.indices(number), dtype=np.int64)
        unreadable: Unreadable = {}
        rows = [np.empty((0, self.model.contract.width), np.float32)]
        try:
            for part, embedded in embedded_batches(
                self.source,
                indices,
                self.model.raw,
                batch_size=self.task.batch_size,
                workers=self.task.workers,
                unreadable=unreadable if self.task.allow_unreadable else None,
                progress=progress,
            ):
                rows.append(self.model.unit(embedded, self.source, part).numpy())
        except UnreadableImage as error:
            raise ValueError(f"{error} (--allow-unreadable leaves such images out, and names them)") from None
        return number, np.concatenate(rows), unreadable


@dataclass(frozen=True)
class EmbeddedFile:
    """What was written: the files, how many vectors, and cause by name of images that could not be read."""

    files: tuple[Path, ...]
    count: int
    unreadable: dict[str, str]


Engine = Callable[[OpenTask, Sequence[int]], Iterable[Part]]
"""Computes parts in any order; `embed_to_file` writes them down as they come."""


def embed_to_file(
    task: EmbedTask,
    out: str | Path,
    *,
    world: World | None = None,
    engine: Engine | None = None,
    progress: Reporter | None = None,
) -> EmbeddedFile:
    """Embed all images of a task into `X.npy`, `X.safetensors` or `X.parquet`, with their names.

    Parts are kept in a hidden folder beside the file until all are there, so that the same call goes on where one was
    killed. Batches are the same whoever computes them: several processes, which must see one file system, write the
    file of one, bit for bit on equal machines with equal numbers of threads.

    Args:
        task: what to embed, and by which model.
        out: the new file.
        world: the processes that work together, from `join_world()`; this one alone by default.
        engine: computes the parts in the main process's stead, such as `ray_engine`.
        progress: called as `progress(done, total)` with images.
    """
    world = world or World()
    out = Path(out)
    check_vector_files(out)
    opened = task.open()
    folder = out.with_name(f".{out.name}.parts")
    lost: dict[str, str] = {}
    with world.hold(folder), _without_empty(folder, world):
        if world.is_main:
            remove_partial(folder)
            _check_plan(folder / "plan.json", opened.plan)
        world.barrier()
        missing = [number for number in range(opened.parts) if not _rows(folder, number).is_file()]
        world.barrier()
        for number, rows, unreadable in _computed(opened, missing, world, engine, progress):
            _save_part(folder, number, rows, unreadable)
        world.barrier()
        if world.is_main:
            lost = _all_unreadable(folder, opened)
            kept = [name for name in opened.names if name not in lost]
            if not kept:
                raise ValueError(f"{task.images}: none of its {len(opened.names):,} images can be read")
            about = {**opened.plan, "vectors": len(kept), "unreadable": lost}
            write_vectors(out, kept, _parts(folder, opened, lost), opened.model.contract.width, about)
            shutil.rmtree(folder)
    return EmbeddedFile(tuple(vector_files(out)), len(opened.names) - len(lost), lost)


@contextmanager
def _without_empty(folder: Path, world: World) -> Iterator[None]:
    """Remove the folder of parts after an error if it has none: then there is nothing to go on from."""
    try:
        yield
    except BaseException:
        if world.is_main and not any(folder.glob("part-*.npy")):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _computed(
    opened: OpenTask, missing: Sequence[int], world: World, engine: Engine | None, progress: Reporter | None
) -> Iterator[Part]:
    """The parts that this process is to write; progress counts the other processes' as far as this one's."""
    total, share = len(opened.names), world.size if engine is None else 1
    done = total - sum(len(opened.indices(number)) for number in missing)
    report = progress if world.is_main else None
    if report is not None and done:
        report(done, total)
    parts = engine(opened, missing) if engine is not None else map(opened.embed_part, missing[world.rank :: world.size])
    for number, rows, unreadable in parts:
        yield number, rows, unreadable
        done = min(total, done + share * len(opened.indices(number)))
        if report is not None:
            report(done, total)


def _check_plan(path: Path, plan: dict[str, Any]) -> None:
    if path.is_file():
        begun = parse_json(read_bounded(path, _LONGEST, "plan").decode(), str(path))
        changed = [key for key in plan if not isinstance(begun, dict) or begun.get(key) != plan[key]]
        if changed:
            raise ValueError(
                f"{path.parent} holds parts that were begun with another {' and '.join(changed)}: "
                "remove the folder to begin anew, or repeat the command as it was"
            )
        return
    write_atomically(path, json.dumps(plan).encode())


def _rows(folder: Path, number: int) -> Path:
    return folder / f"part-{number:08d}.npy"


def _save_part(folder: Path, number: int, rows: Array, unreadable: Unreadable) -> None:
    """The vectors are written last: a part that has them is whole."""
    path = _rows(folder, number)
    if unreadable:
        write_atomically(path.with_suffix(".json"), json.dumps({str(k): v for k, v in unreadable.items()}).encode())
    with whole_file(path) as temporary:
        np.save(temporary, rows)


def _all_unreadable(folder: Path, opened: OpenTask) -> dict[str, str]:
    """Cause by name of all images that could not be read."""
    found = {}
    for path in sorted(folder.glob("part-*.json")):
        table = parse_json(read_bounded(path, _LONGEST, "list").decode(), str(path))
        found.update({opened.names[int(index)]: str(cause) for index, cause in table.items()})
    return found


def _parts(folder: Path, opened: OpenTask, unreadable: dict[str, str]) -> Iterator[tuple[list[str], Array]]:
    for number in range(opened.parts):
        names = [opened.names[index] for index in opened.indices(number) if opened.names[index] not in unreadable]
        rows: Array = np.load(_rows(folder, number), allow_pickle=False)
        if rows.shape != (len(names), opened.model.contract.width):
            raise ValueError(f"{_rows(folder, number)}: damaged; remove it and repeat the command")
        yield names, rows


def ray_engine(workers: int) -> Engine:
    """Compute parts by Ray Data, in `workers` processes of a Ray cluster that all see the images and the model.

    Args:
        workers: processes; each loads the model once. On GPUs each takes one.
    """
    from hypersphere.evaluation.embed_ray import parts_by_ray

    return lambda opened, missing: parts_by_ray(opened.task, missing, workers, torch.get_num_threads())
