"""`hypersphere evaluate` that is killed while it writes leaves a whole result, or none that counts as one."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from hypersphere.cli import main
from hypersphere.evaluation import read_result

EVENTS = 60
"""More syncs and renames than one evaluation makes."""


def words(folder: Path, seed: int) -> list[str]:
    """An evaluation of random embeddings into `folder/result`."""
    names = [f"{person}/{number}.png" for person in range(10) for number in range(4)]
    (folder / "names.txt").write_text("".join(f"{name}\n" for name in names))
    pairs = [(names[4 * p], names[4 * p + 1], 1) for p in range(10)]
    pairs += [(names[4 * p + 2], names[(4 * p + 7) % 40], 0) for p in range(10)]
    (folder / "pairs.txt").write_text("".join(f"{a} {b} {same}\n" for a, b, same in pairs))
    embeddings = folder / f"{seed}.npy"
    np.save(embeddings, np.random.default_rng(seed).normal(size=(40, 8)))
    lists = ["--names", str(folder / "names.txt"), "--pairs", str(folder / "pairs.txt")]
    return ["evaluate", "pairs", "-q", "--embeddings", str(embeddings), *lists, "--out", str(folder / "result")]


def killed_at(event: int, arguments: list[str]) -> int:
    """Run a command in a fork that dies at its n-th sync or rename; returns how it ended."""
    child = os.fork()
    if child == 0:
        left = event

        def count() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        flush, replace = os.fsync, os.replace
        os.fsync = lambda file: (count(), flush(file))  # type: ignore[assignment, func-returns-value]
        os.replace = lambda *names: (count(), replace(*names), count())  # type: ignore[assignment, func-returns-value]
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os._exit(main(arguments))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_a_killed_evaluation_leaves_a_whole_result_or_none(tmp_path: Path, stride: int) -> None:
    first, second = words(tmp_path, 0), words(tmp_path, 1)
    assert main(first) == 0
    accuracies = {read_result(tmp_path / "result").metrics["accuracy"].value}
    ends: list[int] = []
    refusals: list[str] = []
    for event in range(1, EVENTS, stride):
        ends.append(killed_at(event, first if len(ends) % 2 else second))
        try:
            accuracies.add(read_result(tmp_path / "result").metrics["accuracy"].value)
        except ValueError as error:  # half replaced
            refusals.append(str(error))
        if ends[-1] == 0:
            break
    assert ends[-1] == 0, "the last one was not killed"
    assert set(ends[:-1]) == {-signal.SIGKILL}
    assert main(second) == 0
    accuracies.add(read_result(tmp_path / "result").metrics["accuracy"].value)
    assert len(accuracies) == 2
    assert all(str(tmp_path / "result") in message for message in refusals)
