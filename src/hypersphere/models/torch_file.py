"""Files of `torch.save`, read without running anything that they hold."""

from __future__ import annotations

import io
import os
import pickletools
import re
import zipfile
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import torch
from torch import Tensor

_PICKLES = 5
"""In a file of before torch 1.6: a number, a version, the machine, the content, the names of the storages."""


def read_torch_file(path: str | Path) -> Any:
    """The tensors of a file of `torch.save`, in the dictionaries and lists that it has, on the CPU.

    Read with `weights_only=True`: a file with any other object is refused, and the message names the first.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    try:
        with path.open("rb") as file:
            check_directory(file)
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises anything at all for a damaged file
        text = str(error) or type(error).__name__
        other = re.search(r"GLOBAL (\S+)", text)
        if other is None:
            raise ValueError(
                f"{path}: no file of weights ({text.splitlines()[0]}): cut short, damaged, or not of torch.save"
            ) from None
        raise ValueError(
            f"{path}: holds {other[1]} beside its tensors, and is not read: loading such an object may run code. Ask "
            "who made it for the weights alone, or where you trust it save them: torch.save(model.state_dict(), file)"
        ) from None


def check_directory(file: BinaryIO) -> None:
    """Raise ValueError where a file of `torch.save` states more bytes than there are.

    torch takes the memory that the directory, or the pickle of a file without one, states before it reads.
    """
    size = file.seek(0, os.SEEK_END)
    zipped = zipfile.is_zipfile(file)
    file.seek(0)
    if not zipped:
        for _ in range(_PICKLES):
            _check_pickle(file, size)
        return
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            stated = sum(max(entry.file_size, entry.compress_size) for entry in entries)
            named = [entry for entry in entries if entry.filename.endswith("data.pkl")]
            pickles = [archive.read(entry) for entry in named] if stated <= size else []
    except Exception as error:  # a damaged directory raises anything at all
        raise ValueError(f"its directory is damaged ({error})") from None
    if stated > size:
        raise ValueError(f"its directory states {stated:,} bytes, but there are {size:,}")
    for content in pickles:
        _check_pickle(io.BytesIO(content), size)


def check_dense(name: str, value: Tensor, path: Path) -> None:
    """Raise ValueError unless a tensor's numbers are there, each of them once; costs no memory."""
    remedy = ""
    if value.is_nested or value.layout != torch.strided:
        kind = "nested" if value.is_nested else str(value.layout).removeprefix("torch.")
        remedy = f"is {kind}; expected a dense tensor: save it with .to_dense()"
    elif value.is_quantized:
        remedy = f"is quantized ({value.dtype}); save it with .dequantize()"
    elif value.device.type != "cpu":
        remedy = f"has no numbers (device {value.device.type}); save the weights after they were loaded"
    elif value.numel() * value.element_size() > value.untyped_storage().nbytes():
        remedy = (
            f"is expanded: {tuple(value.shape)} of {value.dtype} from {value.untyped_storage().nbytes():,} bytes; "
            "save it with .contiguous()"
        )
    if remedy:
        raise ValueError(f"{path}: {name!r} {remedy}")


def check_finite(name: str, value: Tensor, path: Path) -> None:
    """Raise ValueError where a weight is NaN or infinite."""
    numbers = value if value.element_size() > 1 else value.float()  # torch judges no 8-bit floats
    if value.is_floating_point() and not bool(numbers.isfinite().all()):
        raise ValueError(f"{path}: {name!r} has {int((~numbers.isfinite()).sum()):,} numbers that are NaN or infinite")


class _Bounded:
    """Reads at most `size` bytes at a time: Python takes the memory of a stated length before it reads."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size

    def read(self, count: int) -> bytes:
        return self._file.read(min(count, self._size))

    def readline(self) -> bytes:
        return self._file.readline()


def _check_pickle(file: BinaryIO, size: int) -> None:
    """Raise ValueError for one that asks for more memory than the file has bytes, by a storage or a byte array."""
    number = 0
    for operation, argument, _ in pickletools.genops(cast(IO[bytes], _Bounded(file, size))):
        if operation.name == "GLOBAL" and str(argument).endswith(" bytearray"):
            raise ValueError("it holds a byte array, which is no weight")
        if operation.name == "BINPERSID" and number > size:
            raise ValueError(f"it states a storage of {number:,} numbers, but has {size:,} bytes")
        if isinstance(argument, int) and not operation.name.endswith(("PUT", "GET")):
            number = argument
