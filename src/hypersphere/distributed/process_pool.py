"""A pool of worker processes that ends with the process that started it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import FrameType
from typing import Any

from torch import multiprocessing

from hypersphere.core import Failure


@contextmanager
def process_pool(processes: int, begin: Callable[..., None], *given: Any) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of worker processes; an error or an interruption ends them and drops the tasks that wait.

    Args:
        processes: how many.
        begin: called first in each of them.
        given: what `begin` is called with.
    """
    pool = _Pool(processes, multiprocessing.get_context("spawn"), _begin, (begin, given))
    others = set(multiprocessing.active_children())
    try:
        yield pool
    except BrokenProcessPool as error:
        raise Failure(
            "a worker process ended as soon as it was started. In a script of your own, start workers below"
            ' `if __name__ == "__main__":`, because each of them imports the script; or memory ran out: use fewer'
        ) from error
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Pool(ProcessPoolExecutor):
    """One whose processes, told to end, do not begin the task that waits for them already."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(_call, fn, *args, **kwargs)


_ended = 0
"""The signal that has told this process to end."""


def _begin(begin: Callable[..., None], given: tuple[Any, ...]) -> None:
    """Ctrl-C reaches every process of a terminal; only the one that started this one answers it, and ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    begin(*given)


def _end(number: int, _: FrameType | None) -> None:
    """End a task as an error does, so that files half written are removed; said again, it does not disturb that."""
    global _ended  # noqa: PLW0603
    if not _ended:
        _ended = number
        raise SystemExit(128 + number)


def _call(task: Callable[..., Any], *given: Any, **named: Any) -> Any:
    try:
        return task(*given, **named)
    finally:
        if _ended:
            os._exit(128 + _ended)
