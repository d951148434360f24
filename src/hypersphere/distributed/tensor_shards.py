"""Tensors that lie in several processes, in one folder that any number of processes can read.

The format is that of `torch.distributed.checkpoint`, with two changes. A list of digests lies beside its files; and
what it would unpickle is read by an unpickler that knows the few classes of its index and nothing else.
"""

from __future__ import annotations

import io
import json
import math
import pickle
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, distributed

from hypersphere.core import read_json
from hypersphere.core.files import file_digest, make_folders, partial_name, sync_file, sync_folder, write_atomically

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.checkpoint.metadata import Metadata

_DIGESTS = "digests.json"
_INDEX = ".metadata"
_DATA = re.compile(r"__\d+_\d+\.distcp")
_KNOWN = {
    "torch": {"Size"},
    "torch.serialization": {"_get_layout"},
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.distributed.checkpoint.metadata": {
        "ChunkStorageMetadata",
        "Metadata",
        "MetadataIndex",
        "StorageMeta",
        "TensorProperties",
        "TensorStorageMetadata",
        "_MEM_FORMAT_ENCODING",
    },
}


def save_shards(folder: str | Path, tensors: Mapping[str, Tensor], group: ProcessGroup | None = None) -> None:
    """Write tensors, each process its own rows of the sharded ones; the folder appears whole or not at all.

    Args:
        folder: to be written; one that is there is replaced.
        tensors: by name, the same names in all processes: DTensors, or plain tensors equal in all processes.
        group: the processes, all of which call this; all there are by default, or this one alone.
    """
    from torch.distributed.checkpoint.filesystem import FileSystemWriter
    from torch.distributed.checkpoint.metadata import StorageMeta
    from torch.distributed.checkpoint.state_dict_saver import save

    class Writer(FileSystemWriter):
        def storage_meta(self) -> StorageMeta:
            return StorageMeta(save_id=self.save_id)  # and not the path of this machine

    folder = Path(folder)
    first, several = _rank(group) == 0, _several()
    partial = folder.with_name(_gathered({"name": partial_name(folder).name} if first else {}, group)["name"])
    try:
        if first:
            make_folders(folder.parent)
            partial.mkdir()
        _gathered({}, group)
        with _failing_as(OSError, f"{folder}: not written; the previous one is untouched"):
            save(dict(tensors), storage_writer=Writer(partial), process_group=group, no_dist=not several)
        digests = _gathered({path.name: _synced(path) for path in partial.glob(f"__{_rank(group)}_*")}, group)
        if first:
            with _failing_as(OSError, f"{folder}: not written; the previous one is untouched"):
                digests[_INDEX] = _synced(partial / _INDEX)
                write_atomically(partial / _DIGESTS, json.dumps(digests, indent=1, sort_keys=True).encode())
                _replace(folder, partial)
        _gathered({}, group)
    finally:
        if first:
            shutil.rmtree(partial, ignore_errors=True)


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
    """The tensors of a folder of `save_shards` whose names begin so, whole, on the CPU, for this process alone."""
    folder = Path(folder)
    check_shards(folder)
    shapes = {name: shape for name, shape in shapes_of_shards(folder).items() if name.startswith(prefix)}
    into = {name: torch.empty(size, dtype=dtype) for name, (size, dtype) in shapes.items()}
    _load(folder, into, None, alone=True)
    return into


def shapes_of_shards(folder: Path) -> dict[str, tuple[torch.Size, torch.dtype]]:
    """The shape and dtype of every tensor of a folder, by name."""
    entries: dict[str, Any] = dict(_read_index(folder).state_dict_metadata)
    return {name: (entry.size, entry.properties.dtype) for name, entry in entries.items()}


def shards_digest(folder: Path) -> str:
    """The digest of the list of digests: it stands for all files of a folder, and `check_shards` for the rest."""
    listed = folder / _DIGESTS
    return file_digest(listed) if listed.is_file() else ""


def check_shards(folder: Path) -> None:
    """Raise ValueError unless every file is as the list of digests says, and the index is one that may be read."""
    try:
        digests = read_json(folder / _DIGESTS)
    except ValueError:
        raise ValueError(f"{folder}: not a complete folder of shards: {_DIGESTS} is missing or unreadable") from None
    if not isinstance(digests, dict) or _INDEX not in digests:
        raise ValueError(f"{folder / _DIGESTS}: expected the digest of {_INDEX} and of every file of data")
    for name, digest in digests.items():
        if name != _INDEX and not _DATA.fullmatch(name):
            raise ValueError(f"{folder / _DIGESTS}: {name!r} is no file of shards")
        if not (folder / name).is_file() or file_digest(folder / name) != digest:
            raise ValueError(f"{folder / name}: missing or damaged (its digest differs from {_DIGESTS})")
    for name in {entry.relative_path for entry in _read_index(folder).storage_data.values()}:
        if name not in digests:
            raise ValueError(f"{folder / _INDEX}: it names {name!r}, which {_DIGESTS} does not")


