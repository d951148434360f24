"""Loading ahead: what the next steps need is read by threads or processes while this step computes."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import get_all_start_methods
from typing import Any, Generic, Self, TypeVar

from torch.utils.data import DataLoader, Dataset

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


class ProcessPrefetcher(Generic[T]):
    """What `Prefetcher` does, by processes: for a caller whose own thread must not wait for Python's global lock.

    Beside a GPU that needs thousands of launches a second, loading threads slow the caller down even while nothing is
    waited for. The processes are forked: `load` needs no pickling, must not touch CUDA, and returns tensors.

    Args:
        load, start, stop: as for `Prefetcher`.
        workers: processes; each loads three items ahead.
        pin: put the tensors in page-locked memory, from where copies to a GPU do not wait.

    Example:
        >>> with ProcessPrefetcher(load, stop=1000, workers=2, pin=torch.cuda.is_available()) as batches:
        ...     images, labels = next(batches)
    """

    def __init__(self, load: Callable[[int], T], *, start: int = 0, stop: int, workers: int, pin: bool = False) -> None:
        check_integer("start", start, 0)
        check_integer("stop", stop, 0)
        check_integer("workers", workers, 1)
        if "fork" not in get_all_start_methods():
            raise ValueError("this system cannot fork processes: load with threads, or with workers=0")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This DataLoader will create")
            loader: DataLoader[Any] = DataLoader(
                _Steps(load),
                batch_size=None,
                sampler=range(start, max(start, stop)),
                num_workers=workers,
                prefetch_factor=3,
                pin_memory=pin,
                multiprocessing_context="fork",
            )
            self._items: Iterator[Any] = iter(loader)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        item = next(self._items)
        if isinstance(item, Exception):
            self.close()
            raise item
        result: T = item
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the iteration and the processes."""
        self._items = iter(())


class _Steps(Dataset[Any]):
    """Steps to items; an error is an item too, so that it arrives as it was raised."""

    def __init__(self, load: Callable[[int], Any]) -> None:
        self.load = load

    def __getitem__(self, step: int) -> Any:
        try:
            return self.load(step)
        except Exception as error:
            return error
