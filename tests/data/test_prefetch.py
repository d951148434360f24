"""Loading ahead: in order, bounded, errors in their place, no thread left behind."""

import gc
import multiprocessing
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import hypersphere.data as room
from hypersphere.data import FolderSource, Prefetcher, ProcessPrefetcher
from tests.data.samples import make_folder


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("prefetch")]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    assert not threads()
    yield
    assert not threads()


def uneven(step: int) -> int:
    time.sleep(0.003 * (step * 7 % 5 == 0))
    return step


@pytest.mark.parametrize(("workers", "depth"), [(0, None), (1, 1), (1, 4), (3, 1), (3, None), (8, 20)])
def test_the_order_is_that_of_the_steps(workers: int, depth: int | None) -> None:
    with Prefetcher(uneven, start=5, stop=40, workers=workers, depth=depth) as items:
        assert list(items) == list(range(5, 40))
        assert list(items) == []
    with Prefetcher(uneven, start=3, stop=3, workers=workers, depth=depth) as items:
        assert list(items) == []


def test_batches_are_the_same_whatever_the_number_of_threads(tmp_path: Path) -> None:
    source = FolderSource(make_folder(tmp_path / "set", each=4))
    order = np.random.default_rng(0).integers(0, len(source), (10, 5))
    results = []
    for workers in (0, 1, 4):
        with Prefetcher(lambda step: source.batch(order[step]), stop=10, workers=workers) as batches:
            results.append(torch.stack(list(batches)))
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_no_more_than_the_depth_is_loaded_ahead() -> None:
    begun: list[int] = []
    with Prefetcher(lambda step: begun.append(step) or step, stop=100, workers=2, depth=3) as items:  # type: ignore[func-returns-value]
        deadline = time.monotonic() + 10
        while len(begun) < 3 and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.02)
        assert sorted(begun) == [0, 1, 2]
        assert next(items) == 0
        assert next(items) == 1
        time.sleep(0.02)
        assert set(begun) <= set(range(5))


def test_several_are_loaded_at_once() -> None:
    meeting = threading.Barrier(3, timeout=30)
    with Prefetcher(lambda step: meeting.wait() >= 0 and step, stop=6, workers=3) as items:
        assert list(items) == list(range(6)), "each load waits for two others"


def broken(step: int) -> int:
    if step >= 4:
        raise OSError(f"step {step} lies on a bad block") from ValueError("the first cause")
    return step


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_an_error_comes_in_its_place_with_its_cause(workers: int) -> None:
    items = Prefetcher(broken, stop=100, workers=workers)
    assert [next(items) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(OSError, match="step 4 lies on a bad block") as caught:
        next(items)
    assert str(caught.value.__cause__) == "the first cause"
    assert "in broken" in "".join(traceback.format_exception(caught.value))
    assert list(items) == [], "an error ends the iteration"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_leaving_by_an_error_ends_the_threads(error: type[BaseException]) -> None:
    begun: list[int] = []
    items = Prefetcher(begun.append, stop=1000, workers=2, depth=50)

    def use() -> None:
        with items:
            next(items)
            raise error

    with pytest.raises(error):
        use()
    assert list(items) == []
    assert len(begun) <= 51


def test_one_that_is_dropped_without_closing_ends_its_threads() -> None:
    items = Prefetcher(uneven, stop=1000, workers=2)
    next(items)
    del items
    gc.collect()
    deadline = time.monotonic() + 10
    while threads() and time.monotonic() < deadline:
        time.sleep(0.005)


@pytest.mark.parametrize(
    "end",
    [
        "sys.exit(3)",
        "signal.signal(signal.SIGINT, signal.default_int_handler); os.kill(os.getpid(), signal.SIGINT); time.sleep(30)",
    ],
)
def test_a_process_ends_although_items_are_ahead(end: str) -> None:
    code = textwrap.dedent(
        """
        import os, signal, sys, time
        from hypersphere.data import Prefetcher
        items = Prefetcher(lambda step: time.sleep(0.01) or step, stop=10**6, workers=2, depth=8)
        next(items)
        """
    )
    path = {"PYTHONPATH": str(Path(room.__file__).parents[2])}
    command = [sys.executable, "-c", code + end]
    done = subprocess.run(command, capture_output=True, text=True, env=path, timeout=60, check=False)
    assert done.returncode in (3, -2, 130)
    assert ("KeyboardInterrupt" in done.stderr) == (end != "sys.exit(3)")


def test_wrong_arguments() -> None:
    for settings, message in [
        ({"workers": -1}, "workers=-1 must be an integer of at least 0"),
        ({"depth": 0}, "depth=0 must be an integer of at least 1"),
        ({"start": -2}, "start=-2"),
    ]:
        with pytest.raises(ValueError, match=message):
            Prefetcher(uneven, **{"stop": 4, **settings})


@pytest.mark.parametrize("workers", [1, 3])
def test_processes_load_in_order_what_the_step_says(workers: int) -> None:
    with ProcessPrefetcher(lambda step: torch.tensor([step, step**2]), start=5, stop=25, workers=workers) as items:
        assert [item.tolist() for item in items] == [[step, step**2] for step in range(5, 25)]


def test_an_error_in_a_process_arrives_as_it_was_raised() -> None:
    def load(step: int) -> torch.Tensor:
        if step == 3:
            raise ValueError("photo.jpg: no image")
        return torch.tensor(step)

    items = ProcessPrefetcher(load, stop=10, workers=2)
    assert [int(next(items)) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match=r"^photo.jpg: no image$"):
        next(items)
    with pytest.raises(StopIteration):
        next(items)


def test_no_process_outlives_its_prefetcher() -> None:
    with ProcessPrefetcher(torch.tensor, stop=1000, workers=2) as items:
        next(items)
        assert len(multiprocessing.active_children()) >= 2
    gc.collect()
    assert not [child for child in multiprocessing.active_children() if "DataLoader" in child.name or child.is_alive()]
