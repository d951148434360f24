"""Whether the fused engine may run: is Triton here, was it switched off, does the device carry it."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import torch

VARIABLE = "HYPERSPHERE_TRITON"
_wanted: ContextVar[bool | None] = ContextVar("hypersphere_triton", default=None)


@contextmanager
def use_triton(wanted: bool) -> Iterator[None]:
    """Allow or forbid the fused engine inside the block, whatever the environment variable HYPERSPHERE_TRITON says.

    Example:
        >>> with use_triton(False):
        ...     loss = head(embeddings, labels)
    """
    token = _wanted.set(wanted)
    try:
        yield
    finally:
        _wanted.reset(token)


def triton_wanted() -> bool:
    """Neither `use_triton(False)` nor HYPERSPHERE_TRITON=0 is in force."""
    wanted = _wanted.get()
    return os.environ.get(VARIABLE, "1") != "0" if wanted is None else wanted


def triton_usable(device: torch.device) -> bool:
    """Triton is installed, and runs on this device: CUDA from compute capability 8.0 on, or its interpreter."""
    if not triton_installed():
        _warn_once()
        return False
    if device.type != "cuda":
        return interpreted()
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)


def kernels_run(device: torch.device) -> bool:
    """Kernels take the place of torch's operators on this GPU; nothing is said where they cannot."""
    return device.type == "cuda" and triton_wanted() and triton_installed() and triton_usable(device)


@cache
def triton_installed() -> bool:
    """A triton to import is there."""
    return importlib.util.find_spec("triton") is not None


def interpreted() -> bool:
    """Triton runs its kernels in Python: the variable is read when kernels are defined, so set it before any import."""
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


@cache
def _warn_once() -> None:
    warnings.warn(
        "engine='triton' needs the package triton, which is not installed: the chunked engine runs instead",
        RuntimeWarning,
        stacklevel=5,
    )
