"""A folder for one process alone, until that process ends in whatever way."""

from __future__ import annotations

import os
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from hypersphere.core.errors import Failure
from hypersphere.core.files import make_folders

_LOCK = ".lock"
_held: set[int] = set()


@contextmanager
def hold_folder(folder: str | Path) -> Iterator[None]:
    """Hold a folder, made if need be: whoever else asks for it meanwhile is refused, and told who holds it.

    The lock is the system's, on a file `.lock` in the folder, and goes with the process, also with one that is killed.
    It does not pass on to processes forked meanwhile.

    Raises:
        Failure: another process (or another call in this one) holds the folder.
    """
    folder = Path(folder)
    make_folders(folder)
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        _take(handle, folder)
        _held.add(handle)
        os.ftruncate(handle, 0)
        os.pwrite(handle, _signature().encode(), 0)
        yield
        os.ftruncate(handle, 0)
    finally:
        _held.discard(handle)
        os.close(handle)


def _take(handle: int, folder: Path) -> None:
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(handle, 300, 0).decode("utf-8", "replace")
        holder = "".join(letter for letter in text if letter.isprintable()) or "another process"
        raise Failure(
            f"{folder} is in use by {holder}: wait until it ends, or choose another folder for this run"
        ) from None
    except OSError as error:
        warnings.warn(
            f"{folder} cannot be locked ({error.strerror}): see to it that nothing else writes there",
            RuntimeWarning,
            stacklevel=4,
        )


def _signature() -> str:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"process {os.getpid()} on {socket.gethostname()} since {now}"


def _let_go() -> None:
    """A forked process shares its parent's locks until it closes them; it must not keep them beyond its parent."""
    for handle in _held:
        os.close(handle)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
