"""Work in a process of its own: what it costs in processor time and memory, or on a small disk."""

import ctypes
import os
import pickle
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_OWN_USERS, _OWN_MOUNTS = 0x1000_0000, 0x2_0000


@dataclass(frozen=True)
class Cost:
    """Seconds of the processor, and mebibytes of memory at most beyond those of the start."""

    seconds: float
    mebibytes: float


def fork() -> int:
    """As os.fork, without the warning that other threads are not in the child."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def forked(work: Callable[[], T]) -> T:
    """What a work returns in a forked process; what it raises there is an AssertionError here."""
    reader, writer = os.pipe()
    child = fork()
    if child == 0:
        try:
            found: tuple[bool, object] = (True, work())
        except BaseException:
            found = (False, traceback.format_exc())
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(found, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    worked, answer = pickle.loads(told)
    assert worked, answer
    return answer


def cost_of(*works: Callable[[], object]) -> list[Cost]:
    """What each work costs in a forked process, after a first time that does not count."""
    return forked(lambda: [_cost(work) for work in works])


def _cost(work: Callable[[], object]) -> Cost:
    work()
    Path("/proc/self/clear_refs").write_text("5")
    before, start = _peak(), time.process_time()
    work()
    return Cost(time.process_time() - start, (_peak() - before) / 1024)


def _peak() -> int:
    """The largest resident size in kibibytes since it was reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def on_small_disk(folder: Path, mebibytes: float, work: Callable[[], T]) -> T:
    """`forked`, with a disk of so many mebibytes at a folder that this process alone sees."""

    def mounted() -> T:
        _mount(folder, mebibytes)
        return work()

    return forked(mounted)


def _mount(folder: Path, mebibytes: float) -> None:
    user, group = os.getuid(), os.getgid()
    system = ctypes.CDLL(None, use_errno=True)
    if system.unshare(_OWN_USERS | _OWN_MOUNTS):
        raise OSError(ctypes.get_errno(), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        Path("/proc/self", name).write_text(text)
    if system.mount(b"none", os.fsencode(folder), b"tmpfs", 0, f"size={int(mebibytes * 1024)}k".encode()):
        raise OSError(ctypes.get_errno(), "mount")


def can_mount(folder: Path) -> bool:
    """Whether this system lets a process have a disk of its own."""
    try:
        on_small_disk(folder, 1, lambda: None)
    except AssertionError:
        return False
    return True
