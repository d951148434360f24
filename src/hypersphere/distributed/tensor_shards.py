"""Tensors that lie in several processes, in one folder that any number of processes can read.

Each process writes its rows as safetensors (`HuggingFaceStorageWriter` of `torch.distributed.checkpoint`), a file for
each tensor, which says where its rows belong. A list of digests lies beside the files.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributed

from hypersphere.core import (
    file_digest,
    import_extra,
    make_folders,
    partial_name,
    read_json,
    sync_file,
    sync_folder,
    write_atomically,
)

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.checkpoint.metadata import Metadata

_DIGESTS = "digests.json"
_DATA = re.compile(r"shard-\d{5,}-model-\d{5,}-of-\d{5,}\.safetensors")


def save_shards(folder: str | Path, tensors: Mapping[str, Tensor], group: ProcessGroup | None = None) -> None:
    """Write tensors, each process its own rows of the sharded ones; the folder appears whole or not at all.

    Args:
        folder: to be written; one that is there is replaced.
        tensors: by name, the same names in all processes: DTensors, or plain tensors equal in all processes.
        group: the processes, all of which call this; all there are by default, or this one alone.
    """
    check_shards_supported()
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    folder = Path(folder)
    rank, several = _rank(group), _several()
    partial = folder.with_name(_gathered({"name": partial_name(folder).name} if rank == 0 else {}, group)["name"])
    files = {name: number for number, name in enumerate(sorted(tensors), 1)}
    failed = f"{folder}: not written; the previous one is untouched"
    try:
        if rank == 0:
            make_folders(folder.parent)
            partial.mkdir()
        _gathered({}, group)
        with _failing_as(OSError, failed):
            writer = HuggingFaceStorageWriter(str(partial), fqn_to_index_mapping=files, save_distributed=True)
            save(dict(tensors), storage_writer=writer, process_group=group, no_dist=not several)
        local = partial.glob(f"shard-{rank + 1:05d}-*")
        digests = _gathered({path.name: _synced(path) for path in local}, group)
        if rank == 0:
            with _failing_as(OSError, failed):
                write_atomically(partial / _DIGESTS, json.dumps(digests, indent=1, sort_keys=True).encode())
                _replace(folder, partial)
        _gathered({}, group)
    finally:
        if rank == 0:
            shutil.rmtree(partial, ignore_errors=True)


def check_shards_supported() -> None:
    """Raise ModuleNotFoundError, with what to install, where shards cannot be written and read."""
    import_extra("safetensors", "a checkpoint of sharded classes")


def load_shards(
    folder: str | Path, into: Mapping[str, Tensor], group: ProcessGroup | None = None, *, verify: bool = True
) -> None:
    """Fill tensors from a folder of `save_shards`, whatever number of processes wrote it.

    Args:
        folder: of `save_shards`.
        into: by name, DTensors or plain tensors of the saved shapes and dtypes; all names must be in the folder.
        group: the processes, all of which call this; all there are by default, or this one alone.
        verify: read all files and compare their digests first, unless `check_shards` has just done it.
    """
    folder = Path(folder)
    if verify:
        check_shards(folder)
    _load(folder, into, group, alone=not _several())


def read_shards(folder: str | Path, prefix: str = "") -> dict[str, Tensor]:
    """Return the tensors of a folder whose names begin so, whole, on the CPU, for this process alone."""
    folder = Path(folder)
    check_shards(folder)
    shapes = {name: shape for name, shape in shapes_of_shards(folder).items() if name.startswith(prefix)}
    into = {name: torch.empty(size, dtype=dtype) for name, (size, dtype) in shapes.items()}
    _load(folder, into, None, alone=True)
    return into


def shapes_of_shards(folder: Path) -> dict[str, tuple[torch.Size, torch.dtype]]:
    """Return the shape and dtype of every tensor of a folder, by name."""
    entries: dict[str, Any] = dict(_read_index(folder).state_dict_metadata)
    return {name: (entry.size, entry.properties.dtype) for name, entry in entries.items()}


def shards_digest(folder: Path) -> str:
    """Return the digest of the list of digests: it stands for all files of a folder."""
    listed = folder / _DIGESTS
    return file_digest(listed) if listed.is_file() else ""


def check_shards(folder: Path) -> None:
    """Raise ValueError unless the files of a folder are those of its list of digests, and fit together."""
    try:
        digests = read_json(folder / _DIGESTS)
    except ValueError:
        raise ValueError(f"{folder}: not a complete folder of shards: {_DIGESTS} is missing or unreadable") from None
    if not isinstance(digests, dict):
        raise ValueError(f"{folder / _DIGESTS}: expected the digest of every file of data")
    for name, digest in digests.items():
        if not _DATA.fullmatch(name):
            raise ValueError(f"{folder / _DIGESTS}: {name!r} is no file of shards")
        if not (folder / name).is_file() or file_digest(folder / name) != digest:
            raise ValueError(f"{folder / name}: missing or damaged (its digest differs from {_DIGESTS})")
    for path in folder.glob("*.safetensors"):
        if path.name not in digests:
            raise ValueError(f"{path}: it is not in {_DIGESTS}")
    _read_index(folder)


def _read_index(folder: Path) -> Metadata:
    """Return which rows lie in which file, as the headers of the files say."""
    check_shards_supported()
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

    try:
        index = HuggingFaceStorageReader(str(folder)).read_metadata()
        for name, entry in index.state_dict_metadata.items():
            _check_chunks(name, entry)
    except Exception as error:
        raise ValueError(f"{folder}: refused ({error!r})") from None
    return index


def _check_chunks(name: str, entry: Any) -> None:
    """Raise ValueError unless the files have as many numbers as the shape: memory is taken by it."""
    offsets = [number for chunk in entry.chunks for number in chunk.offsets]
    if any(number < 0 for number in offsets):
        raise ValueError(f"{name!r} has rows at {min(offsets)}")
    stored = sum(math.prod(chunk.sizes) for chunk in entry.chunks)
    if math.prod(entry.size) != stored:
        raise ValueError(f"{name!r} is {tuple(entry.size)}, but the files have {stored:,} numbers of it")


def _load(folder: Path, into: Mapping[str, Tensor], group: ProcessGroup | None, *, alone: bool) -> None:
    saved = shapes_of_shards(folder)
    for name, tensor in into.items():
        if name not in saved:
            raise ValueError(f"{folder}: no {name!r} in it; there are {', '.join(sorted(saved))}")
        have, want = saved[name], (tensor.shape, tensor.dtype)
        if have != want:
            raise ValueError(f"{folder}: {name!r} is {have[1]} {tuple(have[0])}, not {want[1]} {tuple(want[0])}")
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    with _failing_as(ValueError, f"{folder}: not readable"):
        load(dict(into), storage_reader=HuggingFaceStorageReader(str(folder)), process_group=group, no_dist=alone)


def _several() -> bool:
    return distributed.is_available() and distributed.is_initialized()


def _rank(group: ProcessGroup | None) -> int:
    return distributed.get_rank(group) if _several() else 0


def _gathered(local: dict[str, str], group: ProcessGroup | None) -> dict[str, str]:
    """Return the entries of all processes; whoever asks waits for all."""
    if not _several():
        return local
    of_all: list[dict[str, str]] = [{} for _ in range(distributed.get_world_size(group))]
    distributed.all_gather_object(of_all, local, group)
    return {name: digest for each in of_all for name, digest in each.items()}


def _synced(path: Path) -> str:
    """Return the digest of a file that is now durable: torch syncs it before the last bytes leave its buffer."""
    sync_file(path)
    return file_digest(path)


def _replace(folder: Path, new: Path) -> None:
    """Put a complete folder in the place of another, which is not removed before."""
    old = partial_name(folder)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    sync_folder(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _failing_as(kind: type[Exception], what: str) -> Iterator[None]:
    """Torch's own exception is no `Exception`; and it warns that one process saves for itself, as it is asked to."""
    from torch.distributed.checkpoint.api import CheckpointException

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        try:
            yield
        except CheckpointException as error:
            causes = "; ".join(f"process {rank}: {cause[0]}" for rank, cause in error.failures.items())
            raise kind(f"{what} ({causes})") from error
        except OSError as error:
            raise kind(f"{what} ({error})") from error
