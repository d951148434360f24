"""Loading ahead: what the next steps need is read by threads while this step computes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Self, TypeVar

from hypersphere.core import check_integer

T = TypeVar("T")


class Prefetcher(Generic[T]):
    """load(start), load(start + 1), ... up to load(stop - 1), in this order, loaded ahead by threads.

    The n-th item is load(start + n) whatever the number of threads. An error of load(n) is raised in place of the n-th
    item, after all items before it, with its own traceback; it ends the iteration. `close()` (or leaving the `with`
    block) drops what was not begun and waits for what was, so that no thread outlives it.

    Args:
        load: called with the step, by several threads at once. What it returns must follow from the step alone.
        start, stop: the first step, and the one after the last.
        workers: threads; 0 loads in the caller's own thread when asked, nothing ahead.
        depth: items loaded or being loaded ahead at any time, the bound of memory; twice the workers by default.

    Example:
        >>> with Prefetcher(lambda step: source.batch(order[step]), start=0, stop=len(order), workers=2) as batches:
        ...     for images in batches:
        ...         train(images)
    """

    def __init__(
        self, load: Callable[[int], T], *, start: int = 0, stop: int, workers: int = 2, depth: int | None = None
    ) -> None:
        check_integer("start", start, 0)
        check_integer("stop", stop, 0)
        check_integer("workers", workers, 0)
        self.depth = 2 * workers if depth is None else check_integer("depth", depth, 1)
        self._load = load
        self._next, self._stop = start, stop
        self._ahead: deque[Future[T]] = deque()
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="prefetch") if workers else None
        self._fill()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            if self._threads is None:
                return self._load_here()
            if not self._ahead:
                raise StopIteration
            item = self._ahead.popleft().result()
            self._fill()
        except BaseException:
            self.close()
            raise
        return item

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the iteration and the threads."""
        self._stop = self._next
        self._ahead.clear()
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)

    def _load_here(self) -> T:
        if self._next >= self._stop:
            raise StopIteration
        self._next += 1
        return self._load(self._next - 1)

    def _fill(self) -> None:
        while self._threads is not None and self._next < self._stop and len(self._ahead) < self.depth:
            self._ahead.append(self._threads.submit(self._load, self._next))
            self._next += 1
