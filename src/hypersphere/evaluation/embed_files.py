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

from hypersphere.core import Parts, Reporter, build, check_integer, parse_json
from hypersphere.data import Fitted, UnreadableImage, open_every_image
from hypersphere.distributed import World
from hypersphere.evaluation.arrays import Array
from hypersphere.evaluation.embeddings import names_text
from hypersphere.evaluation.vector_files import check_vector_files, vector_files, write_vectors
from hypersphere.geometry import normalize
from hypersphere.models import STARTER, Embedder, embedded_batches, load_model

PART = 8
"""Batches of a part: what a killed process loses at most."""
_LONGEST_CAUSE = 2**16
"""Bytes in a part for each of its images, besides the vector: why it cannot be read."""

Unreadable = dict[int, str]
Part = tuple[int, Array, Unreadable]
"""The number of a part, its vectors, and which of its images could not be read."""


@dataclass(frozen=True, kw_only=True)
class EmbedTask:
    """Which images are embedded by which model, in plain values that can be sent to another process.

    Args:
        images: as `open_every_image` takes them.
        model, runtime: as `load_model` takes them.
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
    runtime: str = "onnxruntime"
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
        model = load_model(self.model, self.contract, device=self.device, runtime=self.runtime)
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
            "contract": json.loads(json.dumps(self.model.contract.table())),
            "images": _utf8(path.name),
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
            for _, embedded in embedded_batches(
                self.source,
                indices,
                self.model.raw,
                batch_size=self.task.batch_size,
                name=self.model.name,
                workers=self.task.workers,
                unreadable=unreadable if self.task.allow_unreadable else None,
                progress=progress,
            ):
                rows.append(normalize(embedded).numpy())
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
    killed; one that is damaged by then is noticed by its digest, and computed again with a warning. Batches are the
    same whoever computes them: several processes, which must see one file system, write the file of one, bit for bit on
    equal machines with equal numbers of threads.

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
    parts = _parts_beside(out, opened)
    lost: dict[str, str] = {}
    with world.hold(parts.folder), _without_empty(parts, world):
        if world.is_main:
            parts.begin()
            parts.discard_damaged()
        world.barrier()
        missing = parts.missing()
        world.barrier()
        for number, rows, unreadable in _computed(opened, missing, world, engine, progress):
            parts.save(number, _encoded(rows, unreadable))
        world.barrier()
        if world.is_main:
            for number in range(opened.parts):
                _, _, unreadable = parts.load(number)
                lost |= {opened.names[index]: cause for index, cause in unreadable.items()}
            kept = [name for name in opened.names if name not in lost]
            if not kept:
                raise ValueError(f"{task.images}: none of its {len(opened.names):,} images can be read")
            about = {**opened.plan, "vectors": len(kept), "unreadable": lost}
            write_vectors(out, kept, _named(parts, opened), opened.model.contract.width, about)
            shutil.rmtree(parts.folder)
    return EmbeddedFile(tuple(vector_files(out)), len(opened.names) - len(lost), lost)


@contextmanager
def _without_empty(parts: Parts[Part], world: World) -> Iterator[None]:
    """Remove the folder of parts after an error if it has none: then there is nothing to go on from."""
    try:
        yield
    except BaseException:
        if world.is_main and not parts.any():
            shutil.rmtree(parts.folder, ignore_errors=True)
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


def _parts_beside(out: Path, opened: OpenTask) -> Parts[Part]:
    """The parts of a task, in a hidden folder beside the file that they become."""
    width = opened.model.contract.width

    def decode(number: int, content: bytes) -> Part:
        head, _, data = content.partition(b"\n")
        table = parse_json(head, "its first line")
        listed = build(_PartHead, table if isinstance(table, dict) else {})
        unreadable = {int(index): cause for index, cause in listed.unreadable.items()}
        images = opened.indices(number)
        count = len(images) - len(unreadable)
        if (listed.vectors, len(data)) != (count, 4 * count * width) or not unreadable.keys() <= {*images}:
            raise ValueError(f"{listed.vectors} vectors in {len(data)} bytes are not those of images {images}")
        return number, np.frombuffer(data, "<f4").reshape(count, width), unreadable

    images = PART * opened.task.batch_size
    return Parts(
        out.with_name(f".{out.name}.parts"),
        opened.plan,
        opened.parts,
        decode,
        limit=4 * width * images + _LONGEST_CAUSE * images,
    )


@dataclass(frozen=True, kw_only=True)
class _PartHead:
    """The first line of a part: how many vectors follow, and cause by index of images that could not be read."""

    vectors: int
    unreadable: dict[str, str]


def _encoded(rows: Array, unreadable: Unreadable) -> bytes:
    causes = {str(index): _utf8(cause) for index, cause in unreadable.items()}
    return json.dumps({"vectors": len(rows), "unreadable": causes}).encode() + b"\n" + rows.astype("<f4").tobytes()


def _utf8(text: str) -> str:
    """A text with escapes for bytes of a path that are not UTF-8, which no JSON can hold."""
    return text.encode("utf-8", "backslashreplace").decode()


def _named(parts: Parts[Part], opened: OpenTask) -> Iterator[tuple[list[str], Array]]:
    """The names and the vectors of every part."""
    for number in range(opened.parts):
        _, rows, unreadable = parts.load(number)
        yield [opened.names[index] for index in opened.indices(number) if index not in unreadable], rows


def ray_engine(workers: int) -> Engine:
    """Compute parts by Ray Data, in `workers` processes of a Ray cluster that all see the images and the model.

    Args:
        workers: processes; each loads the model once. On GPUs each takes one.
    """
    from hypersphere.evaluation.embed_ray import parts_by_ray

    return lambda opened, missing: parts_by_ray(opened.task, missing, workers, torch.get_num_threads())
