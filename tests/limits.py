"""What a piece of work costs, measured in a process of its own: limits of processor time and memory."""

import os
import pickle
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cost:
    """Seconds of the processor, and mebibytes of memory at most beyond those of the start."""

    seconds: float
    mebibytes: float


def cost_of(*works: Callable[[], object]) -> list[Cost]:
    """What each work costs in a forked process, after a first time that does not count."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            found: list[Cost] | str = [_cost(work) for work in works]
        except BaseException:
            found = traceback.format_exc()
        os.write(writer, pickle.dumps(found))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    answer = pickle.loads(told)
    assert not isinstance(answer, str), answer
    return list(answer)


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
