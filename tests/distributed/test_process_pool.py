"""A pool of processes ends with whoever asked for it."""

import multiprocessing
import os
import time
from pathlib import Path

import pytest
import torch

from hypersphere.distributed import process_pool
from tests.heads.shard_worker import warm_context

_here: list[str] = []


def _begin(word: str) -> None:
    _here.append(word)


def _word() -> tuple[str, int]:
    return _here[-1], os.getpid()


def _wait(began: Path, ended: Path) -> None:
    began.touch()
    time.sleep(60)
    ended.touch()


@pytest.fixture(autouse=True)
def _warm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.multiprocessing, "get_context", lambda _: warm_context())


def test_tasks_run_in_processes_that_have_begun() -> None:
    with process_pool(2, _begin, "ready") as pool:
        word, process = pool.submit(_word).result()
    assert word == "ready"
    assert process != os.getpid()


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, ValueError])
def test_an_interruption_ends_what_runs_and_what_was_to_come(tmp_path: Path, interruption: type[BaseException]) -> None:
    began, ended = tmp_path / "began", tmp_path / "ended"
    with pytest.raises(interruption), process_pool(1, _begin, "") as pool:  # noqa: PT012
        tasks = [pool.submit(_wait, began, ended) for _ in range(3)]
        while not began.exists():
            assert not tasks[0].done()
            time.sleep(0.01)
        raise interruption
    assert not multiprocessing.active_children()
    assert not ended.exists()