class _Unpickler(pickle._Unpickler):
    """Knows the classes of an index of tensors, and numbers, strings and containers; anything else is refused.

    It is the one written in Python, since that in C does not let the instruction BUILD be watched, which sets
    attributes of whatever it is given: also of the classes themselves, for the rest of the process.
    """

    dispatch: ClassVar = dict(pickle._Unpickler.dispatch)

    def find_class(self, module: str, name: str) -> Any:
        if name in _KNOWN.get(module, ()):
            return super().find_class(module, name)
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no index of tensors needs")

    def load_build(self) -> None:
        target = self.stack[-2]  # type: ignore[attr-defined]
        if isinstance(target, type) or not is_dataclass(target):
            raise pickle.UnpicklingError(f"it changes {target!r}, which is no entry of an index")
        super().load_build()  # type: ignore[misc]

    def refuse_bytearray(self) -> None:
        """Pickle takes the memory that a byte array states before it reads it; an index has none."""
        raise pickle.UnpicklingError("it holds a byte array, which no index of tensors needs")

    dispatch[pickle.BUILD[0]] = load_build  # type: ignore[assignment]
    dispatch[pickle.BYTEARRAY8[0]] = refuse_bytearray  # type: ignore[assignment]


def _read_index(folder: Path) -> Metadata:
    """The index of a folder. Only tensors, only files of the folder: other entries would be unpickled freely."""
    path = folder / _INDEX
    try:
        index: Metadata = _Unpickler(io.BytesIO(path.read_bytes())).load()
        _check_index(index)
        _check_sizes(index, sum(file.stat().st_size for file in folder.iterdir() if _DATA.fullmatch(file.name)))
    except Exception as error:
        raise ValueError(f"{path}: refused ({error})") from None
    return index


def _check_index(index: Any) -> None:
    from torch.distributed.checkpoint.filesystem import _StorageInfo
    from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata

    if not isinstance(index, Metadata) or not all(
        isinstance(part, dict) for part in (index.state_dict_metadata, index.storage_data)
    ):
        raise ValueError("no index of tensors")
    for name, entry in index.state_dict_metadata.items():
        if not isinstance(name, str) or not isinstance(entry, TensorStorageMetadata):
            raise ValueError(f"{name!r} is no tensor")
        if not isinstance(entry.size, torch.Size) or not isinstance(entry.properties.dtype, torch.dtype):
            raise ValueError(f"{name!r} has no shape or no dtype")
    for place, info in index.storage_data.items():
        plain = isinstance(place, MetadataIndex) and isinstance(info, _StorageInfo)
        if not plain or not isinstance(info.relative_path, str) or not _DATA.fullmatch(info.relative_path):
            raise ValueError(f"it names a file outside the folder, {info!r}")
        if info.transform_descriptors:
            raise ValueError(f"its data are transformed by {info.transform_descriptors!r}")


def _check_sizes(index: Metadata, stored: int) -> None:
    """The shapes of an index are believed only as far as there are bytes for them: memory is taken by them."""
    entries: dict[str, Any] = dict(index.state_dict_metadata)
    for name, entry in entries.items():
        if any(length < 0 for length in entry.size):
            raise ValueError(f"{name!r} has the shape {tuple(entry.size)}")
    stated = sum(math.prod(entry.size) * entry.properties.dtype.itemsize for entry in entries.values())
    if stated > stored:
        raise ValueError(f"its tensors take {stated:,} bytes, but the files of data have {stored:,}")


def _load(folder: Path, into: Mapping[str, Tensor], group: ProcessGroup | None, *, alone: bool) -> None:
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.metadata import StorageMeta
    from torch.distributed.checkpoint.state_dict_loader import load

    class Reader(FileSystemReader):
        def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
            index = _read_index(folder)
            index.storage_meta = StorageMeta(load_id=self.load_id)
            return index

    saved = shapes_of_shards(folder)
    for name, tensor in into.items():
        if name not in saved:
            raise ValueError(f"{folder}: no {name!r} in it; there are {', '.join(sorted(saved))}")
        have, want = saved[name], (tensor.shape, tensor.dtype)
        if have != want:
            raise ValueError(f"{folder}: {name!r} is {have[1]} {tuple(have[0])}, not {want[1]} {tuple(want[0])}")
    with _failing_as(ValueError, f"{folder}: not readable"):
        load(dict(into), storage_reader=Reader(folder), process_group=group, no_dist=alone)


def _several() -> bool:
    return distributed.is_available() and distributed.is_initialized()


def _rank(group: ProcessGroup | None) -> int:
    return distributed.get_rank(group) if _several() else 0


def _gathered(mine: dict[str, str], group: ProcessGroup | None) -> dict[str, str]:
    """The entries of all processes; whoever asks waits for all."""
    if not _several():
        return mine
    of_all: list[dict[str, str]] = [{} for _ in range(distributed.get_world_size(group))]
    distributed.all_gather_object(of_all, mine, group)
    return {name: digest for each in of_all for name, digest in each.items()}


def _synced(path: Path) -> str:
    """The digest of a file that is now durable: torch syncs it before the last bytes leave its buffer."""
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
