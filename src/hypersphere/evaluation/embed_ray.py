"""Parts of an embedding task computed by Ray Data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from hypersphere.core import import_extra
from hypersphere.evaluation.embed_files import EmbedTask, Part


class PartWorker:
    """What a process of Ray holds: the model and the images, opened once.

    Args:
        task: what to embed.
        threads: torch computes with, as the main process does, so that sums are rounded alike.
    """

    def __init__(self, task: EmbedTask, threads: int) -> None:
        torch.set_num_threads(threads)
        self.opened = task.open()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Embed the one part of a batch."""
        number, rows, unreadable = self.opened.embed_part(int(batch["part"][0]))
        return {
            "part": np.array([number]),
            "rows": np.array([rows.tobytes()], dtype=object),
            "width": np.array([rows.shape[1]]),
            "unreadable": np.array([json.dumps({str(key): value for key, value in unreadable.items()})], dtype=object),
        }


def parts_by_ray(task: EmbedTask, missing: Sequence[int], workers: int, threads: int) -> Iterator[Part]:
    """The parts in the order in which they are finished."""
    ray = import_extra("ray", "--engine ray")
    data = import_extra("ray.data", "--engine ray")
    if not missing:
        return
    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False)
    parts = data.from_items([{"part": number} for number in missing], override_num_blocks=len(missing))
    embedded = parts.map_batches(
        PartWorker,
        fn_constructor_args=(task, threads),
        batch_size=1,
        concurrency=workers,
        num_cpus=1,
        num_gpus=1 if task.device.startswith("cuda") else None,
    )
    for row in embedded.iter_rows():
        vectors = np.frombuffer(row["rows"], dtype=np.float32).reshape(-1, int(row["width"]))
        unreadable = {int(key): str(value) for key, value in json.loads(row["unreadable"]).items()}
        yield int(row["part"]), vectors, unreadable
