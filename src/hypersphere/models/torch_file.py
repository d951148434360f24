"""Files of `torch.save`, read without running anything that they hold."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import torch


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
    """Raise ValueError where the directory of a file of `torch.save` states more bytes than there are.

    torch takes the memory that the directory states before it reads. A file that is no archive is left to torch.
    """
    size = file.seek(0, os.SEEK_END)
    if not zipfile.is_zipfile(file):
        return
    try:
        with zipfile.ZipFile(file) as archive:
            stated = sum(entry.file_size for entry in archive.infolist())
    except Exception as error:  # a damaged directory raises anything at all
        raise ValueError(f"its directory is damaged ({error})") from None
    if stated > size:
        raise ValueError(f"its directory states {stated:,} bytes, but there are {size:,}")
